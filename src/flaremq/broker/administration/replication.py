"""What brokers and tools ask about replication: its state, and the tables of a master that only slaves want."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from flaremq.broker.delay.timer import TimerService
from flaremq.broker.role import Role
from flaremq.java_json import write_java_json
from flaremq.protocol.bodies.replication import HARuntimeInfo
from flaremq.protocol.bodies.topic import DataVersion
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.controller import ExchangeHAInfoHeader, ResetMasterFlushOffsetHeader

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)


class HAFacts(Protocol):
    """What replication tells about itself: ``broker.ha_service.HAService``."""

    master_flush_offset: int  # as set by tools; shown, used for nothing

    def runtime_info(self) -> HARuntimeInfo: ...

    def own_addresses(self) -> tuple[str, str]:
        """Where clients and where slaves find this broker."""

    def look_for_master(self) -> None:
        """Ask the name servers who the master is."""


class ReplicationHandler:
    """Answers slaves, other members of the group and mqadmin."""

    def __init__(self, role: Role, timer: TimerService, has_timers: Callable[[], bool], facts: HAFacts) -> None:
        self._role = role
        self._timer = timer
        self._has_timers = has_timers
        self._facts = facts

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.GET_TIMER_CHECK_POINT, self.timer_check_point)
        table.register(RequestCode.GET_TIMER_METRICS, self.timer_metrics)
        table.register(RequestCode.EXCHANGE_BROKER_HA_INFO, self.exchange_ha_info)
        table.register(RequestCode.GET_BROKER_HA_STATUS, self.ha_status)
        table.register(RequestCode.RESET_MASTER_FLUSH_OFFSET, self.reset_master_flush_offset)

    # What slaves copy

    async def timer_check_point(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if not self._has_timers():
            raise RequestError(ResponseCode.SYSTEM_ERROR, "this broker delivers no timed messages")
        return RemotingCommand.response(body=await self._timer.check_point())

    def timer_metrics(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """Nothing is counted by topic here; an empty table of a version that never changes is taken over once."""
        body = {"dataVersion": DataVersion().to_value(), "timingCount": {}}
        return RemotingCommand.response(body=write_java_json(body))

    # The group

    def exchange_ha_info(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """A member of the group says who the master is, or asks a master who it is.

        RocketMQ follows whatever address anybody sends. Here it is a hint: the name servers are asked.
        """
        header = ExchangeHAInfoHeader.decode(request.ext)
        told = header.master_address or header.master_ha_address
        if told:
            if not self._role.is_master:
                _log.info("%s says that %s is the master: the name servers are asked", connection.peer, told[:255])
                self._facts.look_for_master()
            return RemotingCommand.response()
        if not self._role.is_master:
            return RemotingCommand.response()
        address, ha_address = self._facts.own_addresses()
        answer = ExchangeHAInfoHeader(
            master_address=address, master_ha_address=ha_address, master_flush_offset=self._facts.master_flush_offset
        )
        return RemotingCommand.response(ext=answer.encode())

    def ha_status(self, connection: Connection, request: RemotingCommand) -> Outcome:
        return RemotingCommand.response(body=self._facts.runtime_info().to_json())

    def reset_master_flush_offset(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """RocketMQ keeps the number, shows it and uses it for nothing; a slave here does the same."""
        offset = ResetMasterFlushOffsetHeader.decode(request.ext).master_flush_offset
        if offset is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "masterFlushOffset must be a number")
        if not self._role.is_master:
            self._facts.master_flush_offset = offset
        return RemotingCommand.response()

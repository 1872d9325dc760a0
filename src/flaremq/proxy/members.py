"""MemberLinks: a client of gRPC as brokers see it, registered on connections of its own.

Brokers register a client by its connection and ask it back over that one: how its transactions ended, what it is doing,
whether it can consume a message. So each client has one connection to each broker that has topics of it, and the end of
that connection is the end of the client there, also when this process dies.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from flaremq.errors import FlareMQError, UnavailableError
from flaremq.grpc.backends.backend import Member
from flaremq.protocol.bodies.client import HeartbeatData
from flaremq.protocol.codes import VERSION, RequestCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions

_log = logging.getLogger(__name__)
_TIMEOUT: Final = 3.0
_AGAIN_SECONDS: Final = 20.0  # brokers forget a client after 120
# What brokers ask of clients.
_ASKED: Final = (
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)


class MemberLink:
    """The connections of one client. Event loop only."""

    def __init__(self, member: Member, remoting: RemotingOptions) -> None:
        self._member = member
        table = HandlerTable()
        for code in _ASKED:
            table.register(code, self._asked, "client")
        self._client = RemotingClient(remoting, table)
        self._addresses: dict[str, str] = {}
        self._told: dict[str, tuple[float, HeartbeatData]] = {}

    async def tell(self, addresses: Mapping[str, str], data: HeartbeatData) -> None:
        """A heartbeat to each broker that has not heard the same a short time ago.

        Raises what the last one failed with if no broker took it.
        """
        self._addresses.update(addresses)
        outcomes = await asyncio.gather(
            *(self._tell(name, address, data) for name, address in addresses.items()), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            if not isinstance(failure, FlareMQError | TimeoutError):
                raise failure
            _log.info("client %s is not registered at a broker: %s", self._member.client_id, failure)
        if failures and len(failures) == len(outcomes):
            raise failures[-1]

    async def _tell(self, name: str, address: str, data: HeartbeatData) -> None:
        told = self._told.get(name)
        is_fresh = told is not None and told[1] == data and time.monotonic() - told[0] < _AGAIN_SECONDS
        if is_fresh and self._client.connected(address) is not None:
            return
        command = RemotingCommand.request(RequestCode.HEART_BEAT, body=data.to_json())
        command.language, command.version = self._member.language, VERSION
        reply = await self._client.request(address, command, _TIMEOUT)
        if reply.code:
            raise RequestError(reply.code, reply.remark or f"{name} does not register the client")
        self._told[name] = time.monotonic(), data

    async def _asked(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        broker = next(
            (name for name, address in self._addresses.items() if self._client.connected(address) is connection), ""
        )
        try:
            return await self._member.asked(broker, request)
        except UnavailableError as error:
            _log.info("client %s was not asked: %s", self._member.client_id, error)
            raise

    async def close(self) -> None:
        await self._client.close()

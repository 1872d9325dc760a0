"""What controllers and tools ask of a broker under a controller."""

from __future__ import annotations

from flaremq.broker.controller_mode.controller_mode import ControllerMode
from flaremq.broker.options import BrokerOptions
from flaremq.protocol.bodies.controller import OPEN_END, EpochEntry, EpochEntryCache
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.controller import NotifyBrokerRoleChangedRequestHeader
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, Outcome
from flaremq.storage.engine.driver import StoreDriver


class ControllerModeHandler:
    """GET_BROKER_EPOCH_CACHE and NOTIFY_BROKER_ROLE_CHANGED."""

    def __init__(self, mode: ControllerMode, options: BrokerOptions, driver: StoreDriver) -> None:
        self._mode = mode
        self._options = options
        self._driver = driver

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.GET_BROKER_EPOCH_CACHE, self.epochs)
        table.register(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, self.role_changed)

    def epochs(self, connection: Connection, request: RemotingCommand) -> Outcome:
        entries = self._mode.epochs.table.entries
        ends = [entry.start_offset for entry in entries[1:]] + [OPEN_END]
        cache = EpochEntryCache(
            cluster_name=self._options.broker_cluster_name,
            broker_name=self._options.broker_name,
            broker_id=self._mode.membership.broker_id or 0,
            epoch_list=tuple(
                EpochEntry(epoch=entry.epoch, start_offset=entry.start_offset, end_offset=end)
                for entry, end in zip(entries, ends, strict=False)
            ),
            max_offset=self._driver.appended,
        )
        return RemotingCommand.response(body=cache.to_json())

    def role_changed(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """Anybody may send this: it makes us ask the controller that we know, nothing else."""
        header = NotifyBrokerRoleChangedRequestHeader.decode(request.ext)
        self._mode.notified(header.master_epoch or 0)
        return RemotingCommand.response()

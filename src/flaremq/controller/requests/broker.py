"""Requests of brokers: an id, registration, heartbeats, elections, the SyncStateSet."""

from __future__ import annotations

from collections.abc import Callable

from flaremq.controller.office import Office
from flaremq.controller.outcomes import Reply
from flaremq.controller.requests.answers import answered, command_of
from flaremq.errors import InvalidArgumentError
from flaremq.protocol.bodies.controller import SyncStateSet
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers import controller as headers
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable


class BrokerHandlers:
    """Speaks for the office to brokers. ``lost`` is called when a broker's connection has closed."""

    def __init__(self, office: Office, lost: Callable[[], None]) -> None:
        self._office = office
        self._lost = lost
        self._sources: set[Connection] = set()  # open connections that carried heartbeats

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.BROKER_HEARTBEAT, self.heartbeat, lane="heartbeat")
        for code, answer in {
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self.next_broker_id,
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self.apply_broker_id,
            RequestCode.CONTROLLER_REGISTER_BROKER: self.register_broker,
            RequestCode.CONTROLLER_ELECT_MASTER: self.elect_master,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self.replica_info,
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self.alter_sync_state_set,
        }.items():
            table.register(code, answered(answer), lane="client")

    def heartbeat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = BrokerHeartbeatRequestHeader.decode(request.ext)
        if connection not in self._sources:
            self._sources.add(connection)
            connection.on_close.append(self._closed)
        try:
            return command_of(self._office.heartbeat(header, connection))
        except InvalidArgumentError as error:
            raise RequestError(ResponseCode.CONTROLLER_INVALID_REQUEST, str(error)) from error

    def _closed(self, connection: Connection) -> None:
        self._sources.discard(connection)
        self._office.source_closed(connection)
        self._lost()

    async def next_broker_id(self, _: Connection, request: RemotingCommand) -> Reply:
        header = headers.GetNextBrokerIdRequestHeader.decode(request.ext)
        return await self._office.change(lambda state, now: state.next_broker_id(header))

    async def apply_broker_id(self, _: Connection, request: RemotingCommand) -> Reply:
        header = headers.ApplyBrokerIdRequestHeader.decode(request.ext)
        return await self._office.change(lambda state, now: state.apply_broker_id(header))

    async def register_broker(self, _: Connection, request: RemotingCommand) -> Reply:
        header = headers.RegisterBrokerToControllerRequestHeader.decode(request.ext)
        return await self._office.change(lambda state, now: state.register_broker(header, now))

    async def elect_master(self, _: Connection, request: RemotingCommand) -> Reply:
        header = headers.ElectMasterRequestHeader.decode(request.ext)
        return await self._office.change(lambda state, now: state.elect_master(header, now))

    async def replica_info(self, _: Connection, request: RemotingCommand) -> Reply:
        header = headers.GetReplicaInfoRequestHeader.decode(request.ext)
        return self._office.state.replica_info(header)

    async def alter_sync_state_set(self, _: Connection, request: RemotingCommand) -> Reply:
        header = headers.AlterSyncStateSetRequestHeader.decode(request.ext)
        body = SyncStateSet.from_json(request.body_bytes)
        return await self._office.change(lambda state, now: state.alter_sync_state_set(header, body, now))

"""Requests of administrators: who leads, who is in sync, what to forget, the options of the server."""

from __future__ import annotations

from typing import Final

from flaremq.controller.office import Office
from flaremq.controller.options import ControllerOptions
from flaremq.controller.outcomes import Reply
from flaremq.controller.requests.answers import answered
from flaremq.errors import RemoteProtocolError
from flaremq.options_file import OptionsFile
from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, parse_body
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers import controller as headers
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.server.live_options import LiveOptions
from flaremq.server.option_requests import OptionRequests

_NAMES_MAX: Final = 10_000


class AdminHandlers:
    """Speaks for the office to administrators, and for the server itself."""

    def __init__(self, office: Office, options: ControllerOptions, file: OptionsFile | None = None) -> None:
        self._office = office
        self._options = options
        self._config = OptionRequests(LiveOptions(options.layers, options.ONLY_IN_ROCKETMQ, file=file))

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.CONTROLLER_GET_METADATA_INFO, answered(self.metadata))
        table.register(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, answered(self.sync_state_data))
        table.register(RequestCode.CLEAN_BROKER_DATA, answered(self.clean_broker_data))
        table.register(RequestCode.UPDATE_CONTROLLER_CONFIG, self._config.change)
        table.register(RequestCode.GET_CONTROLLER_CONFIG, self._config.show)

    async def metadata(self, _: Connection, request: RemotingCommand) -> Reply:
        """Who leads. Every controller answers this."""
        store = self._office.store
        leader = store.leader
        header = headers.GetMetaDataResponseHeader(
            group=self._options.controller_d_leger_group,
            controller_leader_id=None if leader is None else leader.peer_id,
            controller_leader_address=None if leader is None else leader.address,
            is_leader=store.is_leading,
            peers="".join(f"{peer.peer_id}:{peer.address};" for peer in store.peers),
        )
        return Reply(header=header)

    async def sync_state_data(self, _: Connection, request: RemotingCommand) -> Reply:
        body = request.body_bytes
        if len(body) > CLIENT_BODY_SIZE_MAX:
            raise RemoteProtocolError(f"a list of broker names has {len(body)} bytes")
        names = parse_body(body, "the list of broker names") if body else []
        if not isinstance(names, list) or len(names) > _NAMES_MAX or not all(isinstance(name, str) for name in names):
            raise RemoteProtocolError(f"a list of at most {_NAMES_MAX} broker names is needed")
        return self._office.state.sync_state_data(dict.fromkeys(names), self._office.now)

    async def clean_broker_data(self, _: Connection, request: RemotingCommand) -> Reply:
        header = headers.CleanControllerBrokerDataRequestHeader.decode(request.ext)
        return await self._office.change(lambda state, now: state.clean_broker_data(header, now))

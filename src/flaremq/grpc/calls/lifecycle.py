"""Heartbeat and NotifyClientTermination."""

from __future__ import annotations

from typing import Any

from flaremq.grpc.call import Call
from flaremq.grpc.calls.sessions import Sessions
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import ClientType, Code
from flaremq.grpc.rules.names import group_of
from flaremq.grpc.rules.settings import CONSUMERS, PRODUCERS
from flaremq.grpc.rules.status import OK, Refused


class Lifecycle:
    """Clients say that they are there, and that they leave."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def heartbeat(self, request: Any, call: Call) -> Any:
        """Keep a client alive.

        A client needs no settings for that: after a restart of the server some send theirs only minutes later, and the
        original leaves them without messages until then, or lets producers take it for broken.
        """
        session = self._sessions.find(call)
        client_type = session.client_type if session is not None else request.client_type
        if client_type in CONSUMERS:
            if not request.HasField("group") and (session is None or not session.group):
                raise Refused(Code.ILLEGAL_CONSUMER_GROUP, "the heartbeat of a consumer names its group")
            group = group_of(request.group) if request.HasField("group") else ""
            session = self._sessions.meet(call)
            if not session.group:
                session.client_type = ClientType(client_type)
                session.group = group
        elif client_type not in PRODUCERS:
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, "the client has not said what it is")
        if session is not None:
            await self._sessions.register(session)
        return classes.HeartbeatResponse(status=OK)

    async def notify_client_termination(self, request: Any, call: Call) -> Any:
        session = self._sessions.find(call)
        if session is None:
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, "there is no such client")
        self._sessions.remove(session)
        return classes.NotifyClientTerminationResponse(status=OK)

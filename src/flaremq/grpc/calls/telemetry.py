"""Telemetry: the stream on which a client tells what it is, hears its settings, and is asked questions."""

from __future__ import annotations

from typing import Any, Final

from flaremq.errors import FlareMQError
from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.call import Call, GrpcError, StatusCode, Stream
from flaremq.grpc.calls.sessions import Session, Sessions
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import ClientType, Code, FilterType
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import client_id_of, group_of, topic_of
from flaremq.grpc.rules.settings import PRODUCERS, completed
from flaremq.grpc.rules.status import OK, Refused, of_error
from flaremq.message.tags import SQL92, TAG
from flaremq.protocol.bodies.client import SubscriptionData

_SERVED: Final = frozenset((ClientType.PRODUCER, ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER))
_TOPICS_MAX: Final = 2_048  # of one client
_PROPERTIES_MAX: Final = 32
_PROPERTY_BYTES_MAX: Final = 4_096
_SETTINGS_BYTES_MAX: Final = 262_144  # they are kept as long as the client is there


class Telemetry:
    """Serves the streams of clients."""

    def __init__(self, backend: Backend, sessions: Sessions, limits: CallLimits) -> None:
        self._backend = backend
        self._sessions = sessions
        self._limits = limits

    async def telemetry(self, stream: Stream, call: Call) -> None:
        try:
            client_id_of(call.client_id)
        except Refused as refused:
            await stream.send(classes.TelemetryCommand(status=refused.status))
            return
        session: Session | None = None
        try:
            async for command in stream:
                kind = command.WhichOneof("command")
                if kind == "settings":
                    session = await self._take_settings(command.settings, call)
                    await self._welcome(session, stream)  # from here on it is known that the stream was lost
                elif session is not None:
                    _take_answer(session, kind, command)
        except Refused as refused:
            is_full = refused.code is Code.TOO_MANY_REQUESTS
            status = StatusCode.RESOURCE_EXHAUSTED if is_full else StatusCode.INVALID_ARGUMENT
            raise GrpcError(status, refused.message) from None
        except FlareMQError as error:
            raise GrpcError(StatusCode.INTERNAL, of_error(error).message) from None
        finally:
            if session is not None:
                self._sessions.lost_stream(session, stream)

    async def _take_settings(self, settings: Any, call: Call) -> Session:
        kind = settings.WhichOneof("pub_sub")
        if kind is None:
            raise GrpcError(StatusCode.INVALID_ARGUMENT, "the settings are neither of a producer nor of a consumer")
        if settings.client_type not in _SERVED:
            raise GrpcError(StatusCode.INTERNAL, f"clients of type {settings.client_type} are not served here")
        if (settings.client_type in PRODUCERS) != (kind == "publishing"):
            raise GrpcError(StatusCode.INVALID_ARGUMENT, f"clients of type {settings.client_type} have no {kind}")
        _check_properties(settings)
        size = settings.ByteSize()
        if size > _SETTINGS_BYTES_MAX:
            raise GrpcError(StatusCode.INVALID_ARGUMENT, f"settings of {size} bytes, at most {_SETTINGS_BYTES_MAX}")
        if kind == "publishing":
            return await self._producer(settings, call)
        return await self._consumer(settings, call)

    async def _welcome(self, session: Session, stream: Stream) -> None:
        """Let the brokers know of a client, and it of its settings."""
        session.stream = stream
        session.lost_at = None
        await self._sessions.register(session)
        await stream.send(classes.TelemetryCommand(status=OK, settings=session.settings))

    async def _producer(self, settings: Any, call: Call) -> Session:
        _check_count(len(settings.publishing.topics))
        topics = tuple(dict.fromkeys(topic_of(topic) for topic in settings.publishing.topics))
        session = self._sessions.meet(call)
        session.client_type = ClientType(settings.client_type)
        self._sessions.keep(session, completed(settings, self._limits, None))
        session.topics = topics
        return session

    async def _consumer(self, settings: Any, call: Call) -> Session:
        subscription = settings.subscription
        _check_count(len(subscription.subscriptions))
        name = group_of(subscription.group)
        version = self._backend.now_ms()
        subscriptions = tuple(_subscription(entry, version) for entry in subscription.subscriptions)
        group = await self._backend.find_group(name)
        if group is None:
            raise GrpcError(StatusCode.INVALID_ARGUMENT, f"group not found: {name}")
        session = self._sessions.meet(call)
        session.client_type = ClientType(settings.client_type)
        self._sessions.keep(session, completed(settings, self._limits, group))
        session.group = name
        session.subscriptions = subscriptions
        return session


def _subscription(entry: Any, version: int) -> SubscriptionData:
    expression = entry.expression
    return SubscriptionData(
        topic=topic_of(entry.topic),
        sub_string=expression.expression or "*",
        expression_type=SQL92 if expression.type == FilterType.SQL else TAG,
        sub_version=version,
    )


def _check_count(count: int) -> None:
    if count > _TOPICS_MAX:
        raise GrpcError(StatusCode.INVALID_ARGUMENT, f"a client has at most {_TOPICS_MAX} topics, not {count}")


def _check_properties(settings: Any) -> None:
    properties = settings.client_properties
    size = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
    if len(properties) > _PROPERTIES_MAX or size > _PROPERTY_BYTES_MAX:
        raise GrpcError(
            StatusCode.INVALID_ARGUMENT,
            f"a client has at most {_PROPERTIES_MAX} properties of {_PROPERTY_BYTES_MAX} bytes together",
        )


def _take_answer(session: Session, kind: str | None, command: Any) -> None:
    if kind == "thread_stack_trace":
        session.answered(command.thread_stack_trace.nonce, command)
    elif kind == "verify_message_result":
        session.answered(command.verify_message_result.nonce, command)

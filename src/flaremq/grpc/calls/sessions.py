"""Sessions: the clients that are there, what they said they are, and how to reach them.

A client comes into being by whatever call names it first and lives while it sends heartbeats; when its Telemetry stream
breaks it has a short time to open another one, then it counts as dead (the original waits for the heartbeats of a
killed client to expire, and gives its messages to nobody meanwhile).

A client id is but a word, so clients are told apart by their account as well.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

from flaremq.errors import FlareMQError, UnavailableError
from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.call import Call, Stream
from flaremq.grpc.messages.enums import ClientType, Code
from flaremq.grpc.rules.languages import language_of
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.settings import PUSH
from flaremq.grpc.rules.status import Refused
from flaremq.protocol.bodies.client import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from flaremq.protocol.command import RemotingCommand

_log = logging.getLogger(__name__)
_TICK_SECONDS: Final = 1.0

SessionKey = tuple[str, str]  # account, client id
Answer = Callable[["Session", str, RemotingCommand], Awaitable[RemotingCommand | None]]


class Session:
    """One client; a ``Member`` to the backend."""

    def __init__(self, call: Call, answer: Answer) -> None:
        self.client_id = call.client_id
        self.account = call.account
        self.language = language_of(call.language)
        self.version = call.metadata.get("x-mq-client-version", "")
        self.peer = call.peer
        self.client_type = ClientType.CLIENT_TYPE_UNSPECIFIED
        self.settings: Any = None  # as it was told them
        self.settings_bytes = 0
        self.group = ""
        self.topics: tuple[str, ...] = ()  # a producer's
        self.subscriptions: tuple[SubscriptionData, ...] = ()
        self.stream: Stream | None = None
        self.last_seen = 0.0
        self.lost_at: float | None = None  # its stream ended then, and no other came
        self._answer = answer
        self._questions: dict[str, asyncio.Future[Any]] = {}

    @property
    def key(self) -> SessionKey:
        return self.account, self.client_id

    @property
    def is_registered(self) -> bool:
        return bool(self.group or self.topics)

    async def asked(self, broker: str, request: RemotingCommand) -> RemotingCommand | None:
        return await self._answer(self, broker, request)

    def heartbeat(self) -> HeartbeatData:
        """What the client is, in the words of the other protocol."""
        consumers: tuple[ConsumerData, ...] = ()
        if self.group:
            kind = "CONSUME_PASSIVELY" if self.client_type in PUSH else "CONSUME_ACTIVELY"
            consumers = (
                ConsumerData(
                    group_name=self.group,
                    consume_type=kind,
                    message_model="CLUSTERING",
                    consume_from_where="CONSUME_FROM_LAST_OFFSET",
                    subscription_data_set=self.subscriptions,
                ),
            )
        return HeartbeatData(
            client_id=self.client_id,
            producer_data_set=tuple(ProducerData(group_name=topic) for topic in self.topics),
            consumer_data_set=consumers,
            without_sub=self.settings is None,
        )

    # Commands over its stream

    def push(self, command: Any) -> bool:
        """Send a command; False if there is no stream that takes it."""
        return self.stream is not None and self.stream.push(command)

    async def ask(self, make: Callable[[str], Any], seconds: float) -> Any:
        """Send a command that wants an answer, and wait for it; ``make`` is given its nonce."""
        nonce = uuid.uuid4().hex
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[nonce] = future
        try:
            if not self.push(make(nonce)):
                raise UnavailableError(f"client {self.client_id} has no Telemetry stream")
            async with asyncio.timeout(seconds):
                return await future
        finally:
            del self._questions[nonce]

    def answered(self, nonce: str, answer: Any) -> None:
        """The client's answer to a command."""
        future = self._questions.get(nonce)
        if future is not None and not future.done():
            future.set_result(answer)


class Sessions:
    """All clients of a door. Event loop only."""

    def __init__(self, backend: Backend, limits: CallLimits, answer: Answer) -> None:
        self._backend = backend
        self._limits = limits
        self._answer = answer
        self._sessions: dict[SessionKey, Session] = {}
        self._ticker: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._settings_bytes = 0  # of all clients
        self.on_gone: list[Callable[[Session], None]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def start(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    async def stop(self) -> None:
        """Everybody leaves."""
        if self._ticker is not None:
            self._ticker.cancel()
        for session in list(self._sessions.values()):
            self.remove(session)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._limits.request_timeout_ms / 1000)

    def find(self, call: Call) -> Session | None:
        """The client of a call; it has been heard of now."""
        session = self._sessions.get((call.account, call.client_id))
        if session is not None:
            session.last_seen = asyncio.get_running_loop().time()
            session.peer = call.peer
        return session

    def meet(self, call: Call) -> Session:
        """The client of a call, new or not."""
        session = self.find(call)
        if session is None:
            if len(self._sessions) >= self._limits.clients_max:
                raise Refused(
                    Code.TOO_MANY_REQUESTS, f"{len(self._sessions)} clients are here already, no more are allowed"
                )
            session = Session(call, self._answer)
            session.last_seen = asyncio.get_running_loop().time()
            self._sessions[session.key] = session
        return session

    def keep(self, session: Session, settings: Any) -> None:
        """Remember what a client was told."""
        size = settings.ByteSize()
        total = self._settings_bytes + size - session.settings_bytes
        if total > self._limits.settings_bytes_max:
            raise Refused(Code.TOO_MANY_REQUESTS, "the settings of all clients take too much room")
        self._settings_bytes, session.settings_bytes, session.settings = total, size, settings

    async def register(self, session: Session) -> None:
        """Let the brokers know what a client is, or that it is still there."""
        if not session.is_registered:
            return
        await self._backend.register(session, session.heartbeat())
        if self._sessions.get(session.key) is not session:
            await self._backend.unregister(session)  # it left meanwhile

    def remove(self, session: Session) -> None:
        """A client said goodbye, or is dead."""
        if self._sessions.get(session.key) is not session:
            return
        del self._sessions[session.key]
        self._settings_bytes -= session.settings_bytes
        if session.stream is not None:
            session.stream.finish()  # if it is there after all, it opens another one and tells its settings
        for callback in self.on_gone:
            callback(session)
        if session.is_registered:
            task = asyncio.get_running_loop().create_task(self._unregister(session))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _unregister(self, session: Session) -> None:
        try:
            await self._backend.unregister(session)
        except FlareMQError as error:
            _log.info("client %s could not be unregistered: %s", session.client_id, error)

    def lost_stream(self, session: Session, stream: Stream) -> None:
        """A Telemetry stream ended; another one may have come already."""
        if session.stream is stream:
            session.stream = None
            session.lost_at = asyncio.get_running_loop().time()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticker = loop.call_later(_TICK_SECONDS, self._tick)
        self.expire(loop.time())

    def expire(self, now: float) -> None:
        """Remove those that are gone by the loop's time ``now``."""
        silent = now - self._limits.client_expired_ms / 1000
        alone = now - self._limits.stream_grace_ms / 1000
        for session in list(self._sessions.values()):
            if session.last_seen < silent or (session.lost_at is not None and session.lost_at < alone):
                _log.info("client %s at %s is gone", session.client_id, session.peer)
                self.remove(session)

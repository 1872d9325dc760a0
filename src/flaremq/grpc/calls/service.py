"""MessagingService: all calls of the door, wired to one backend."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from flaremq.errors import FlareMQError
from flaremq.grpc.backends.backend import Backend
from flaremq.grpc.call import AtOnce, Call, Handlers, Send, UnaryHandler
from flaremq.grpc.calls.lifecycle import Lifecycle
from flaremq.grpc.calls.offsets import Offsets
from flaremq.grpc.calls.questions import Questions
from flaremq.grpc.calls.receiving import Receiving
from flaremq.grpc.calls.renewal import Renewal
from flaremq.grpc.calls.routes import Routes
from flaremq.grpc.calls.sending import Sending
from flaremq.grpc.calls.sessions import Session, Sessions
from flaremq.grpc.calls.settling import Settling
from flaremq.grpc.calls.telemetry import Telemetry
from flaremq.grpc.calls.transactions import Transactions
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import METHODS, Method
from flaremq.grpc.plain.wire import IS_COMPILED
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import client_id_of
from flaremq.grpc.rules.receipts import ReceiptSeal
from flaremq.grpc.rules.status import Refused, of_error

_FAILURES: Final = (Refused, FlareMQError, TimeoutError)
_ServerStream = Callable[[Any, Call, Send], Awaitable[None]]


class MessagingService:
    """``handlers`` answer the calls between ``start`` and ``stop``. Event loop only.

    ``seal_key``: handles that were made with the same one are good, also those of before a restart and of other
    servers. Without one only this service knows its handles.
    """

    def __init__(self, backend: Backend, limits: CallLimits | None = None, *, seal_key: bytes | None = None) -> None:
        limits = limits or CallLimits()
        seal = ReceiptSeal(seal_key or secrets.token_bytes(32))
        self._backend = backend
        self.transactions = Transactions(backend, limits)
        self.sessions = Sessions(backend, limits, Questions(self.transactions, limits).answer)
        self.renewal = Renewal(backend, limits)
        self.sessions.on_gone.append(self._gone)
        sending = Sending(backend, self.transactions, limits)
        self._receiving = receiving = Receiving(backend, self.sessions, self.renewal, seal, limits)
        settling = Settling(backend, self.renewal, seal, limits)
        routes = Routes(backend)
        lifecycle = Lifecycle(self.sessions)
        offsets = Offsets(backend, limits)
        unary: dict[str, UnaryHandler] = {
            "QueryRoute": routes.query_route,
            "QueryAssignment": routes.query_assignment,
            "Heartbeat": lifecycle.heartbeat,
            "NotifyClientTermination": lifecycle.notify_client_termination,
            "SendMessage": sending.send_message,
            "RecallMessage": sending.recall_message,
            "EndTransaction": self.transactions.end_transaction,
            "AckMessage": settling.ack_message,
            "ChangeInvisibleDuration": settling.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": settling.forward_to_dead_letters,
            "UpdateOffset": offsets.update_offset,
            "GetOffset": offsets.get_offset,
            "QueryOffset": offsets.query_offset,
            "SyncLiteSubscription": _no_lite_topics,
        }
        self.handlers: Handlers = {
            "Telemetry": Telemetry(backend, self.sessions, limits).telemetry,
            "ReceiveMessage": self._stream("ReceiveMessage", receiving.receive_message),
            "PullMessage": self._stream("PullMessage", offsets.pull_message),
            **{name: self._unary(name, handler) for name, handler in unary.items()},
        }
        # Interpreted, protobuf and the ordinary way are quicker.
        at_once = {"SendMessage": sending.send_at_once, "AckMessage": settling.ack_at_once} if IS_COMPILED else {}
        self.at_once = {name: _at_once(handler) for name, handler in at_once.items()}

    def start(self) -> None:
        self.sessions.start()
        self.renewal.start()

    async def stop(self) -> None:
        """Everybody leaves; the transport has ended the calls before."""
        await self._receiving.stop()
        await self.sessions.stop()
        await self.renewal.stop()

    def _gone(self, session: Session) -> None:
        self.renewal.client_gone(session.key)

    def _unary(self, name: str, handler: UnaryHandler) -> UnaryHandler:
        method = METHODS[name]

        def answer(request: Any, call: Call) -> Any:
            try:
                client_id_of(call.client_id)
                outcome = handler(request, call)
            except _FAILURES as error:
                return _failure(method, error)
            is_there = type(outcome) is method.reply or isinstance(outcome, asyncio.Future)
            return outcome if is_there else _answer(method, outcome)

        return answer

    def _stream(self, name: str, handler: _ServerStream) -> _ServerStream:
        method = METHODS[name]

        async def answer(request: Any, call: Call, send: Send) -> None:
            try:
                client_id_of(call.client_id)
                await handler(request, call, send)
            except _FAILURES as error:
                await send(_failure(method, error))

        return answer


def _at_once(handler: AtOnce) -> AtOnce:
    def answer(request: bytes, client_id: str, peer: str) -> bytes | None:
        try:
            client_id_of(client_id)
            return handler(request, client_id, peer)
        except Refused:  # the ordinary way says so
            return None

    return answer


async def _answer(method: Method, outcome: Awaitable[Any]) -> Any:
    try:
        return await outcome
    except _FAILURES as error:
        return _failure(method, error)


def _failure(method: Method, error: Exception) -> Any:
    refused = of_error(error)
    return method.failure(refused.code, refused.message)


async def _no_lite_topics(request: Any, call: Call) -> Any:
    raise Refused(Code.NOT_IMPLEMENTED, "there are no lite topics here")

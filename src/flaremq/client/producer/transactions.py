"""Transactional sends: a message that is delivered if, and only if, something local happened too.

The message is stored as a half that nobody can read; the listener does its local work and says commit or rollback.
If that word gets lost, or is "unknown", the broker asks back later, maybe another client of the group; ``check`` has
to find out from the local records how it ended.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable
from enum import Enum
from typing import Final, Protocol

from flaremq.client.instance import ClientInstance
from flaremq.client.options import ProducerOptions
from flaremq.client.producer.outgoing import prepare
from flaremq.client.producer.send_result import SendResult, SendStatus
from flaremq.client.producer.sender import Sender
from flaremq.errors import FlareMQError, InvalidArgumentError, TransactionStateError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.message_id import decode_message_id
from flaremq.message.properties import PRODUCER_GROUP, TRANSACTION_PREPARED
from flaremq.message.sys_flag import TransactionType
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection

_log = logging.getLogger(__name__)


class TransactionState(Enum):
    """How a local transaction ended; the values are those of the wire."""

    COMMIT = int(TransactionType.COMMIT)
    ROLLBACK = int(TransactionType.ROLLBACK)
    UNKNOWN = 0


Verdict = TransactionState | Awaitable[TransactionState]


class TransactionListener(Protocol):
    """The application's part. Both methods may be coroutines."""

    def execute(self, message: Message, argument: object) -> Verdict:
        """Do the local work that belongs to the message."""

    def check(self, message: MessageExt) -> Verdict:
        """Say how the local work for this message ended, long ago and maybe in another process."""


class TransactionResult:
    """The half message as it was stored, and how its transaction ended here."""

    __slots__ = ("send", "state")

    def __init__(self, send: SendResult, state: TransactionState) -> None:
        self.send = send
        self.state = state

    def __repr__(self) -> str:
        return f"TransactionResult({self.state.name}, {self.send!r})"


_CHECK_FIELDS: Final = ("tranStateTableOffset", "commitLogOffset")


class Transactions:
    """The transactions of one producer. Event loop thread only."""

    def __init__(
        self,
        instance: ClientInstance,
        sender: Sender,
        group: str,
        options: ProducerOptions,
        listener: TransactionListener | None,
    ) -> None:
        self._instance = instance
        self._sender = sender
        self._group = group
        self._options = options
        self._listener = listener
        if listener is not None:
            instance.handlers.register(RequestCode.CHECK_TRANSACTION_STATE, self._handle_check, "client")

    async def run(self, message: Message, argument: object) -> TransactionResult:
        """Send the half, let the listener work, tell the broker."""
        listener = self._listener
        if listener is None:
            raise InvalidArgumentError("a transaction needs a listener: Producer(..., listener=...)")
        if message.delay_level:
            raise InvalidArgumentError("a transactional message cannot be delayed")
        key = self._instance.make_unique_key()
        marks = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: self._group}
        half = prepare(message, key, self._options, marks)
        half.sys_flag = int(TransactionType.PREPARED)
        # Be known to the brokers first: they ask back on a connection that has sent a heartbeat.
        await self._sender.greet(message.topic)
        (sent,) = await self._sender.transmit([half])
        state = TransactionState.UNKNOWN
        try:
            if sent.status is SendStatus.SEND_OK:
                state = await _verdict(listener.execute(message, argument))
            else:
                state = TransactionState.ROLLBACK  # the half may be lost, so nothing must depend on it
        finally:
            await self._end(sent, state)
        return TransactionResult(sent, state)

    async def _end(self, sent: SendResult, state: TransactionState) -> None:
        """Tell the broker. If that fails it will ask, so this is no error."""
        ext = {
            "producerGroup": self._group,
            "topic": sent.queue.topic,
            "tranStateTableOffset": str(sent.queue_offset),
            "commitLogOffset": str(decode_message_id(sent.offset_message_id)[1]),
            "commitOrRollback": str(state.value),
            "fromTransactionCheck": "false",
            "msgId": sent.message_id,
            "transactionId": sent.transaction_id or sent.message_id,
            "bname": sent.queue.broker_name,
        }
        try:
            address = self._instance.routes.master(sent.queue.broker_name)
            if state is TransactionState.UNKNOWN:  # to which brokers send no reply
                await self._instance.transport.oneway(address, RequestCode.END_TRANSACTION, ext)
            else:
                await self._instance.transport.call(address, RequestCode.END_TRANSACTION, ext, what="the commit")
        except FlareMQError as error:
            _log.warning("the end of transaction %s could not be reported: %s", sent.message_id, error)

    def _handle_check(self, connection: Connection, request: RemotingCommand) -> None:
        message = MessageExt(request.body_bytes)
        message.topic  # noqa: B018  # read now: a record that is none is refused here
        self._instance.spawn(self._check(connection, request, message))

    async def _check(self, connection: Connection, request: RemotingCommand, message: MessageExt) -> None:
        listener = self._listener
        assert listener is not None
        try:
            state = await _verdict(listener.check(message))
        except Exception:
            _log.exception("the listener failed to check transaction %s", message.uniq_key)
            state = TransactionState.UNKNOWN
        ext = {name: request.field(name) for name in _CHECK_FIELDS}
        key = message.uniq_key or request.field("msgId")
        ext |= {
            "producerGroup": self._group,
            "commitOrRollback": str(state.value),
            "fromTransactionCheck": "true",
            "msgId": key,
            "transactionId": str((request.ext or {}).get("transactionId", key)),
        }
        for name in ("topic", "bname"):  # what 5.x wants to see again
            value = (request.ext or {}).get(name)
            if value is not None:
                ext[name] = str(value)
        connection.notify(self._instance.transport.command(RequestCode.END_TRANSACTION, ext, oneway=True))


async def _verdict(outcome: Verdict) -> TransactionState:
    state = await outcome if inspect.isawaitable(outcome) else outcome
    if not isinstance(state, TransactionState):
        raise TransactionStateError(f"a transaction listener must answer a TransactionState, not {state!r}")
    return state

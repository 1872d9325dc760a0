"""SendMessage and RecallMessage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from flaremq.errors import FlareMQError
from flaremq.grpc.backends.backend import Backend, SendOutcome, TopicQueues
from flaremq.grpc.backends.requests import recall_request
from flaremq.grpc.call import Call
from flaremq.grpc.calls.routes import MIXED, accepted_types, find_topic
from flaremq.grpc.calls.transactions import Transactions
from flaremq.grpc.framing import PREFIX_SIZE
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, Encoding, MessageType
from flaremq.grpc.plain.sends import read_plain_send, sent_reply
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.names import topic_of
from flaremq.grpc.rules.outgoing import Outgoing, check_body, outgoing
from flaremq.grpc.rules.queue_choice import queue_of_group
from flaremq.grpc.rules.recall_handles import broker_of
from flaremq.grpc.rules.status import OK, Refused, of_error, of_many, of_reply, of_send, status

_TURNS_MAX: Final = 65_536  # topics whose turn is remembered
_STORED: Final = frozenset(
    (Code.OK, Code.MASTER_PERSISTENCE_TIMEOUT, Code.SLAVE_PERSISTENCE_TIMEOUT, Code.HA_NOT_AVAILABLE)
)

_SENT: Final = classes.SendMessageResponse(status=OK).SerializeToString()  # and that of an entry is field 1, too


class Sending:
    """Takes messages."""

    def __init__(self, backend: Backend, transactions: Transactions, limits: CallLimits) -> None:
        self._backend = backend
        self._transactions = transactions
        self._limits = limits
        self._turns: dict[str, int] = {}
        self._names: dict[bytes, str] = {}  # of topics, that were looked at

    def send_message(self, request: Any, call: Call) -> Any:
        """A reply or an awaitable of one. A single message is sent in the turn of the loop in which it came."""
        if len(request.messages) == 1:
            message = request.messages[0]
            topic = self._backend.topic_at_hand(topic_of(message.topic))
            if topic is not None and message.system_properties.body_encoding != Encoding.GZIP:
                return self._send_single(self._outgoing(message, topic.name, call), topic, call)
        return self._send_many(request, call)

    def send_at_once(self, request: bytes, client_id: str, peer: str) -> bytes | None:
        """The reply, as it goes out, to a send that need not wait for anything; both with their length before them.

        None: nothing was done, it takes the ordinary way.
        """
        backend, limits = self._backend, self._limits
        if not backend.can_place():
            return None
        message = read_plain_send(
            request,
            PREFIX_SIZE,
            limits.max_message_size,
            limits.max_user_property_size,
            limits.user_property_max_num,
            backend.now_ms(),
            peer.rpartition(":")[0].encode(),
        )
        if message is None:
            return None
        topic = backend.topic_at_hand(self._names.get(message.topic) or self._learned(message.topic))
        if topic is None or not self._takes(topic, MessageType.NORMAL):
            return None
        offset = backend.place(topic.name, self._place(topic, None)[1], message, peer)
        if offset < 0:
            self._turns[topic.name] -= 1  # which is that of the ordinary way
            return None
        return sent_reply(_SENT, message.message_id, offset)

    def _learned(self, name: bytes) -> str:
        """The name of a topic that may be sent to; Refused if it may not."""
        text = topic_of(classes.Resource(name=name.decode()))
        if len(self._names) >= _TURNS_MAX:
            self._names.clear()
        self._names[name] = text
        return text

    def _send_single(self, message: Outgoing, topic: TopicQueues, call: Call) -> Any:
        self._check_type(message, topic)
        broker, queue_id = self._place(topic, message.message_group)
        outcome = self._backend.send(broker, queue_id, message, call)
        if not isinstance(outcome, asyncio.Future):
            return self._reply_later(message, broker, outcome)
        if outcome.done():
            return _reply([self._entry(message, broker, outcome.result())])
        # Callbacks and no task: with SYNC_FLUSH every send comes here.
        reply = outcome.get_loop().create_future()

        def stored(outcome: asyncio.Future[SendOutcome]) -> None:
            if not reply.done():
                reply.set_result(_reply([self._entry(message, broker, outcome.result())]))

        outcome.add_done_callback(stored)
        return reply

    async def _reply_later(self, message: Outgoing, broker: str, outcome: Awaitable[SendOutcome]) -> Any:
        return _reply([await self._entry_later(message, broker, outcome)])

    async def _send_many(self, request: Any, call: Call) -> Any:
        """All messages are checked before the first is stored; then each has a result of its own."""
        messages = request.messages
        if not messages:
            raise Refused(Code.MESSAGE_CORRUPTED, "there is no message to send")
        if len(messages) > self._limits.messages_per_send_max:
            raise Refused(
                Code.BAD_REQUEST,
                f"{len(messages)} messages in one call, at most {self._limits.messages_per_send_max} are taken",
            )
        name = topic_of(messages[0].topic)
        if len(messages) > 1 and any(message.topic.name != name for message in messages):
            raise Refused(Code.MESSAGE_CORRUPTED, "the messages of one call have different topics")
        for message in messages:
            check_body(message, self._limits)

        def read() -> list[Outgoing]:
            return [self._outgoing(message, name, call) for message in messages]

        is_compressed = any(message.system_properties.body_encoding == Encoding.GZIP for message in messages)
        ready = await asyncio.to_thread(read) if is_compressed else read()  # to inflate may take long
        topic = await find_topic(self._backend, name)
        for message in ready:
            self._check_type(message, topic)
        places = [self._place(topic, message.message_group) for message in ready]
        work = (
            self._entry_later(message, broker, self._backend.send(broker, queue_id, message, call))
            for message, (broker, queue_id) in zip(ready, places, strict=True)
        )
        return _reply(await asyncio.gather(*work))

    def _outgoing(self, message: Any, topic: str, call: Call) -> Outgoing:
        peer = call.peer.rpartition(":")[0]
        return outgoing(message, topic, self._limits, peer=peer, now_ms=self._backend.now_ms())

    def _place(self, topic: TopicQueues, message_group: str | None) -> tuple[str, int]:
        """The broker and the queue of a message."""
        count = sum(queues.write for queues in topic.brokers if queues.is_writable)
        if count <= 0:
            raise Refused(Code.FORBIDDEN, f"topic {topic.name} has no queue that may be written to")
        if message_group is not None:
            at = queue_of_group(message_group, count)
        else:
            if len(self._turns) >= _TURNS_MAX:
                self._turns.clear()
            at = self._turns.get(topic.name, -1) + 1
            self._turns[topic.name] = at
            at %= count
        for queues in topic.brokers:
            if queues.is_writable:
                if at < queues.write:
                    return queues.broker, at
                at -= queues.write
        raise AssertionError("the place is below the count")

    async def _entry_later(self, message: Outgoing, broker: str, outcome: Awaitable[SendOutcome]) -> Any:
        try:
            return self._entry(message, broker, await outcome)
        except FlareMQError as error:
            return classes.SendResultEntry(status=of_error(error).status)

    def _entry(self, message: Outgoing, broker: str, outcome: SendOutcome) -> Any:
        code = of_send(outcome.code)
        if code not in _STORED:
            return classes.SendResultEntry(status=status(code, outcome.remark or f"code {outcome.code}"))
        if message.is_transactional:
            self._transactions.note(
                message.topic,
                message.message_id,
                broker=broker,
                queue_offset=outcome.queue_offset,
                physical_offset=outcome.physical_offset,
            )
        return classes.SendResultEntry(
            status=OK if code is Code.OK else status(code, outcome.remark or code.name),
            message_id=message.message_id,
            transaction_id=message.message_id,
            offset=outcome.queue_offset,
            recall_handle=outcome.recall_handle,
        )

    async def recall_message(self, request: Any, call: Call) -> Any:
        topic = await find_topic(self._backend, topic_of(request.topic))
        if MessageType.DELAY not in accepted_types(topic) and self._limits.enable_topic_message_type_check:
            raise Refused(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"topic {topic.name} has no messages that could be recalled"
            )
        broker = broker_of(request.recall_handle)
        reply = await self._backend.ask(
            broker,
            recall_request(broker, topic.name, request.recall_handle),
            call,
            seconds=self._limits.request_timeout_ms / 1000,
        )
        if reply.code:
            raise of_reply(reply)
        return classes.RecallMessageResponse(status=OK, message_id=str((reply.ext or {}).get("msgId", "")))

    def _takes(self, topic: TopicQueues, kind: MessageType) -> bool:
        return kind in accepted_types(topic) or not self._limits.enable_topic_message_type_check

    def _check_type(self, message: Outgoing, topic: TopicQueues) -> None:
        if self._takes(topic, message.kind):
            return
        types = accepted_types(topic)
        raise Refused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"topic {topic.name} takes {topic.message_type or 'NORMAL'} messages, this one is {message.kind.name}: "
            f"create the topic with the attribute message.type={message.kind.name if types != MIXED else 'MIXED'}",
        )


def _reply(entries: list[Any]) -> Any:
    return classes.SendMessageResponse(status=of_many(entries), entries=entries)

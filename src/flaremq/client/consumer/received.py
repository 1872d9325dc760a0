"""Messages as a consumer gets them, cut out of the reply to a pull without decoding more than their place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import cython

from flaremq.errors import CorruptionError, RemoteProtocolError
from flaremq.message.batch import inner_base, inner_messages
from flaremq.message.message_id import encode_message_id
from flaremq.message.properties import RETRY_TOPIC, encode_properties
from flaremq.message.record.codec import encode_record
from flaremq.message.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK, INNER_BATCH, NEED_UNWRAP
from flaremq.protocol.bodies.queue import MessageQueue

if TYPE_CHECKING:
    from flaremq.client.consumer.process_queue import ProcessQueue

if not cython.compiled:
    from flaremq.core.frame import SMALLEST_RECORD
    from flaremq.core.memory import bytes_at, load_i32, view_of
    from flaremq.message.message_ext import MessageExt

_log = logging.getLogger(__name__)

_SYS_FLAG_AT = 36
_INNER_BATCH = 0x80


class Returning:
    """A message on its way back to the broker; ``await`` it to know that it is there."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None] | None) -> None:
        self._task = task  # None: nothing is under way

    def __await__(self) -> Generator[Any, None, None]:
        if self._task is not None:
            yield from asyncio.shield(self._task).__await__()


class ReceivedMessage(MessageExt):
    """A message and where it came from. Fields are decoded when they are first asked for."""

    __slots__ = (
        "is_decided",
        "is_settled",
        "outcome",
        "place",
        "process_queue",
        "queue",
        "retry_level",
        "times_here",
    )

    def __init__(
        self, record: bytes | memoryview, queue: MessageQueue, process_queue: ProcessQueue | None = None
    ) -> None:
        MessageExt.__init__(self, record)
        self.join(queue, process_queue)

    def join(self, queue: MessageQueue, process_queue: ProcessQueue | None) -> None:
        """What ``__init__`` says besides the record."""
        self.queue = queue
        self.process_queue = process_queue
        self.retry_level: int | None = None
        self.is_decided = False  # ack() or retry() was called: the first word counts
        self.is_settled = False
        self.outcome: asyncio.Future[bool] | None = None  # of a message that belongs to no queue
        self.times_here = 0  # deliveries of this copy that failed (orderly consumption)
        self.place = -1  # its number in the process queue

    def retry(self, delay_level: int = 0) -> Returning:
        """Let this message count as failed: it goes back to the broker, now, and comes again later.

        ``delay_level`` chooses when; 0 leaves it to the broker, which waits longer each time; -1 sends the message to
        the dead letters at once. With asyncio the result may be awaited, to know that the broker has it again; on
        another thread than the consumer's, this call waits for that. Orderly consumers get the message again before any
        other of its queue, a while after the loop asks for the next one.
        """
        if not self.is_settled and not self.is_decided:
            self.is_decided = True
            self.retry_level = delay_level
            if self.process_queue is not None:
                return self.process_queue.delivery.return_now(self)
        return Returning(None)

    def ack(self) -> None:
        """Let this message count as done now, without asking for the next one: for loops that are left by ``break``."""
        if self.is_settled or self.is_decided:
            return
        self.is_decided = True
        if self.process_queue is not None:
            self.process_queue.delivery.finish_now(self)
        else:
            self.settle_alone(is_done=True)

    def settle_alone(self, *, is_done: bool) -> None:
        """Report the outcome of a message that was delivered directly (CONSUME_MESSAGE_DIRECTLY)."""
        self.is_settled = True
        if self.outcome is not None and not self.outcome.done():
            self.outcome.set_result(is_done)

    @property
    def body(self) -> bytes:
        """The application's bytes: inflated if they were compressed, as stored if they cannot be (``body_error``)."""
        plain = self.plain_body()
        if plain is not None:
            return plain
        try:
            return self.read_body()
        except CorruptionError:
            return bytes(self.stored_body)

    @property
    def message_id(self) -> str:
        """The id its producer was given: the unique key, or the place of the record if it has none."""
        return self.uniq_key or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id that names the place of this record."""
        return encode_message_id(self.store_host_bytes, self.physical_offset)

    @property
    def delivery_attempt(self) -> int:
        """1 for the first delivery to the group, 2 for the first retry."""
        return self.reconsume_times + self.times_here + 1


def read_messages(
    body: bytes | memoryview, queue: MessageQueue, process_queue: ProcessQueue | None = None
) -> list[ReceivedMessage]:
    """The messages of a reply, in order; ``RemoteProtocolError`` if it is not made of records.

    Each gets a record of its own, so that one message that is kept does not keep the whole reply.
    """
    messages: list[ReceivedMessage] = []
    view = view_of(body)
    at, end = 0, view.size
    while at < end:
        if end - at < SMALLEST_RECORD:
            raise RemoteProtocolError(f"{end - at} bytes at the end of a reply are no record")
        size = load_i32(view, at)
        if size < SMALLEST_RECORD or size > end - at:
            raise RemoteProtocolError(f"a record of {size} bytes at {at} does not fit a reply of {end}")
        message: ReceivedMessage = ReceivedMessage.__new__(ReceivedMessage)
        message.own(bytes_at(view, at, size))
        message.join(queue, process_queue)
        if load_i32(view, at + _SYS_FLAG_AT) & _INNER_BATCH:
            messages += _unwrapped(message)
        else:
            messages.append(message)
        at += size
    return messages


def restore_topics(messages: list[ReceivedMessage]) -> None:
    """Give messages of a retry topic the name of the topic they were sent to."""
    for message in messages:
        topic = message.properties.get(RETRY_TOPIC)
        if topic is not None:
            message.topic = topic


def _unwrapped(batch: ReceivedMessage) -> list[ReceivedMessage]:
    """The messages of a record that holds several, each as a record of its own.

    A record that cannot be taken apart is one message: refused, it would be pulled again for ever.
    """
    try:
        found = list(inner_messages(batch))
    except CorruptionError as error:
        batch.queue_offset = inner_base(batch)
        _log.warning(
            "a batch at queue offset %d of %s is given as one message: %s", batch.queue_offset, batch.queue, error
        )
        return [batch]
    flags = batch.sys_flag & ~(INNER_BATCH | NEED_UNWRAP | COMPRESSED | COMPRESSION_TYPE_MASK)
    messages: list[ReceivedMessage] = []
    for inner in found:
        record = encode_record(
            topic=batch.topic.encode(),
            body=inner.body,
            properties=encode_properties(inner.properties),
            queue_id=batch.queue_id,
            queue_offset=inner.queue_offset,
            physical_offset=batch.physical_offset,
            born_timestamp=batch.born_timestamp,
            born_host=batch.born_host_bytes,
            store_timestamp=batch.store_timestamp,
            store_host=batch.store_host_bytes,
            flag=inner.flag,
            sys_flag=flags,
            reconsume_times=batch.reconsume_times,
        )
        message = ReceivedMessage(record, batch.queue, batch.process_queue)
        message.queue_offset = inner.queue_offset
        messages.append(message)
    return messages

"""Outgoing: a message made ready for the wire; compiled, because every message sent becomes one.

Everything about it that a retry must not change is decided here, once: its unique key, its properties, whether its
body is compressed. The application's ``Message`` is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import cython

from flaremq.client.options import ProducerOptions
from flaremq.errors import InvalidArgumentError
from flaremq.message.properties import (
    CORRELATION_ID,
    DELAY,
    MESSAGE_TYPE,
    SIZE_MAX,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    encode_properties,
    join_properties,
)
from flaremq.message.tags import SEPARATOR
from flaremq.message.topics import DLQ_PREFIX, RETRY_PREFIX, encode_topic

if not cython.compiled:
    from flaremq.client.unique_keys import UniqueKeys
    from flaremq.core.memory import (
        ascii_view,
        bytes_view,
        copy_bytes,
        new_bytearray,
        piece_of,
        store_i16,
        store_i32,
        writable_view_of,
    )
    from flaremq.message.message import Message

# A broker takes these as single messages only.
_ALONE: Final = frozenset(
    (DELAY, TIMER_DELAY_MS, TIMER_DELAY_SECONDS, TIMER_DELIVER_MS, TRANSACTION_PREPARED, CORRELATION_ID, MESSAGE_TYPE)
)
_UNIQUE_KEY_PIECE = b"UNIQ_KEY\x01"
_ITEM_HEAD = 20  # of a message in a batch, before its body; see message/batch.py
_ITEM_OVERHEAD = 22
_FLAG_MIN, _FLAG_MAX = -(2**31), 2**31 - 1
_TOPICS_MAX = 4096
_checked_topics: set[str] = set()


class Outgoing:
    """One message on its way."""

    __slots__ = (
        "body",
        "flag",
        "is_alone",
        "is_uncompressed",
        "properties",
        "sys_flag",
        "timeout",
        "topic",
        "unique_key",
    )

    def __init__(self, topic: str, body: bytes, properties: bytes, unique_key: str, flag: int) -> None:
        self.topic = topic
        self.body = body
        self.properties = properties
        self.unique_key = unique_key
        self.flag = flag
        self.sys_flag = 0
        self.is_alone = False  # never travels with others
        self.is_uncompressed = False  # to be compressed before it goes, which makes it one that travels alone
        self.timeout: float | None = None  # seconds, if not those of the options


def prepare(
    message: Message, unique_key: str, options: ProducerOptions, extra: Mapping[str, str] | None = None
) -> Outgoing:
    """The message as it will be sent, or ``InvalidArgumentError`` if no broker would take it."""
    if not isinstance(message, Message):
        raise InvalidArgumentError(f"what is sent is a Message, not {message!r}")
    sent: Message = message
    topic = sent.topic
    body: bytes = sent.body if type(sent.body) is bytes else bytes(sent.body)
    if type(topic) is not str or topic not in _checked_topics:
        _check_topic(topic)
    if not body:
        raise InvalidArgumentError(f"a message to {topic!r} has an empty body, which no broker accepts")
    size = len(body)
    if size > options.max_message_size:
        raise InvalidArgumentError(
            f"a body of {size} bytes for {topic!r} is larger than maxMessageSize {options.max_message_size}"
        )
    if sent.tags is not None and SEPARATOR in sent.tags:
        raise InvalidArgumentError(
            f"the tag {sent.tags!r} for {topic!r} holds '||', which separates tags in a subscription: a message has "
            "one tag, and no consumer could ask for this one"
        )
    properties = sent.encoded_properties()
    given = sent.properties
    is_alone = sent.delay_level > 0 or not sent.wait_store_msg_ok
    if given:
        is_alone = is_alone or not _ALONE.isdisjoint(given)
        unique_key = given.get(UNIQUE_KEY, unique_key)
    key = ascii_view(unique_key)
    piece = f"UNIQ_KEY\x01{unique_key}\x02".encode() if key.size < 0 else piece_of(_UNIQUE_KEY_PIECE, key)
    properties = properties + piece if properties else piece
    if extra:
        is_alone = is_alone or not _ALONE.isdisjoint(extra)
        properties = join_properties(properties, encode_properties(extra))
    if len(properties) > SIZE_MAX:
        raise InvalidArgumentError(
            f"properties of {len(properties)} bytes for {topic!r}, at most {SIZE_MAX} can be stored"
        )
    outgoing = Outgoing(topic, body, properties, unique_key, sent.flag)
    if size >= options.compress_msg_body_over_howmuch:
        outgoing.is_uncompressed = outgoing.is_alone = True
    elif is_alone or topic.startswith("%"):
        outgoing.is_alone = is_alone or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return outgoing


def prepare_batch(messages: Iterable[Message], keys: UniqueKeys, options: ProducerOptions) -> list[Outgoing]:
    """Messages that are sent together; ``InvalidArgumentError`` if they cannot be."""
    batch: list[Outgoing] = []
    for message in messages:
        batch.append(prepare(message, keys.make(), options))
    for outgoing in batch:
        if outgoing.topic != batch[0].topic:
            topics = {outgoing.topic for outgoing in batch}
            raise InvalidArgumentError(f"a batch goes to one topic, not to {', '.join(sorted(topics))}")
    for outgoing in batch:
        if outgoing.is_alone and not outgoing.is_uncompressed:
            raise InvalidArgumentError(
                f"a message to {outgoing.topic!r} cannot be part of a batch: it is delayed, transactional, a retry "
                "or not to be waited for"
            )
        outgoing.is_uncompressed = False  # a batch has no place to say that one body is compressed
    return batch


def item_bytes(messages: Sequence[Outgoing]) -> int:
    """What messages take in the body of a batch."""
    size = 0
    for outgoing in messages:
        size += _ITEM_OVERHEAD + len(outgoing.body) + len(outgoing.properties)
    return size


def encode_items(messages: Sequence[Outgoing]) -> bytearray:
    """The body of a batch; the same bytes as ``message.batch.encode_batch_item`` gives for each."""
    data = new_bytearray(item_bytes(messages))
    target = writable_view_of(data)
    at = 0
    for outgoing in messages:
        body = bytes_view(outgoing.body)
        text = bytes_view(outgoing.properties)
        flag = outgoing.flag
        if flag < _FLAG_MIN or flag > _FLAG_MAX:
            raise InvalidArgumentError(f"the flag {flag} of a message to {outgoing.topic!r} does not fit 32 bits")
        store_i32(target, at, _ITEM_OVERHEAD + body.size + text.size)
        store_i32(target, at + 4, 0)
        store_i32(target, at + 8, 0)
        store_i32(target, at + 12, flag)
        store_i32(target, at + 16, body.size)
        at += _ITEM_HEAD
        copy_bytes(target, at, body, 0, body.size)
        at += body.size
        store_i16(target, at, text.size)
        copy_bytes(target, at + 2, text, 0, text.size)
        at += 2 + text.size
    return data


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str):
        raise InvalidArgumentError(f"a topic is text, not {topic!r}")
    encode_topic(topic)
    if len(_checked_topics) >= _TOPICS_MAX:
        _checked_topics.clear()
    _checked_topics.add(topic)

"""Outgoing: a message made ready for the wire.

Everything about it that a retry must not change is decided here, once: its unique key, its properties, whether its
body is compressed. The application's ``Message`` is left as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from flaremq.client.options import ProducerOptions
from flaremq.errors import InvalidArgumentError
from flaremq.message.compression import compress
from flaremq.message.message import Message
from flaremq.message.properties import (
    DELAY,
    SIZE_MAX,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    encode_properties,
    join_properties,
)
from flaremq.message.sys_flag import CompressionType, with_compression
from flaremq.message.tags import SEPARATOR
from flaremq.message.topics import DLQ_PREFIX, RETRY_PREFIX, encode_topic

if TYPE_CHECKING:
    from flaremq.client.producer.send_result import SendResult

TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
MESSAGE_TYPE: Final = "MSG_TYPE"

# A broker takes these as single messages only.
_ALONE: Final = frozenset(
    (DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TRANSACTION_PREPARED, CORRELATION_ID, MESSAGE_TYPE)
)
_COMPRESS_INLINE_MAX: Final = 128 << 10  # larger bodies are compressed on a thread: the loop would stand still for long


@dataclass(slots=True, eq=False)
class Outgoing:
    """One message on its way. ``future`` is set by those who do not wait for it themselves."""

    topic: str
    body: bytes
    properties: bytes
    unique_key: str
    flag: int
    sys_flag: int = 0
    is_alone: bool = False  # never travels with others
    is_uncompressed: bool = False  # to be compressed before it goes
    timeout: float | None = None  # seconds, if not those of the options
    future: asyncio.Future[SendResult] | None = None

    async def pack(self, options: ProducerOptions) -> None:
        """Compress the body if that is still to be done."""
        if not self.is_uncompressed:
            return
        self.is_uncompressed = False
        kind = CompressionType[options.compress_type]
        if len(self.body) <= _COMPRESS_INLINE_MAX:
            packed = compress(self.body, kind)
        else:
            packed = await asyncio.to_thread(compress, self.body, kind)
        self.body = packed
        self.sys_flag = with_compression(self.sys_flag, kind)


def prepare(
    message: Message, unique_key: str, options: ProducerOptions, extra: Mapping[str, str] | None = None
) -> Outgoing:
    """The message as it will be sent, or ``InvalidArgumentError`` if no broker would take it."""
    try:
        topic, body = message.topic, message.body
    except AttributeError:
        raise InvalidArgumentError(f"what is sent is a Message, not {message!r}") from None
    _check_topic(topic)
    if not body:
        raise InvalidArgumentError(f"a message to {topic!r} has an empty body, which no broker accepts")
    if len(body) > options.max_message_size:
        raise InvalidArgumentError(
            f"a body of {len(body)} bytes for {topic!r} is larger than maxMessageSize {options.max_message_size}"
        )
    if message.tags is not None and SEPARATOR in message.tags:
        raise InvalidArgumentError(
            f"the tag {message.tags!r} for {topic!r} holds '||', which separates tags in a subscription: a message has "
            "one tag, and no consumer could ask for this one"
        )
    properties = message.encoded_properties()
    given = message.properties
    is_alone = message.delay_level > 0 or not message.wait_store_msg_ok
    if given:
        is_alone = is_alone or not _ALONE.isdisjoint(given)
        unique_key = given.get(UNIQUE_KEY, unique_key)
    properties += f"UNIQ_KEY\x01{unique_key}\x02".encode()
    if extra:
        is_alone = is_alone or not _ALONE.isdisjoint(extra)
        properties = join_properties(properties, encode_properties(extra))
    if len(properties) > SIZE_MAX:
        raise InvalidArgumentError(
            f"properties of {len(properties)} bytes for {topic!r}, at most {SIZE_MAX} can be stored"
        )
    outgoing = Outgoing(topic, body, properties, unique_key, message.flag)
    if len(body) >= options.compress_msg_body_over_howmuch:
        outgoing.is_uncompressed = outgoing.is_alone = True
    elif is_alone or topic[0] == "%":
        outgoing.is_alone = is_alone or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return outgoing


@lru_cache(maxsize=4096)
def _check_topic(topic: str) -> None:
    encode_topic(topic)

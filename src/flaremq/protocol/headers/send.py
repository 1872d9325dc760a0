"""Headers of sending: messages, replies, send-backs, recalls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RequestError
from flaremq.protocol.headers.custom_header import (
    CustomHeader,
    flag_or,
    integer,
    integer_or,
    long,
    maybe_integer,
    maybe_long,
    maybe_text,
    text,
)

# The fields in the order of their letters, which is Java's.
_LONG_NAMES: Final = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "unitMode",
    "maxReconsumeTimes",
    "batch",
    "bname",
)
_LETTERS: Final = tuple("abcdefghijklmn")
_LETTER_OF: Final = dict(zip(_LONG_NAMES, _LETTERS, strict=True))
_LETTER_CODES: Final = frozenset(
    (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
)
_new: Final = object.__new__


@dataclass(slots=True, kw_only=True)  # not frozen: one is made per message, and filling slots is four times as fast
class SendMessageRequestHeader(CustomHeader):
    """SEND_MESSAGE with long names; the V2 and batch codes carry the same fields under letters."""

    producer_group: str = text()
    topic: str = text()
    default_topic: str = text()
    default_topic_queue_nums: int = integer()
    queue_id: int = integer()
    sys_flag: int = integer()
    born_timestamp: int = long()
    flag: int = integer()
    properties: str | None = maybe_text()
    reconsume_times: int = integer_or(0)
    unit_mode: bool = flag_or(False)
    max_reconsume_times: int | None = maybe_integer()
    batch: bool = flag_or(False)
    broker_name: str | None = maybe_text("bname")

    def encode_letters(self) -> dict[str, str]:
        """The form of the V2 codes."""
        return {_LETTER_OF[name]: value for name, value in self.encode().items()}


def decode_send_header(code: int, ext: Mapping[str, Any] | None) -> SendMessageRequestHeader:
    """The header of any send, whichever names its code uses."""
    names = _LETTERS if code in _LETTER_CODES else _LONG_NAMES
    return (_decode_common(ext, names) if ext else None) or _decode_any(ext or {}, names)


def _decode_common(ext: Mapping[str, Any], names: tuple[str, ...]) -> SendMessageRequestHeader | None:
    """What well-meaning clients send, in a quarter of the time; None leaves it to the plain way."""
    a, b, c, d, e, f, g, h, i, j, k, l, m, n = names  # noqa: E741  # the wire's own names
    get = ext.get
    header = _new(SendMessageRequestHeader)
    try:
        header.producer_group = ext[a]
        header.topic = ext[b]
        header.default_topic = ext[c]
        header.default_topic_queue_nums = queue_nums = int(ext[d])
        header.queue_id = queue_id = int(ext[e])
        header.sys_flag = sys_flag = int(ext[f])
        header.born_timestamp = born_timestamp = int(ext[g])
        header.flag = flag = int(ext[h])
        header.reconsume_times = reconsume_times = int(get(j) or 0)
        header.max_reconsume_times = times_max = int(ext[l]) if l in ext else None
        header.unit_mode = k in ext and ext[k].lower() == "true"
        header.batch = m in ext and ext[m].lower() == "true"
        digits = f"{ext[d]}{ext[e]}{ext[f]}{ext[g]}{ext[h]}{get(j) or ''}{get(l) or ''}"
    except (KeyError, ValueError, AttributeError):
        return None
    if not digits.isdecimal():
        return None  # blanks and underscores, which are no digits but to Python
    if (queue_nums | queue_id | sys_flag | flag | reconsume_times | (times_max or 0)) >> 31 or born_timestamp >> 63:
        return None  # negative or too large
    header.properties = get(i)
    header.broker_name = get(n)
    return header


def _decode_any(ext: Mapping[str, Any], names: tuple[str, ...]) -> SendMessageRequestHeader:
    """The plain way: by the rows of the header, under these names."""
    if names is _LONG_NAMES:
        return SendMessageRequestHeader.decode(ext)
    try:
        return SendMessageRequestHeader.decode({name: ext.get(_LETTER_OF[name]) for name in _LONG_NAMES})
    except RequestError as error:
        # A sender of letters looks for letters.
        remark = re.sub(r"<(\w+)>", lambda match: f"<{_LETTER_OF[match.group(1)]}>", error.remark, count=1)
        raise RequestError(error.code, remark) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSendMsgBackRequestHeader(CustomHeader):
    """CONSUMER_SEND_MSG_BACK: deliver this message again later. ``offset`` is physical."""

    offset: int = long()
    group: str = text()
    delay_level: int = integer()
    origin_msg_id: str | None = maybe_text()
    origin_topic: str | None = maybe_text()
    unit_mode: bool = flag_or(False)
    max_reconsume_times: int | None = maybe_integer()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMessageRequestHeader(CustomHeader):
    """PUSH_REPLY_MESSAGE_TO_CLIENT: a reply on its way to the client that asked."""

    producer_group: str = text()
    topic: str = text()
    default_topic: str = text()
    default_topic_queue_nums: int = integer()
    queue_id: int = integer()
    sys_flag: int = integer()
    born_timestamp: int = long()
    flag: int = integer()
    properties: str | None = maybe_text()
    reconsume_times: int = integer_or(0)
    unit_mode: bool = flag_or(False)
    born_host: str | None = maybe_text()
    store_host: str | None = maybe_text()
    store_timestamp: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessageRequestHeader(CustomHeader):
    """RECALL_MESSAGE: take back a delayed message."""

    topic: str = text()
    recall_handle: str = text()
    producer_group: str | None = maybe_text()
    broker_name: str | None = maybe_text("bname")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWriteStreamRequestHeader(CustomHeader):
    """OPEN_WRITE_STREAM, a request of our own: ``token`` becomes the writer of a stream (message/write_stream.py)."""

    topic: str = text()
    stream: str = text()
    stem: str = text()
    token: str = text()
    delayed: bool = flag_or(False)
    at_least: int | None = maybe_long()

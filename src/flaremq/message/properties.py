"""The properties string: ``key 0x01 value 0x02`` repeated, UTF-8.

RocketMQ up to 4.9.0 and from 5.2.0 writes the last 0x02, the versions between drop it; readers take both and
we write it. There is no escape: a key or value that contains a separator cannot be stored and is refused.
When parsing, a piece without a key or without a value is dropped and the last of several equal keys wins,
because that is what every RocketMQ client sees. Order carries no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

from flaremq.errors import InvalidArgumentError

KEY_SEPARATOR = b"\x01"
PIECE_SEPARATOR = b"\x02"
SIZE_MAX = 32767  # the length field is a signed 16-bit number

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
UNIQUE_KEY = "UNIQ_KEY"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
CLUSTER = "CLUSTER"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
MESSAGE_TYPE = "MSG_TYPE"
TIMER_DELAY_SECONDS = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DELETE_KEY = "TIMER_DEL_UNIQKEY"
REGION = "MSG_REGION"
TRACE_SWITCH = "TRACE_ON"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"

_CRC_KEY_PART = b"__CRC32#\x01"
_TRANSIENT_PREFIX = b"__RMQ.TRANSIENT."


class UnstorableError(InvalidArgumentError):
    """Properties of the right kind that no record can hold; a store answers them with a status."""


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Stored form, with the final 0x02; ``b""`` for no properties."""
    count = len(properties)
    if not count:
        return b""
    try:
        data = ("\x02".join(map("\x01".join, properties.items())) + "\x02").encode()
    except (TypeError, UnicodeEncodeError):
        raise _refusal(properties) from None
    # Counting separators finds a forbidden one in any key or value at once; blaming is the slow path.
    if data.count(1) != count or data.count(2) != count or "" in properties or b"\x01\x02" in data:
        raise _refusal(properties)
    return data


def parse_properties(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """The properties as every client sees them; bytes that are not UTF-8 become U+FFFD."""
    properties: dict[str, str] = {}
    for piece in str(data, "utf-8", "replace").split("\x02"):
        key, _, value = piece.partition("\x01")
        if key and value:
            properties[key] = value
    return properties


def split_keys(text: str | None) -> list[str]:
    """The keys of a KEYS property: blanks alone stand between them, as in RocketMQ; a tab is part of its key."""
    return [key for key in (text or "").split(" ") if key]


def find_property(data: bytes, key: bytes) -> bytes | None:
    """Value of one key without parsing the rest; the same answer as ``parse_properties`` gives."""
    needle = key + KEY_SEPARATOR
    end = len(data)
    while True:
        at = data.rfind(needle, 0, end)
        if at < 0:
            return None
        if at == 0 or data[at - 1] == 2:
            start = at + len(needle)
            stop = data.find(PIECE_SEPARATOR, start)
            value = data[start:] if stop < 0 else data[start:stop]
            if value:
                return value
        end = at + len(needle) - 1


def join_properties(first: bytes, second: bytes) -> bytes:
    """Both property strings as one; keys of the second win."""
    if first and second and first[-1] != 2:
        return first + PIECE_SEPARATOR + second
    return first + second


def edit_properties(data: bytes, changes: Mapping[str, str | None]) -> bytes:
    """The string with some properties set or, for ``None``, removed; all others stay byte for byte."""
    touched = {key.encode() for key in changes}
    kept = [
        piece for piece in data.split(PIECE_SEPARATOR) if piece and piece.partition(KEY_SEPARATOR)[0] not in touched
    ]
    if kept:
        kept.append(b"")
    added = {key: value for key, value in changes.items() if value is not None}
    return PIECE_SEPARATOR.join(kept) + encode_properties(added)


def strip_unstored(data: bytes) -> bytes:
    """The string without what must not be stored: transient properties and another record's checksum.

    A message read from a store and sent on still carries the checksum of the record it was read from; kept as
    the last property it would make a good record look damaged.
    """
    if _CRC_KEY_PART not in data and _TRANSIENT_PREFIX not in data:
        return data
    kept = [
        piece
        for piece in data.split(PIECE_SEPARATOR)
        if piece and not piece.startswith((_CRC_KEY_PART, _TRANSIENT_PREFIX))
    ]
    return PIECE_SEPARATOR.join([*kept, b""]) if kept else b""


def _refusal(properties: Mapping[str, str]) -> InvalidArgumentError:
    """The error that names the first property that cannot be stored."""
    for key, value in properties.items():
        name = f"property {key!a} = {value!a}"
        for text in (key, value):
            if not isinstance(text, str):
                return InvalidArgumentError(f"{name}: both key and value must be str")
            if not text:
                return UnstorableError(f"{name}: neither key nor value may be empty")
            if "\x01" in text or "\x02" in text:
                return UnstorableError(f"{name} contains a separator (0x01 or 0x02)")
            if any("\ud800" <= character <= "\udfff" for character in text):
                return UnstorableError(f"{name} contains a lone surrogate, which UTF-8 cannot express")
    raise AssertionError("every property is fine on its own, so is their sum")

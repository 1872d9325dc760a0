"""What may be stored: one rule behind every way in.

A message that a door acknowledges must be dispatched, read and recovered, so no door has rules of its own. The general
paths ask here; a fast path takes only what it is sure of (a few comparisons) and leaves everything else to a general
one. Two outcomes, for every door:

- what cannot be stored is a status: MESSAGE_ILLEGAL, or PROPERTIES_SIZE_EXCEEDED for properties alone too long;
- an argument of the wrong kind (text where a number belongs, a host of seven bytes) raises InvalidArgumentError.

The order of the checks is part of the rule: a message with two faults gets the same status everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flaremq.errors import InvalidArgumentError
from flaremq.message.hosts import encode_host
from flaremq.message.record.codec import MAGIC_V1, MAGIC_V2, PREFIX_BY_FAMILY, PROPERTIES_SIZE_MAX, SHORT
from flaremq.message.record.crc import CRC_PROPERTY_SIZE, has_crc_property
from flaremq.message.sys_flag import INNER_BATCH, TRANSACTION_MASK
from flaremq.message.topics import NAME_BYTES_MAX, encode_topic
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus

_INT = 2**31
_LONG = 2**63
_SPARE = 8  # every log file keeps room for the header of a filler
_CRC_ROOM = bytes(CRC_PROPERTY_SIZE)


class Refusal(NamedTuple):
    """Why a message cannot be stored."""

    status: PutMessageStatus
    detail: str


def illegal(detail: str) -> Refusal:
    return Refusal(PutMessageStatus.MESSAGE_ILLEGAL, detail)


class PutRules:
    """The rule for one store; its options set the sizes."""

    __slots__ = ("_body_max", "_crc", "_record_max", "_versioned", "store_host")

    def __init__(self, options: StoreOptions) -> None:
        self.read_options(options)
        self._record_max = options.mapped_file_size_commit_log - _SPARE
        self._versioned = options.auto_message_version_on_topic_len
        self._crc = options.enabled_append_prop_crc
        self.store_host = encode_host(f"{options.broker_ip1}:{options.listen_port}")

    def read_options(self, options: StoreOptions) -> None:
        """What may change while the store is open."""
        self._body_max = options.max_message_size

    @property
    def plain_size_max(self) -> int:
        """Records up to this size pass by their size alone; -1 if all need a general path."""
        return -1 if self._crc or len(self.store_host) != 8 else min(self._body_max, self._record_max)

    def encode_topic(self, topic: str) -> tuple[int, bytes] | Refusal:
        """(magic, length-prefixed name) for the records of a topic."""
        if not isinstance(topic, str):
            raise InvalidArgumentError(f"topic {topic!r} is not a str")
        try:
            name = encode_topic(topic)
        except InvalidArgumentError as error:
            return illegal(str(error))
        if len(name) <= NAME_BYTES_MAX:
            return MAGIC_V1, bytes([len(name)]) + name
        if not self._versioned:
            return illegal(f"topic {topic!r} needs a V2 record, and autoMessageVersionOnTopicLen is off")
        return MAGIC_V2, SHORT.pack(len(name)) + name

    def check_content(
        self, bodies: Sequence[bytes], properties: Sequence[bytes], topic_prefix: bytes, sys_flag: int
    ) -> Refusal | None:
        """Texts and sizes of one message, or of a batch, which is stored in one file and counts as one body.

        ``sys_flag`` has the host families set; ``properties`` are without the record checksum.
        """
        if sys_flag & INNER_BATCH:
            return illegal("inner batches are only for topics of type BatchCQ")
        everything = properties[0] if len(properties) == 1 else b"".join(properties)
        if 0 in everything:
            # Recovery tells a torn record by what no writer would have written; so nobody may write it.
            return illegal("properties must not contain NUL")
        # A name one bit off the reserved one counts as it, damaged: of two halves such a name has one intact.
        if (b"__CR" in everything or b"C32#" in everything) and any(map(has_crc_property, properties)):
            return illegal("properties end with a name reserved for the record checksum (__CRC32#)")
        sizes = [len(self.with_crc_room(text)) for text in properties] if self._crc else list(map(len, properties))
        longest = max(sizes)
        if longest > PROPERTIES_SIZE_MAX:
            detail = f"properties take {longest} bytes, at most {PROPERTIES_SIZE_MAX} fit"
            return Refusal(PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, detail)
        body = sum(map(len, bodies))
        if body > self._body_max:
            return illegal(f"body of {body} bytes, maxMessageSize is {self._body_max}")
        fixed = PREFIX_BY_FAMILY[sys_flag >> 4 & 3].size + len(topic_prefix) + SHORT.size
        total = fixed * len(bodies) + body + sum(sizes)
        if total > self._record_max:
            return illegal(f"{total} bytes do not fit a log file of {self._record_max + _SPARE} bytes")
        return None

    def with_crc_room(self, properties: bytes) -> bytes:
        """The properties with space at their end for the record checksum, which is only known inside the lock."""
        if not self._crc:
            return properties
        return properties + (b"\x02" if properties and properties[-1] != 2 else b"") + _CRC_ROOM


def check_fields(
    queue_id: int,
    flag: int,
    sys_flag: int,
    born_timestamp: int,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
) -> Refusal | None:
    """Whether the numbers of a message fit the fields of a record."""
    numbers = (queue_id, flag, sys_flag, born_timestamp, reconsume_times, prepared_offset)
    if set(map(type, numbers)) == {int} and (
        0 <= queue_id < _INT
        and -_INT <= flag < _INT
        and -_INT <= sys_flag < _INT
        and -_LONG <= born_timestamp < _LONG
        and -_INT <= reconsume_times < _INT
        and -_LONG <= prepared_offset < _LONG
    ):
        return None
    return (
        _check_number("queue id", queue_id, 0, _INT)
        or _check_number("flag", flag, -_INT, _INT)
        or _check_number("sysFlag", sys_flag, -_INT, _INT)
        or _check_number("born timestamp", born_timestamp, -_LONG, _LONG)
        or _check_number("reconsume times", reconsume_times, -_INT, _INT)
        or _check_number("prepared transaction offset", prepared_offset, -_LONG, _LONG)
    )


def _check_number(name: str, value: Any, low: int, end: int) -> Refusal | None:
    if not isinstance(value, int):
        raise InvalidArgumentError(f"{name} {value!r} is not a number")
    return None if low <= value < end else illegal(f"{name} {value} is outside {low}..{end - 1}")


def check_batch(flags: Sequence[int] | None, sys_flag: int) -> Refusal | None:
    """What only batches must keep."""
    if sys_flag & TRANSACTION_MASK:
        return illegal("a batch cannot be transactional")
    for flag in () if flags is None or (set(map(type, flags)) == {int} and _fits(flags)) else flags:
        if (refusal := _check_number("flag", flag, -_INT, _INT)) is not None:
            return refusal
    return None


def _fits(flags: Sequence[int]) -> bool:
    return -_INT <= min(flags) <= max(flags) < _INT


def check_host(host: bytes) -> None:
    if len(host) not in (8, 20) or host[-4] or host[-3]:
        raise InvalidArgumentError(f"{host.hex()} is not a stored host: 4 or 16 address bytes, then a port")

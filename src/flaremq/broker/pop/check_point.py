"""A check point: some messages of one queue that one pop handed to one client, and what has become of them.

On the log it is a record of the revive topic (tag ``ck``), acknowledgements are records after it (tags ``ack`` and
``bAck``), as JSON in the original's short names. Two liberties, both of which the original's reader takes well: the
messages acknowledged before the check point was stored are marked in its own bit map ``bm`` instead of by records, and
a record with the tag ``reset`` (which it skips) says that a group went back or ahead in a queue on purpose.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from flaremq.java_json import parse_java_json, write_java_json
from flaremq.message.message_ext import MessageExt

CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
RESET_TAG: Final = "reset"
MESSAGES_MAX: Final = 32  # the bit map is a Java int

QueueKey = tuple[str, str, int]  # topic, group, queue id
Key = tuple[str, str, int, int, int]  # and first offset, time of the pop


@dataclass(slots=True, eq=False, kw_only=True)
class PopCheckPoint:
    """What was handed out together. Bit ``i`` of the three maps stands for the message at ``offsets[i]``."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    offsets: Sequence[int]
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    broker_name: str
    next_offset: int = -1  # where the group goes on in the queue; -1: that is not up to this one
    suspended: bool = False  # put off by its consumer: coming back does not count as a failure
    acked: int = 0  # settled: acknowledged, given again or moved to another check point
    logged: int = field(init=False)  # settled, and the log says so
    revive_offset: int = -1  # its record in the revive queue; -1: none
    moving: int = 0  # about to be settled: not before the other check point is stored
    reach: int = 0  # end of the newest record in the log that its being passed depends on
    storing: Future[None] | None = None  # the record is on its way
    logging: Future[None] | None = None  # a record of acknowledgements is on its way
    is_covering: bool = True  # False: the group was moved, the queue's messages are to be given again regardless
    is_waiting: bool = False  # its queue's offset has not passed it yet
    covered_in: set[int] | None = None  # offsets of its queue that only the log says were handed out
    is_reviving: bool = False
    failures: int = 0  # attempts to give its messages again that did not work

    def __post_init__(self) -> None:
        self.offsets = tuple(self.offsets)
        self.logged = self.acked

    @property
    def key(self) -> Key:
        return (self.topic, self.group, self.queue_id, self.start_offset, self.pop_time)

    @property
    def queue_key(self) -> QueueKey:
        return (self.topic, self.group, self.queue_id)

    @property
    def revive_time(self) -> int:
        return self.pop_time + self.invisible_time

    @property
    def all_bits(self) -> int:
        return (1 << len(self.offsets)) - 1

    @property
    def is_done(self) -> bool:
        """Nothing in it needs attention."""
        return self.acked & ~self.moving == self.all_bits

    @property
    def is_stored(self) -> bool:
        return self.revive_offset >= 0

    @property
    def is_closed(self) -> bool:
        """Done, and a reader of the log would know."""
        return self.is_done and self.logged == self.all_bits

    @property
    def is_forgettable(self) -> bool:
        """Closed, and the group's offset answers for its messages: its record need not be read again."""
        if not self.is_closed or self.is_waiting:
            return False
        return self.covered_in is None or self.covered_in.isdisjoint(self.offsets)

    def bit_of(self, offset: int) -> int:
        """The bit of the message at this offset; 0 if it is not one of these."""
        try:
            return 1 << self.offsets.index(offset)
        except ValueError:
            return 0

    def offsets_of(self, bits: int) -> list[int]:
        return [offset for index, offset in enumerate(self.offsets) if bits >> index & 1]

    def unsettled(self) -> Iterator[tuple[int, int]]:
        """(bit, offset) of the messages that nobody has acknowledged."""
        for index, offset in enumerate(self.offsets):
            if not self.acked >> index & 1:
                yield 1 << index, offset

    def __repr__(self) -> str:
        return f"PopCheckPoint({self.topic}@{self.queue_id}, {self.group}, {self.offsets}, acked={self.acked:b})"

    # On the log

    @property
    def unique_key(self) -> str:
        return (
            f"{self.topic}@{self.queue_id}@{self.start_offset}@{self.group}@{self.pop_time}@{self.broker_name}"
            f"@{CHECK_POINT_TAG}"
        )

    def to_json(self, acked: int) -> bytes:
        document: dict[str, Any] = {
            "bm": acked - (1 << 32) if acked >> 31 else acked,
            "bn": self.broker_name,
            "c": self.group,
            "d": [offset - self.start_offset for offset in self.offsets],
            "it": self.invisible_time,
            "n": len(self.offsets),
            "pt": self.pop_time,
            "q": self.queue_id,
            "ro": 0,
            "so": self.start_offset,
            "t": self.topic,
        }
        if self.suspended:
            document["sp"] = True
        if not self.is_covering:
            document["moved"] = True
        return write_java_json(document)


class Ack(NamedTuple):
    """Messages of a check point that need no more attention."""

    key: Key
    offsets: tuple[int, ...]

    @property
    def tag(self) -> str:
        return ACK_TAG if len(self.offsets) == 1 else BATCH_ACK_TAG

    def to_json(self, broker_name: str) -> bytes:
        topic, group, queue_id, start_offset, pop_time = self.key
        document: dict[str, Any] = {
            "bn": broker_name,
            "c": group,
            "pt": pop_time,
            "q": queue_id,
            "so": start_offset,
            "t": topic,
        }
        if len(self.offsets) == 1:
            return write_java_json({"ao": self.offsets[0]} | document)
        return write_java_json({"ao": -1, "aol": self.offsets} | document)


class Reset(NamedTuple):
    """The group was moved to another place in the queue: what it was given before says nothing any more."""

    queue_key: QueueKey

    def to_json(self) -> bytes:
        topic, group, queue_id = self.queue_key
        return write_java_json({"c": group, "q": queue_id, "t": topic})


def read_revive_record(message: MessageExt) -> PopCheckPoint | Ack | Reset | None:
    """What a record of the revive topic says; None if that cannot be understood."""
    try:
        document = parse_java_json(message.body)
        if not isinstance(document, dict):
            return None
        reader = _READERS.get(message.tags or "")
        return None if reader is None else reader(document, message)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _read_check_point(document: dict[str, Any], message: MessageExt) -> PopCheckPoint:
    start, count = int(document["so"]), int(document["n"])
    differences = document.get("d") or range(count)
    if not 0 <= count <= MESSAGES_MAX or len(differences) != count:
        raise ValueError(f"a check point of {count} messages with {len(differences)} offsets")
    point = PopCheckPoint(
        topic=_text(document["t"]),
        group=_text(document["c"]),
        queue_id=int(document["q"]),
        start_offset=start,
        offsets=[start + int(difference) for difference in differences],
        pop_time=int(document["pt"]),
        invisible_time=int(document["it"]),
        revive_queue_id=message.queue_id,
        broker_name=str(document.get("bn") or ""),
        suspended=document.get("sp") is True,
        acked=int(document.get("bm", 0)) & (1 << count) - 1,
        revive_offset=message.queue_offset,
    )
    point.is_covering = document.get("moved") is not True
    return point


def _read_ack(document: dict[str, Any], message: MessageExt) -> Ack:
    key = (
        _text(_either(document, "t", "topic")),
        _text(_either(document, "c", "consumerGroup")),
        int(_either(document, "q", "queueId")),
        int(_either(document, "so", "startOffset")),
        int(_either(document, "pt", "popTime")),
    )
    if message.tags == BATCH_ACK_TAG:
        offsets = _either(document, "aol", "ackOffsetList")
        return Ack(key, tuple(int(offset) for offset in offsets))
    return Ack(key, (int(_either(document, "ao", "ackOffset")),))


def _read_reset(document: dict[str, Any], message: MessageExt) -> Reset:
    return Reset((_text(document["t"]), _text(document["c"]), int(document["q"])))


def _either(document: dict[str, Any], name: str, long_name: str) -> Any:
    """A field under its short name, or the long one that versions before 5.1 wrote."""
    return document[name] if name in document else document[long_name]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} where a name should be")
    return value


_READERS: Final[dict[str, Callable[[dict[str, Any], MessageExt], PopCheckPoint | Ack | Reset]]] = {
    CHECK_POINT_TAG: _read_check_point,
    ACK_TAG: _read_ack,
    BATCH_ACK_TAG: _read_ack,
    RESET_TAG: _read_reset,
}

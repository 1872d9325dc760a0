"""Bodies of a scan: inflated where they are compressed, and what happens to one that cannot be.

Whether a body is compressed is the word of its producer. One that is not what it says, or inflates beyond any measure,
is no damage of the store and costs its own row only: the row is there, with null or the stored bytes for a body, and
the scan goes on. Inflated bodies are counted as they are made, so that a batch of them stays small too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from flaremq.digits import whole_number
from flaremq.errors import CorruptionError
from flaremq.message.batch import InnerMessage, inner_base, inner_messages
from flaremq.message.compression import INFLATED_SIZE_MAX
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import INNER_NUM

_log = logging.getLogger(__name__)

AS_NULL: Final = "null"
AS_STORED: Final = "raw"
AS_ERROR: Final = "fail"
BAD_BODIES: Final = (AS_NULL, AS_STORED, AS_ERROR)

PART_BYTES: Final = 16 << 20  # inflated bodies of one batch, about
_INNER_MAX: Final = 32_767  # messages of an inner batch: its unit has a short for them


@dataclass(frozen=True, slots=True)
class BodyRule:
    """What becomes of a body that cannot be inflated within ``inflated_max`` bytes; one of ``BAD_BODIES``."""

    bad: str = AS_NULL
    inflated_max: int = INFLATED_SIZE_MAX


class Body(NamedTuple):
    """A body as its row shows it, and why it is not what its producer meant."""

    value: bytes | None
    error: str | None = None

    @property
    def cost(self) -> int:
        return len(self.value or b"")


@dataclass(frozen=True, slots=True)
class LostInner(InnerMessage):
    """A message of an inner batch that cannot be taken apart: nothing but its place is known."""

    error: str = ""
    is_shown: bool = True  # the stored bytes stand for all messages of a record, so the first of them shows them


Row = MessageExt | InnerMessage


class BodyReader:
    """Reads the bodies of one scan and counts those it could not."""

    def __init__(self, rule: BodyRule | None = None, where: str = "") -> None:
        self._rule = rule or BodyRule()
        self._where = where
        self.bad_count = 0
        self._first = ""

    def read(self, message: Row) -> Body:
        """The body of a message."""
        if isinstance(message, LostInner):
            return self.bad(place_of(message), message.error, message.body if message.is_shown else None)
        if isinstance(message, InnerMessage):
            return Body(message.body)
        try:
            return Body(message.read_body(inflated_size_max=self._rule.inflated_max))
        except CorruptionError as error:
            return self.bad(place_of(message), str(error), bytes(message.stored_body))

    def bad(self, place: str, error: str, stored: bytes | None) -> Body:
        """What a row shows for a body that cannot be read."""
        if self._rule.bad == AS_ERROR:
            advice = "badBodies=null reads it as null, badBodies=raw as it is stored"
            raise CorruptionError(f"{self._named(place)}: {error}; {advice}")
        self.bad_count += 1
        self._first = self._first or f"{place}: {error}"
        return Body(stored if self._rule.bad == AS_STORED else None, error)

    def taken_apart(self, messages: Iterable[MessageExt]) -> Iterator[Row]:
        """Each message of each record: an inner batch stands for several."""
        for message in messages:
            if message.is_inner_batch:
                yield from self._inner(message)
            else:
                yield message

    def _inner(self, record: MessageExt) -> Iterator[InnerMessage]:
        base, count = inner_base(record), 0
        try:
            for inner in inner_messages(record, record.read_body(inflated_size_max=self._rule.inflated_max)):
                count += 1
                yield inner
            return
        except CorruptionError as error:
            reason = str(error)
        # The queue counts them all, and so must the rows: an offset without a row would look like a loss.
        said = whole_number(record.properties.get(INNER_NUM))
        total = count + 1 if said is None else min(said, _INNER_MAX)
        stored = bytes(record.stored_body)
        for number in range(count, total):
            is_first = number == count
            yield LostInner(
                record, base + number, record.flag, stored, dict(record.properties), reason, is_shown=is_first
            )

    def tell(self) -> None:
        """One warning for all of them."""
        if self.bad_count:
            shown = "null" if self._rule.bad == AS_NULL else "shown as stored"
            where = f"{self._where}: " if self._where else ""
            _log.warning(
                "%s%d bodies cannot be inflated and are %s; the first: %s", where, self.bad_count, shown, self._first
            )

    def _named(self, place: str) -> str:
        return f"the body of {place}" + (f" in {self._where}" if self._where else "")


def unreadable_body(message: MessageExt) -> str | None:
    """Why the body of a record cannot be inflated or taken apart; None if it can."""
    if not message.is_inner_batch:
        return message.body_error
    try:
        for _ in inner_messages(message):
            pass
    except CorruptionError as error:
        return str(error)
    return None


def place_of(message: Row) -> str:
    """Where a message is, in words."""
    record = message.record if isinstance(message, InnerMessage) else message
    offset = f"queue offset {message.queue_offset}, physical offset {record.physical_offset}"
    return f"{record.topic}/{record.queue_id}, {offset}"

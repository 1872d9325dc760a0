"""Write streams: messages whose identity follows from what they are, so that writing them again stores them once.

A *stream* is what one writer puts into one topic in order: message 0, 1, 2 … Its name decides the unique keys of its
messages, and unique keys are indexed by every RocketMQ broker: so the index of the store is the ledger of what was
written, and anybody who knows the name can ask how far a stream has come. The messages of a stream are stored in
order, so the stored ones are its beginning, and finding the end takes a logarithm of questions. Where a cluster has
several brokers they may be spread over these in stretches; it is all brokers together that hold the beginning.

Retention deletes what is oldest. A stream whose first messages are gone looks at its start like one that was never
written, so the search also looks far ahead: a message behind a missing one says that something was lost.

The key has the form of every RocketMQ message id, 32 hexadecimal digits, and tools take it for one:

    digits  field
     16     the stream, a hash of its name
      4     number, upper half
      8     0; other ids have milliseconds of the month here, and Java's tools look for messages stored since then
      4     number, lower half

Each message also carries a digest of the stream up to itself (property ``FMQ_CHAIN``). Equal digests mean equal
messages in equal order. The step from one digest to the next can be undone, so two neighbours give the hash of the
message between them: see ``link`` and ``unlink``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.properties import find_property

CHAIN: Final = "FMQ_CHAIN"
CHAIN_START: Final = 0
NUMBER_MAX: Final = 2**32 - 1
_CHAIN_KEY: Final = CHAIN.encode()

# An odd factor has an inverse modulo 2^64. (The golden ratio, as in Fibonacci hashing.)
FACTOR: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(FACTOR, -1, 2**64)
_WORD: Final = 2**64 - 1
_STEM: Final = re.compile(r"[0-9A-F]{16}\Z")


@dataclass(frozen=True, slots=True)
class Stored:
    """How far a stream has come: messages 0 to ``count`` - 1 are stored; ``chain`` is the digest of the last."""

    count: int
    chain: int


NOTHING_STORED: Final = Stored(0, CHAIN_START)
LOG_IS_EMPTY: Final = 2**63 - 1  # as ``log_start_ms``: everything was deleted


@dataclass(frozen=True, slots=True)
class StreamState:
    """What one broker says of a stream, asked from some message on, all before it being stored somewhere.

    Messages up to ``count`` follow on here; ``chain`` is the digest of the last if the broker has it. ``beyond`` is a
    message behind ``count`` that it has too, -1 if it met none. ``log_start_ms`` is the store time of the oldest
    message of any kind that it still has, 0 if it never deleted one.
    """

    count: int
    chain: int
    beyond: int
    log_start_ms: int


def stem_of(*name: str | int) -> str:
    """The part of the keys that all messages of a stream share."""
    text = "\0".join(str(part) for part in name)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest().upper()


def is_stem(text: str) -> bool:
    return _STEM.match(text) is not None


def unique_key(stem: str, number: int) -> str:
    """The unique key of a message of a stream."""
    if not 0 <= number <= NUMBER_MAX:
        raise InvalidArgumentError(f"message {number} of one stream: a stream holds at most {NUMBER_MAX + 1}")
    return f"{stem}{number >> 16:04X}00000000{number & 0xFFFF:04X}"


def link(chain: int, content_hash: int) -> int:
    """The digest after one more message."""
    return (chain + content_hash) * FACTOR + 1 & _WORD


def unlink(chain: int, before: int) -> int:
    """The content hash that leads from one digest to the next."""
    return (chain - 1) * _INVERSE - before & _WORD


def chain_text(chain: int) -> str:
    return f"{chain:016x}"


def chain_of(properties: bytes) -> int:
    """The digest a stored message carries."""
    text = find_property(properties, _CHAIN_KEY)
    try:
        if text is not None and len(text) == 16:
            return int(text, 16)
    except ValueError:
        pass
    raise CorruptionError(f"a message of a write stream lacks its property {CHAIN}", found=text)


class DoubtError(InvalidArgumentError):
    """It cannot be told which messages of a stream are stored. Sending on could store some twice."""


@dataclass(frozen=True, slots=True)
class Search:
    """Messages before ``count`` are stored, that one is not; ``beyond`` is a later one that is, -1 if none was met."""

    count: int
    beyond: int = -1


def searching(first: int = 0) -> Generator[Sequence[int], Collection[int], Search]:
    """Finds how far a stream is stored from message ``first`` on, all before being so.

    Yields numbers and wants to hear which of them are stored. The first question is about numbers ever farther apart,
    to the end of what a stream can be; the others halve the distance between the last that follows on and its next.
    """
    ahead = [first]
    while (following := first + 2 * (ahead[-1] - first) + 1) <= NUMBER_MAX:
        ahead.append(following)
    found = yield ahead
    known, missed = first, len(ahead)
    for at, number in enumerate(ahead):
        if number not in found:
            missed = at
            break
        known = number + 1
    unstored = ahead[missed] if missed < len(ahead) else NUMBER_MAX + 1
    beyond = max((number for number in ahead[missed:] if number in found), default=-1)
    while known < unstored:
        middle = (known + unstored) // 2
        if middle in (yield (middle,)):
            known = middle + 1
        else:
            unstored = middle
    return Search(known, beyond)


def search_stored(stored_of: Callable[[Sequence[int]], Collection[int]], first: int = 0) -> Search:
    """The same for those who need not wait for the answers."""
    search = searching(first)
    try:
        numbers = next(search)
        while True:
            numbers = search.send(stored_of(numbers))
    except StopIteration as end:
        result: Search = end.value
        return result


def count_stored(is_stored: Callable[[int], bool], what: str) -> int:
    """How many messages of a stream one place holds that nothing else shares with it; ``what`` names it in errors."""
    search = search_stored(lambda numbers: {number for number in numbers if is_stored(number)})
    check_whole(search.count, search.beyond, what)
    return search.count


def check_whole(count: int, beyond: int, what: str) -> None:
    """DoubtError if a message is stored behind one that is not."""
    if beyond >= count:
        raise DoubtError(
            f"message {count} of an earlier attempt is not found in {what}, but message {beyond} is: what was stored "
            "first is gone by now, deleted by retention or lost with an index, so it is not known which rows are stored"
        )

"""Write streams: messages whose identity follows from what they are, so that writing them again stores them once.

A *stream* is what one writer puts into one topic in order: message 0, 1, 2 … Its name decides the unique keys of its
messages, and unique keys are indexed by every RocketMQ broker: so the index of the store is the ledger of what was
written, and anybody who knows the name can ask how far a stream has come. The messages of a stream are stored in
order, so the stored ones are its beginning, and finding the end takes a logarithm of questions.

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
from collections.abc import Callable, Generator
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


def searching() -> Generator[int, bool, int]:
    """Finds the number of stored messages: yields a number, wants to hear whether it is stored, returns the count."""
    known, asked = 0, 0
    while (yield asked):
        known = asked + 1
        asked = 2 * asked + 1
    unstored = asked
    while known < unstored:
        middle = (known + unstored) // 2
        if (yield middle):
            known = middle + 1
        else:
            unstored = middle
    return known


def count_stored(is_stored: Callable[[int], bool]) -> int:
    """The same for those who need not wait for the answers."""
    search = searching()
    try:
        number = next(search)
        while True:
            number = search.send(is_stored(number))
    except StopIteration as end:
        count: int = end.value
        return count

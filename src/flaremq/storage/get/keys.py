"""Messages by key: index chains and records are walked by the core, one Python object per message found."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import cython

from flaremq.core.lookup import UNDECIDED
from flaremq.core.text import key_hash, key_hashes
from flaremq.message.record.check import check_record
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.commit_log import CommitLog

if TYPE_CHECKING:
    from flaremq.message.message_ext import MessageExt

if not cython.compiled:
    from flaremq.core.lookup import index_lookup_many, match_record, match_records
    from flaremq.core.memory import longs_of, writable_longs_of
    from flaremq.message.message_ext import lent_message
    from flaremq.storage.index.lookup_files import lookup_files

_END_OF_TIME = 2**63 - 1
_CROWD = 4  # candidates taken per message asked for: collisions share a chain with real hits


# Eight parameters on purpose: a question, and where to look.
def query_one(
    log: CommitLog,
    index: IndexService,
    topic: str,
    key: str,
    max_count: int,
    begin_ms: int,
    end_ms: int,
    deleted_before: int,
) -> list[MessageExt]:
    """Messages of ``topic`` with this key stored within the time range, oldest first.

    Records before ``deleted_before`` are from the topic's earlier life.
    """
    name, text = _encoded(topic), _encoded(key)
    hashed = key_hash(name, text)
    # Collisions must not push out real hits: ask for more until enough real ones are found or none are left.
    asked = max_count
    while True:
        offsets = lookup_files(index.files, hashed, begin_ms, end_ms, asked)
        found: list[MessageExt] = []
        for physical_offset in dict.fromkeys(offsets) if len(offsets) > 1 else offsets:
            if physical_offset < deleted_before:
                continue
            file = log.files.find(physical_offset)
            buffer = None if file is None else file.borrow()
            if file is None or buffer is None:
                continue
            at = physical_offset - file.start
            end = min(log.readable_offset - file.start, file.size)
            size = match_record(buffer, at, file.start, end, name, text, begin_ms, end_ms)
            message = None
            if size > 0:
                message = lent_message(buffer, at, size)
            elif size == UNDECIDED:
                message = _odd_message(log, physical_offset, topic, key, begin_ms, end_ms)
            if message is not None:
                found.append(message)
                if len(found) >= max_count:
                    break
        if len(found) >= max_count or len(offsets) < asked:
            if len(found) > 1:
                found.reverse()
                found.sort(key=_physical_offset)
            return found
        asked *= 4


def query_many(
    log: CommitLog,
    index: IndexService,
    topic: str,
    keys: Sequence[str],
    max_count: int,
    deleted_before: int,
    query_one: Callable[[str], list[MessageExt]],
) -> list[list[MessageExt]]:
    """Messages of ``topic`` for each key, oldest first; the same as asking one by one.

    Records before ``deleted_before`` are from the topic's earlier life.
    """
    wanted = _Wanted(topic, keys)
    found: list[list[MessageExt]] = [[] for _ in keys]
    crowded: set[int] = set()
    for file in reversed(index.files):
        starts, offsets = index_lookup_many(file.buffer, file.slots, file.entries, wanted.hashes, _CROWD * max_count)
        if len(offsets) >= _CROWD * max_count:
            bounds = longs_of(starts)
            for number in range(len(found)):
                if bounds.data[number + 1] - bounds.data[number] >= _CROWD * max_count:
                    crowded.add(number)
        _collect(log, wanted, starts, offsets, deleted_before, found)
    for number in range(len(found)):
        messages = found[number]
        if len(messages) > 1:  # a message with the same key twice, or indexed twice, counts once
            places = {message.physical_offset: message for message in messages}
            found[number] = [places[place] for place in sorted(places)[-max_count:]]
    for one in crowded:
        if len(found[one]) < max_count:  # collisions may have pushed real hits out of the candidates
            found[one] = query_one(keys[one])
    return found


class _Wanted:
    """Topic and keys as the core takes them."""

    __slots__ = ("blob", "bounds", "hashes", "keys", "topic", "topic_bytes")

    def __init__(self, topic: str, keys: Sequence[str]) -> None:
        self.topic = topic
        self.keys = keys
        self.topic_bytes = _encoded(topic)
        self.blob = _encoded("".join(keys))
        self.bounds = array("q", bytes(8 * (len(keys) + 1)))
        self.hashes = array("q", bytes(8 * len(keys)))
        bounds = writable_longs_of(self.bounds)
        end = 0
        for number, key in enumerate(keys):
            end += len(key)
            bounds.data[number + 1] = end
        if end != len(self.blob):  # not ASCII
            end = 0
            for number, key in enumerate(keys):
                end += len(_encoded(key))
                bounds.data[number + 1] = end
        key_hashes(self.topic_bytes, self.blob, self.bounds, self.hashes)


def _collect(
    log: CommitLog,
    wanted: _Wanted,
    starts: array[int],
    offsets: array[int],
    deleted_before: int,
    found: list[list[MessageExt]],
) -> None:
    """Add the messages among the candidates of one index file, log file by log file."""
    end, size, first = log.readable_offset, log.files.file_size, log.min_offset
    bounds = longs_of(starts)
    places = longs_of(offsets)
    numbers = set()
    last = -1
    for place in range(places.size):
        number = (places.data[place] - first) // size
        if number != last:
            numbers.add(number)
            last = number
    for number in numbers:
        file = log.files.find(first + number * size)
        buffer = None if file is None else file.borrow()
        if file is None or buffer is None:
            continue
        base = file.start
        answers = array("q", bytes(8 * places.size))
        match_records(
            buffer,
            base,
            min(end - base, file.size),
            wanted.topic_bytes,
            wanted.blob,
            wanted.bounds,
            starts,
            offsets,
            answers,
        )
        verdicts = longs_of(answers)
        key = 0
        for place in range(places.size):
            length = verdicts.data[place]
            if length == 0 or places.data[place] < deleted_before:
                continue
            while bounds.data[key + 1] <= place:
                key += 1
            if length > 0:
                found[key].append(lent_message(buffer, places.data[place] - base, length))
            else:
                odd = _odd_message(log, places.data[place], wanted.topic, wanted.keys[key], 0, _END_OF_TIME)
                if odd is not None:
                    found[key].append(odd)


def _odd_message(
    log: CommitLog, physical_offset: int, topic: str, key: str, begin_ms: int, end_ms: int
) -> MessageExt | None:
    """The message here if it has the key, for records that the core does not judge."""
    view = log.record(physical_offset)
    if view is None or not check_record(view, physical_offset=physical_offset).ok:
        return None
    message = lent_message(view, 0, len(view))
    # As texts of records are read.
    topic, key = _encoded(topic).decode("utf-8", "replace"), _encoded(key).decode("utf-8", "replace")
    if message.topic == topic and (message.uniq_key == key or key in message.keys):
        return message if begin_ms <= message.store_timestamp <= end_ms else None
    return None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _physical_offset(message: MessageExt) -> int:
    return message.physical_offset

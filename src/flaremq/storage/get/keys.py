"""Many keys at once: index chains and records are walked by the core, one Python object per message found."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from flaremq.core.lookup import UNDECIDED, index_lookup_many, match_records
from flaremq.core.text import key_hashes
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import check_record
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.commit_log import CommitLog

_CROWD = 4  # candidates taken per message asked for: collisions share a chain with real hits


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
            crowded.update(
                number for number in range(len(keys)) if starts[number + 1] - starts[number] >= _CROWD * max_count
            )
        _collect(log, wanted, starts, offsets, deleted_before, found)
    for number, messages in enumerate(found):
        if len(messages) > 1:  # a message with the same key twice, or indexed twice, counts once
            places = {message.physical_offset: message for message in messages}
            found[number] = [places[place] for place in sorted(places)[-max_count:]]
    for number in crowded:
        if len(found[number]) < max_count:  # collisions may have pushed real hits out of the candidates
            found[number] = query_one(keys[number])
    return found


class _Wanted:
    """Topic and keys as the core takes them."""

    def __init__(self, topic: str, keys: Sequence[str]) -> None:
        self.topic = topic
        self.keys = keys
        texts = [key.encode("utf-8", "surrogatepass") for key in keys]
        self.topic_bytes = topic.encode("utf-8", "surrogatepass")
        self.blob = b"".join(texts)
        self.bounds = array("q", [0])
        end = 0
        for text in texts:
            end += len(text)
            self.bounds.append(end)
        self.hashes = array("q", bytes(8 * len(keys)))
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
    for number in {(offset - first) // size for offset in offsets}:
        file = log.files.find(first + number * size)
        buffer = None if file is None else file.borrow()
        if file is None or buffer is None:
            continue
        verdicts = array("q", bytes(8 * len(offsets)))
        match_records(
            buffer,
            file.start,
            min(end - file.start, file.size),
            wanted.topic_bytes,
            wanted.blob,
            wanted.bounds,
            starts,
            offsets,
            verdicts,
        )
        key = 0
        for place, length in enumerate(verdicts):
            if not length or offsets[place] < deleted_before:
                continue
            while starts[key + 1] <= place:
                key += 1
            at = offsets[place] - file.start
            if length == UNDECIDED:
                odd = _odd_message(log, offsets[place], wanted, key)
                if odd is not None:
                    found[key].append(odd)
            else:
                found[key].append(MessageExt(buffer[at : at + length]))


def _odd_message(log: CommitLog, physical_offset: int, wanted: _Wanted, number: int) -> MessageExt | None:
    """The message here if it has the key, for records that the core does not judge."""
    view = log.record(physical_offset)
    if view is None or not check_record(view, physical_offset=physical_offset).ok:
        return None
    message, key = MessageExt(view), wanted.keys[number]
    if message.topic == wanted.topic and (message.uniq_key == key or key in message.keys):
        return message
    return None

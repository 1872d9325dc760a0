"""Many keys at once: index chains and records walked by kernels, one Python object per message found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flaremq.message.message_ext import MessageExt
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.kernels.compile import Integers
from flaremq.storage.kernels.lookup import NO_MATCH, UNDECIDED, index_lookup_many, match_keys
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.kernels.record import parse_at
from flaremq.storage.kernels.table import CHECK_BODY_CRC, CHECK_RECORD_CRC, SIZE, RecordTable
from flaremq.storage.kernels.text import key_hashes
from flaremq.storage.log.commit_log import CommitLog

_END_OF_TIME = 2**63 - 1
_CROWD = 4  # candidates taken per message asked for
_CHECKS = CHECK_BODY_CRC | CHECK_RECORD_CRC


# Long on purpose: arrays of one step are the input of the next; apart they would be ten parameters.
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
    texts = [key.encode("utf-8", "surrogatepass") for key in keys]
    blob = as_array(b"".join(texts))
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=bounds[1:])
    topic_bytes = as_array(topic.encode("utf-8", "surrogatepass"))
    hashes = np.empty(len(texts), np.int64)
    key_hashes(topic_bytes, blob, bounds, hashes)
    found: list[list[MessageExt]] = [[] for _ in texts]
    numbers, offsets = _candidates(index, hashes, max_count)
    crowded = np.bincount(numbers, minlength=len(texts)) >= _CROWD * max_count
    if deleted_before:
        alive = offsets >= deleted_before
        numbers, offsets = numbers[alive], offsets[alive]
    end = log.readable_offset
    while len(offsets):
        file = log.files.find(int(offsets[0]))
        buffer = None if file is None else file.borrow()
        if file is None or buffer is None:
            numbers, offsets = numbers[1:], offsets[1:]
            continue
        inside = (offsets >= file.start) & (offsets < min(file.end, end))
        inside[0] = True
        chosen, places = np.ascontiguousarray(numbers[inside]), offsets[inside] - file.start
        numbers, offsets = numbers[~inside], offsets[~inside]
        table = RecordTable(len(chosen))
        array = as_array(buffer)
        parse_at(array, places, file.start, _CHECKS, table.columns)
        verdicts = np.empty(len(chosen), np.uint8)
        match_keys(array, table.columns, chosen, topic_bytes, blob, bounds, 0, _END_OF_TIME, verdicts)
        rows = np.flatnonzero(verdicts != NO_MATCH)
        for row, at, size, number in zip(
            rows.tolist(),
            places[rows].tolist(),
            table[SIZE][rows].tolist(),
            chosen[rows].tolist(),
            strict=True,
        ):
            message = MessageExt(buffer[at : at + size])
            key = keys[number]
            if verdicts[row] == UNDECIDED and not (
                message.topic == topic and (message.uniq_key == key or key in message.keys)
            ):
                continue
            if file.start + at + size <= end:
                found[number].append(message)
    for messages in found:
        if len(messages) > 1:
            messages.sort(key=lambda message: message.physical_offset)
            del messages[:-max_count]
    for number in np.flatnonzero(crowded).tolist():
        if len(found[number]) < max_count:  # collisions may have pushed real hits out of the candidates
            found[number] = query_one(keys[number])
    return found


def _candidates(index: IndexService, hashes: Integers, max_count: int) -> tuple[Integers, Integers]:
    """(key number, physical offset) of every entry with a wanted hash, duplicates dropped."""
    numbers, offsets = [], []
    for file in reversed(index.files):
        array = as_array(file.buffer)
        # Collisions share a chain with real hits, so more than asked for is taken from it.
        some = index_lookup_many(array, file.slots, file.entries, hashes, 0, _END_OF_TIME, _CROWD * max_count)
        numbers.append(some[0])
        offsets.append(some[1])
    if not numbers:
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    all_numbers, all_offsets = np.concatenate(numbers), np.concatenate(offsets)
    order = np.lexsort((all_offsets, all_numbers))
    all_numbers, all_offsets = all_numbers[order], all_offsets[order]
    # A message with the same key twice, or indexed twice, counts once.
    fresh = np.ones(len(order), bool)
    fresh[1:] = (all_numbers[1:] != all_numbers[:-1]) | (all_offsets[1:] != all_offsets[:-1])
    return all_numbers[fresh], all_offsets[fresh]

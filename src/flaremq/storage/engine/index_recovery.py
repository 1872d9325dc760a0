"""Putting the key index back to what it was at an offset of the log, from which dispatch then goes on."""

from __future__ import annotations

from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.files.checkpoint import DurableOffsets


class IndexRecovery:
    """The index of one store, before anything else runs."""

    def __init__(self, parts: StoreParts) -> None:
        self._index = parts.index
        self._log = parts.log
        self._dispatcher = parts.dispatcher
        self._offsets = parts.offsets.offsets
        self._unindexed_from = parts.unindexed_from

    def restore(self, start: int) -> int:
        """Put the index back to its recorded state; where to start then: the log's first byte if that is gone."""
        index, state = self._index, self._offsets
        assert index is not None
        while index.files and int(index.files[-1].name) > state.index_name:
            index.drop_last()
        last = index.last
        if state.index_name == 0:
            self._dispatcher.index_from = self.start(state.dispatched)
            return min(start, self._dispatcher.index_from)
        if last is None or int(last.name) != state.index_name or state.index_count > last.entries:
            index.drop_all()
            self._dispatcher.index_from = 0
            return self._log.files.files[0].start
        last.set_ends(
            state.index_begin_timestamp, state.index_end_timestamp, state.index_begin_offset, state.index_end_offset
        )
        last.cut(state.index_count)
        last.sync()
        self._dispatcher.index_from = self.start(state.dispatched)
        return min(start, self._dispatcher.index_from)

    def start(self, indexed: int) -> int:
        """Where the index goes on: at ``indexed``, or before it where indexing was switched off."""
        if self._index is None or self._unindexed_from is None:
            return indexed
        return max(min(indexed, self._unindexed_from), self._log.files.files[0].start)

    def cut(self, start: int) -> None:
        """Drop entries of records at or after ``start``, which will be dispatched again (store of RocketMQ)."""
        index, state = self._index, self.state_at(start)
        assert index is not None
        while index.files and int(index.files[-1].name) > state.index_name:
            index.drop_last()
        last = index.last
        if last is not None:
            last.set_ends(
                state.index_begin_timestamp, state.index_end_timestamp, state.index_begin_offset, state.index_end_offset
            )
            last.cut(state.index_count)
            last.sync()
        self._dispatcher.index_from = start

    def state_at(self, offset: int) -> DurableOffsets:
        """The index as it is without the entries of records at or after ``offset``: the fields about it alone."""
        index = self._index
        files = [] if index is None else [file for file in index.files if file.entry(1)[1] < offset]
        if not files:
            return DurableOffsets()
        last = files[-1]
        low, high = 1, min(last.count, last.entries)
        while low < high:
            middle = (low + high) // 2
            if last.entry(middle)[1] < offset:
                low = middle + 1
            else:
                high = middle
        header, end_offset = last.header, last.entry(low - 1)[1]
        timestamp = self._log.store_timestamp(end_offset)
        return DurableOffsets(
            index_name=int(last.name),
            index_begin_timestamp=header.begin_timestamp,
            index_end_timestamp=header.end_timestamp if timestamp is None else timestamp,
            index_begin_offset=header.begin_offset,
            index_end_offset=end_offset,
            index_slot_count=header.slot_count,
            index_count=low,
        )

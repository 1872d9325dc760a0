"""ReplicaLog: what a slave does to its store, step by step, as its master's stream says.

Small pieces are appended on the loop, as a master's are; large ones, of which a slave that catches up gets hundreds a
second, on a worker thread, while the loop receives and checks the next. Syncing and dispatching are seen to by the
store loop; what is promised to the master (``held``) is what a power cut leaves in SYNC_FLUSH, what is appended
otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.errors import StoreIOError
from flaremq.replication.follower import AddEpoch, Append, Begin, Confirm, Cut, Step

# Bytes that are appended and not durable. Beyond, the system would make the loop wait for the disk in a page fault.
UNDURABLE_MAX: Final = 256 << 20
_COMPARED_BYTES: Final = 4096


class ReplicaLog:
    """The log of one slave. Event loop only."""

    def __init__(self, store_loop: StoreLoop) -> None:
        self._store_loop = store_loop
        self._driver = store_loop.driver
        self._piece_lock = threading.Lock()  # held while a worker thread appends a piece
        self.on_epoch: Callable[[int, int], None] | None = None  # (epoch, start): to be on disk when it returns
        self.on_cut: Callable[[int], None] | None = None  # our log follows another history from here on

    @property
    def end(self) -> int:
        return self._driver.appended

    @property
    def is_empty(self) -> bool:
        return self._driver.is_empty

    @property
    def file_size(self) -> int:
        return self._driver.file_size

    @property
    def held(self) -> int:
        """What may be reported to the master."""
        driver = self._driver
        return driver.durable if driver.sync_mode else driver.appended

    def tail(self) -> bytes:
        """The last bytes of the log, for a comparison with the master's; none at the start of a file.

        Not all of a short log: a report of 0 would say that there is none.
        """
        driver = self._driver
        end = driver.appended
        start = max(end - _COMPARED_BYTES, end - end % driver.file_size, driver.min_offset, 1)
        view = driver.transfer_view(start, end, end - start) if start < end else None
        return b"" if view is None or len(view) < end - start else bytes(view)

    @property
    def is_too_far_ahead_of_the_disk(self) -> bool:
        return self._driver.appended - self._driver.durable > UNDURABLE_MAX

    async def sync(self) -> None:
        """Make everything appended durable, on a worker thread."""
        await self._store_loop.run(self._driver.sync)

    async def append_beside(self, steps: Sequence[Step], is_over: threading.Event) -> None:
        """Append on a worker thread; nothing more once ``is_over`` is set and ``wait_for_piece`` has returned.

        Only steps for which ``is_plain`` holds.
        """
        try:
            await self._store_loop.run(self._append_pieces, [step for step in steps if type(step) is Append], is_over)
        finally:
            self._store_loop.durability.appended()
        if not is_over.is_set():
            self.apply([step for step in steps if type(step) is not Append])

    def _append_pieces(self, steps: list[Append], is_over: threading.Event) -> None:
        for step in steps:
            with self._piece_lock:
                if is_over.is_set():
                    return
                self._driver.append_replica(step.offset, step.data)

    def wait_for_piece(self) -> None:
        """Until a piece that a worker thread is appending is part of the log: a read's worth, so not long."""
        with self._piece_lock:
            pass

    def apply(self, steps: Sequence[Step]) -> None:
        """Do what the stream says, in order. StoreIOError: the log is as the steps before left it."""
        driver = self._driver
        has_grown = False
        try:
            for step in steps:
                if type(step) is Append:
                    driver.append_replica(step.offset, step.data)
                    has_grown = True
                elif type(step) is Confirm:
                    driver.confirm(step.offset)
                elif type(step) is AddEpoch:
                    if self.on_epoch is not None:
                        self.on_epoch(step.epoch, step.start_offset)
                elif type(step) is Begin:
                    if driver.appended != step.offset:
                        driver.begin_at(step.offset)
                elif type(step) is Cut and self.on_cut is not None:
                    self.on_cut(step.offset)
        except OSError as error:
            raise StoreIOError("append", self._store_loop.store.path, error) from error
        finally:
            if has_grown:
                self._store_loop.durability.appended()
            elif steps:
                self._store_loop.dispatching.synced()  # a higher confirm offset shows more


def is_plain(steps: Sequence[Step]) -> bool:
    """Whether there is nothing to do but to append and to show."""
    return all(type(step) is Append or type(step) is Confirm for step in steps)

"""How fast messages go in: one thread and sixteen, ASYNC_FLUSH and SYNC_FLUSH, one by one and in batches.

First a run for the rate, then one for the latencies, which times each call. As in RocketMQ's driver the making of a
message is part of the loop but not of a call's latency, and every answer is looked at.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.messages import KEY, QUEUES, TOPIC, make_body
from benchmarks.rounds import Figure, Measurement
from benchmarks.settings import Settings
from benchmarks.timing import Processor, Row, percentiles, samples

if TYPE_CHECKING:
    from flaremq import MessageStore, PutResult

# label, body size, batch, threads, flush, wanted ratio; "columns" in the label: put_many instead of put_batch
_CASES = (
    ("put 100 B", 100, 0, 1, "ASYNC_FLUSH", 1.1),
    ("put 1 KB", 1024, 0, 1, "ASYNC_FLUSH", 1.1),
    ("put 4 KB", 4096, 0, 1, "ASYNC_FLUSH", 1.0),
    ("put 32 x 100 B", 100, 32, 1, "ASYNC_FLUSH", None),
    ("put 32 x 100 B, columns", 100, 32, 1, "ASYNC_FLUSH", 1.2),
    ("put 32 x 1 KB", 1024, 32, 1, "ASYNC_FLUSH", None),
    ("put 32 x 1 KB, columns", 1024, 32, 1, "ASYNC_FLUSH", 1.0),
    ("put 1 KB, SYNC, 1 thread", 1024, 0, 1, "SYNC_FLUSH", 1.1),
    ("put 1 KB, SYNC, 16 threads", 1024, 0, 16, "SYNC_FLUSH", 1.2),
)


def plan(settings: Settings) -> list[Measurement]:
    return [
        Measurement(
            name=label,
            ours=(
                "store.put:measure",
                {
                    "size": size,
                    "batch": batch,
                    "columns": "columns" in label,
                    "threads": threads,
                    "flush": flush,
                    "warm_seconds": settings.warm_seconds,
                    "seconds": settings.put_seconds,
                    "bytes_max": settings.put_bytes_max,
                    "latency_calls": settings.latency_calls,
                    "latency_seconds": settings.latency_seconds,
                },
            ),
            theirs=(
                "put",
                {
                    "size": size,
                    "batch": batch,
                    "threads": threads,
                    "flushDiskType": flush,
                    "warm": settings.warm_seconds,
                    "seconds": settings.put_seconds,
                    "bytes": settings.put_bytes_max,
                },
            ),
            rounds=settings.rounds,
            # To warm up, for the rate, and for the rest: latencies, queues and index, the heap of Java.
            memory_bytes=3 * settings.put_bytes_max if flush == "ASYNC_FLUSH" else 0,
            figures=(
                Figure(label=label, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=wanted),
                *(
                    Figure(label=f"  {text} a call", unit="us", ours=name, theirs=name, less_is_better=True)
                    for text, name in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"))
                ),
                Figure(label="  until dispatched", unit="msg/s", ours="msg_s_dispatched", theirs="msg_s_dispatched"),
                # RocketMQ's driver only knows how far behind it was at the end.
                Figure(label="  dispatch behind, at most", unit="bytes", ours="lag_max_bytes", less_is_better=True),
            ),
        )
        for label, size, batch, threads, flush, wanted in _CASES
    ]


def measure(
    *,
    folder: str,
    size: int,
    batch: int,
    columns: bool,
    threads: int,
    flush: str,
    warm_seconds: float,
    seconds: float,
    bytes_max: int,
    latency_calls: int,
    latency_seconds: float,
) -> Row:
    from flaremq import MessageStore, StoreOptions

    with MessageStore.open(folder, StoreOptions(flush_disk_type=flush)) as store:
        load = _Load(store, size, batch, columns=columns, chunk=1 if flush == "SYNC_FLUSH" else 256)
        load.run(threads, warm_seconds, bytes_max)
        store.wait_for_dispatch()
        os.sync()  # as RocketMQ's driver does it: nobody is slowed down by what is still to be written

        log_begin, processor, begin = store.max_physical_offset, Processor(), time.perf_counter()
        stored, lag = load.run(threads, seconds, bytes_max)
        end = time.perf_counter()
        store.wait_for_dispatch()
        dispatched = time.perf_counter()
        log_bytes = store.max_physical_offset - log_begin
        row: Row = {
            "messages": stored,
            "seconds": round(end - begin, 3),
            "msg_s": round(stored / (end - begin)),
            "MB_s": round(log_bytes / (end - begin) / 1e6, 1),
            "msg_s_dispatched": round(stored / (dispatched - begin)),
            "lag_max_bytes": lag,
            "lag_max_messages": round(lag * stored / log_bytes),
            **processor.describe(),
        }
        os.sync()
        return row | load.run_timed(threads, latency_seconds, latency_calls)


class _Load:
    """Putting threads over one store; numbers go out in chunks so that no two messages share a key."""

    def __init__(self, store: MessageStore, size: int, batch: int, *, columns: bool, chunk: int) -> None:
        from flaremq import PutMessageStatus

        self._store = store
        self._body = make_body(size)
        self._batch = batch
        self._bodies = [self._body] * batch if columns else None
        # The clock, the dispatch lag and the log's length are looked at once a chunk: too rarely to slow it down.
        self._chunk = chunk if not batch else batch * max(1, chunk // 32)
        self._numbers = itertools.count(0, self._chunk)  # next() of it is atomic
        self._ok = PutMessageStatus.PUT_OK

    def run(self, threads: int, seconds: float, bytes_max: int) -> tuple[int, int]:
        """Put for some time or until the log has grown enough; (messages, largest dispatch lag in bytes)."""
        store, put_chunk = self._store, self._put_batches if self._batch else self._put_singles
        deadline, log_end = time.perf_counter() + seconds, store.max_physical_offset + bytes_max
        stored, lags = [0] * threads, [0] * threads

        def loop(worker: int) -> None:
            while time.perf_counter() < deadline and store.max_physical_offset < log_end:
                put_chunk(next(self._numbers))
                stored[worker] += self._chunk
                lags[worker] = max(lags[worker], store.dispatch_lag_bytes)

        _in_threads(threads, loop)
        return sum(stored), max(lags)

    def _put_singles(self, first: int) -> None:
        from flaremq import Message

        put, body, ok = self._store.put, self._body, self._ok
        for number in range(first, first + self._chunk):
            result = put(Message(TOPIC, body, keys=KEY % number), number % QUEUES)
            if result.status is not ok:
                raise RuntimeError(f"put answered {result}")

    def _put_batches(self, first: int) -> None:
        batch = self._batch
        for start in range(first, first + self._chunk, batch):
            result = self._putter(start)(start // batch % QUEUES)
            if result.status is not self._ok:
                raise RuntimeError(f"a batch was answered {result}")

    def _putter(self, first: int) -> Callable[[int], PutResult]:
        """A batch that is ready to be put into a queue: messages, or columns of bodies and keys."""
        from flaremq import Message

        store, body, bodies = self._store, self._body, self._bodies
        keys = [KEY % number for number in range(first, first + self._batch)]
        if bodies is not None:
            return lambda queue_id: store.put_many(TOPIC, bodies, queue_id, keys=keys)
        messages = [Message(TOPIC, body, keys=key) for key in keys]
        return lambda queue_id: store.put_batch(messages, queue_id)

    def run_timed(self, threads: int, seconds: float, calls: int) -> Row:
        """The same again with a clock around each call."""
        from flaremq import Message

        body, batch, clock = self._body, self._batch, time.perf_counter_ns
        put = self._store.put
        deadline = clock() + int(seconds * 1e9)
        times: list[array[int]] = [array("q")] * threads

        def loop(worker: int) -> None:
            spent, done = samples(calls // threads), 0
            for done in range(len(spent)):
                number = next(self._numbers)
                if batch:
                    put_batch = self._putter(number)
                    begin = clock()
                    put_batch(done % QUEUES)
                else:
                    message = Message(TOPIC, body, keys=KEY % number)
                    begin = clock()
                    put(message, done % QUEUES)
                end = clock()
                spent[done] = end - begin
                if end > deadline:
                    break
            times[worker] = spent[: done + 1]

        _in_threads(threads, loop)
        return percentiles(itertools.chain.from_iterable(times))


def _in_threads(threads: int, work: Callable[[int], None]) -> None:
    """``work(0)`` .. ``work(threads - 1)`` at once; the first error of any is raised."""
    if threads == 1:
        work(0)
        return
    errors: list[BaseException] = []

    def guarded(worker: int) -> None:
        try:
            work(worker)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=guarded, args=(worker,)) for worker in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]

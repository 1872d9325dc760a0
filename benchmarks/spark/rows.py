"""The rows both sides hold: 8 queues in turn, one unique key each, printable random bodies, ten minutes of time.

Bodies are written to a file once and stored from there, so that both sides get the same bytes; random, because a body
that repeats would be compressed away by whoever looks furthest back.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.messages import KEY, QUEUES
from benchmarks.timing import Row

TOPIC = "SparkTopic"
SIZE = 1024
SPAN_MS = 600_000
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_STEP = 16_384


def write_bodies(*, folder: str, count: int) -> Row:
    """``bodies`` for both sides, and ``sink.parquet`` with keys and bodies for the sink."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = np.frombuffer(_ALPHABET, dtype=np.uint8)
    random = np.random.default_rng(7)
    sink = Path(folder) / "sink.parquet"
    sink.mkdir()
    schema = pa.schema([("keys", pa.string()), ("body", pa.binary())])
    offsets = pa.array(np.arange(_STEP + 1, dtype=np.int32) * SIZE, type=pa.int32())
    writers = [pq.ParquetWriter(sink / f"part-{number}.parquet", schema, use_dictionary=False) for number in range(4)]
    with open(Path(folder) / "bodies", "wb") as file:
        for number, first in enumerate(range(0, count, _STEP)):
            rows = min(_STEP, count - first)
            body = table[random.integers(0, 64, rows * SIZE, dtype=np.uint8)]
            file.write(body.data)
            values = pa.Array.from_buffers(
                pa.binary(), rows, [None, offsets.slice(0, rows + 1).buffers()[1], pa.py_buffer(body)]
            )
            keys = pa.array([KEY % each for each in range(first, first + rows)])
            writers[number % 4].write_table(pa.table([keys, values], schema=schema))
    for writer in writers:
        writer.close()
    return {"bodies": str(Path(folder) / "bodies"), "sink": str(sink)}


class _RowClock:
    """The wall clock says what the row says; intervals are real ones."""

    def __init__(self, now_ms: int) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return time.monotonic()


def fill_store(*, folder: str, bodies: str, count: int, base_ms: int, times: int = 1) -> Row:
    """A closed store of ``times`` × ``count`` rows: the rows first, then their bodies again under further keys and
    times."""
    from flaremq import Message, MessageStore, StoreOptions

    clock = _RowClock(base_ms)
    begin = time.perf_counter()
    with MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH"), clock=clock) as store:
        put = store.put
        for turn in range(times):
            with open(bodies, "rb") as file:
                for number in range(turn * count, (turn + 1) * count):
                    clock.now = base_ms + number * SPAN_MS // count
                    if not put(Message(TOPIC, file.read(SIZE), keys=KEY % number), number % QUEUES).ok:
                        raise RuntimeError(f"message {number} was refused: {store.statistics()['refusal']}")
        store.wait_for_dispatch()
        stored = sum(store.max_offset(TOPIC, queue) for queue in range(QUEUES))
        log_bytes = store.max_physical_offset
    return {"rows": stored, "log_bytes": log_bytes, "seconds": round(time.perf_counter() - begin, 2)}


def send_at_rate(*, name_server: str, topic: str, per_second: float, seconds: float) -> Row:
    """Over the wire, one by one, each body beginning with the nanosecond it was due at, 19 digits."""
    import asyncio

    from flaremq import Message, Producer

    async def run() -> int:
        total = round(per_second * seconds)
        pending: set[asyncio.Task[object]] = set()
        async with Producer(name_server, group="bench-load") as producer:
            begin, wall = time.perf_counter_ns(), time.time_ns()
            for number in range(total):
                due = int(number / per_second * 1e9)
                left = begin + due - time.perf_counter_ns()
                if left > 0:
                    await asyncio.sleep(left / 1e9)
                body = b"%019d" % (wall + due) + bytes(SIZE - 19)
                task: asyncio.Task[object] = asyncio.ensure_future(producer.send(Message(topic, body)))
                pending.add(task)
                task.add_done_callback(pending.discard)
            await asyncio.gather(*pending)
        return total

    return {"sent": asyncio.run(run())}

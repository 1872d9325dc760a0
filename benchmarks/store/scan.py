"""How fast a queue is read, 1 KB messages, 32 a call: as views, as copied bytes, decoded into Arrow.

==========  =====================================================================  ================================
ours        what is done                                                           beside RocketMQ's driver
==========  =====================================================================  ================================
views       ``get``: objects, each record checked against unit and checksum        each record copied to the heap
copied      ``get``, then ``bytes(message.record)`` for each message               each record copied to the heap
block       ``get_bytes``: the records as one run of bytes, as a pull answers it   the same
arrow       ``scan`` of all columns, checksums checked, no call limit              decoded with body and checksum
==========  =====================================================================  ================================

The queue is read again and again, from a warm page cache. The first pass of each kind does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.messages import TOPIC, fill
from benchmarks.rounds import Figure, Measurement
from benchmarks.settings import Settings
from benchmarks.timing import Processor, Row

if TYPE_CHECKING:
    from flaremq import MessageStore

_A_CALL = 32


def plan(settings: Settings) -> list[Measurement]:
    amounts = {"size": 1024, "seconds": settings.scan_seconds}
    return [
        Measurement(
            name="scan 1 KB",
            ours=("store.scan:measure", {**amounts, "log_bytes": settings.scan_bytes}),
            theirs=("scan", {**amounts, "bytes": settings.scan_bytes, "warm": settings.warm_seconds}),
            merge=_by_touch,
            rounds=settings.rounds,
            figures=(
                Figure(
                    label="get 32 as objects", unit="msg/s", ours="views_msg_s", theirs="copy_msg_s", wanted_ratio=0.5
                ),
                Figure(label="get 32, copied one by one", unit="msg/s", ours="copied_msg_s", theirs="copy_msg_s"),
                Figure(
                    label="get 32, copied as a block",
                    unit="msg/s",
                    ours="block_msg_s",
                    theirs="copy_msg_s",
                    wanted_ratio=1.2,
                ),
                Figure(
                    label="decoded, all columns into Arrow",
                    unit="msg/s",
                    ours="arrow_msg_s",
                    theirs="decode_msg_s",
                    wanted_ratio=1.5,
                ),
            ),
        )
    ]


def _by_touch(rows: list[Row]) -> Row:
    merged: Row = {f"{row['touch']}_{name}": row[name] for row in rows for name in ("msg_s", "p50_us", "p99_us")}
    busy = sum(row["cpu_other_s"] for row in rows) / sum(row["seconds"] for row in rows)
    return merged | {"other_cores": round(busy, 2)}


def measure(*, folder: str, size: int, log_bytes: int, seconds: float) -> Row:
    from flaremq import MessageStore, StoreOptions

    with MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH")) as store:
        row: Row = {"stored": fill(store, size, log_bytes=log_bytes)}
        row["in_queue"] = store.max_offset(TOPIC, 0)
        processor = Processor()
        for name, passing in (("views", _views), ("copied", _copied), ("block", _block), ("arrow", _arrow)):
            row[f"{name}_msg_s"] = _rate(lambda passing=passing: passing(store), seconds)  # type: ignore[misc]
        return row | processor.describe()


def _rate(one_pass: Callable[[], Iterator[int]], seconds: float) -> int:
    """Messages a second over as many passes as fit, the last one cut short."""
    for _ in one_pass():
        pass
    messages = 0
    begin = time.perf_counter()
    deadline = begin + seconds
    while True:
        for count in one_pass():
            messages += count
            if time.perf_counter() > deadline:
                return round(messages / (time.perf_counter() - begin))


def _views(store: MessageStore) -> Iterator[int]:
    offset, end = 0, store.max_offset(TOPIC, 0)
    while offset < end:
        result = store.get(TOPIC, 0, offset, _A_CALL)
        offset = result.next_offset
        yield len(result.messages)


def _copied(store: MessageStore) -> Iterator[int]:
    offset, end = 0, store.max_offset(TOPIC, 0)
    while offset < end:
        result = store.get(TOPIC, 0, offset, _A_CALL)
        offset = result.next_offset
        for message in result.messages:
            bytes(message.record)
        yield len(result.messages)


def _block(store: MessageStore) -> Iterator[int]:
    offset, end = 0, store.max_offset(TOPIC, 0)
    while offset < end:
        _records, count, offset = store.get_bytes(TOPIC, 0, offset, _A_CALL)
        yield count


def _arrow(store: MessageStore) -> Iterator[int]:
    for batch in store.scan(TOPIC, 0):
        yield batch.num_rows

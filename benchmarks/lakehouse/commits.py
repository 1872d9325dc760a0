"""What a commit of ``table --follow`` costs as the table grows: by the clock, from a commit to the next.

One process, no Spark: each time the table has caught up, a few more messages are put. Steps that happen now and then
(merged manifests, checkpoints, snapshots that are forgotten) are in the mean of the commits before the one told of.
"""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.timing import Row

_MESSAGES = 64  # in a commit
_QUEUES = 8
_AROUND = 0.2  # of the commits up to the one that is told


def run(*, folder: str, kind: str, commits: list[int]) -> Row:
    """``ms_<n>``: the mean of a fifth of the first n commits, the last ones."""
    from flaremq import Message, MessageStore, StoreOptions
    from flaremq.pipeline.jobs.table import table
    from flaremq.pipeline.tables.model.target import parse_target

    root = Path(folder)
    lake = str(root / "lake")
    target = parse_target(f"delta:{lake}/rows") if kind == "delta" else parse_target("iceberg:l.d.r", warehouse=lake)
    stop = threading.Event()
    times: list[float] = []
    with MessageStore.open(str(root / "store"), StoreOptions(flush_disk_type="ASYNC_FLUSH")) as store:

        def more(_: object = None) -> None:
            times.append(time.perf_counter())
            if len(times) > max(commits):
                stop.set()
                return
            for number in range(_MESSAGES):
                store.put(Message("rows", b"%01000d" % number), number % _QUEUES)
            store.wait_for_dispatch()

        more()
        options = {"path": str(root / "store"), "topic": "rows"}
        table(None, options, target, follow=True, interval=0.001, stop=stop, on_commit=more)
    spans = [1000 * (after - before) for before, after in pairwise(times)]
    row: Row = {"commits": len(spans)}
    for count in commits:
        first = count - max(5, round(count * _AROUND))
        row[f"ms_{count}"] = round(sum(spans[first:count]) / (count - first), 2)
    return row

"""Stores that are written while they are read, and stores whose writer died."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from flaremq.message.message import Message
from flaremq.pipeline.model.spans import Span
from flaremq.storage.files.locks import is_locked
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.store_lab import TOPIC, StoreLab
from tests.support.store_rows import UNIT_COLUMNS, all_rows, in_queue_order, read_rows, rows_by_get, source_of, spans_of


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["queueOffset"] for row in rows]


def test_a_live_store_is_read_while_it_grows(lab: StoreLab) -> None:
    lab.open(threads=True, flush_disk_type="ASYNC_FLUSH")
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.is_set() and written < 20_000:
            lab.store.put_batch([Message(TOPIC, b"%08d" % (written + n)) for n in range(20)], 0)
            written += 20

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    try:
        with source_of(lab.root) as source:
            while seen < 2000:
                spans = [span for span in spans_of(source) if span.queue.topic == TOPIC]
                for span in spans:
                    rows = read_rows(source, [Span(span.queue, seen, span.end)], ["queueOffset", "body"])
                    assert offsets(rows) == list(range(seen, span.end))
                    assert [row["body"] for row in rows] == [b"%08d" % number for number in range(seen, span.end)]
                    seen = span.end
                assert writer.is_alive() or seen < written
    finally:
        stop.set()
        writer.join()


def test_pinned_end_stays_although_the_store_grows(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(10)
    lab.store.tick()
    with source_of(lab.root) as source:
        spans = spans_of(source)
        lab.put_many(10)
        lab.store.tick()
        assert offsets(read_rows(source, spans, ["queueOffset", "body"])) == list(range(10))
        assert [span.end for span in spans_of(source)] == [20]


def test_looking_takes_no_lock_and_does_not_lose_the_one_held_here(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.store.tick()
    lock = str(lab.root / "lock")
    assert is_locked(lock)
    all_rows(lab)
    assert is_locked(lock)
    lab.close()
    assert not is_locked(lock)
    lab.open()  # nobody else holds it


def test_what_is_planned_is_synced(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.put_many(5)
    lab.store._dispatch.run()
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    with source_of(lab.root) as source:
        assert [span.end for span in spans_of(source)] == [5]
        assert len(synced) == 1
        lab.store.flush()
        synced.clear()
        spans_of(source)
        assert synced == []  # the store's own note says that it is on disk


def test_after_a_kill_the_undispatched_tail_is_visible(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(10, tags="A")
    lab.store.tick()
    lab.put_many(7, tags="B")
    lab.put(b"elsewhere", topic="new", queue_id=3)
    lab.store.flush()
    lab.kill()
    killed = all_rows(lab)
    narrow = all_rows(lab, UNIT_COLUMNS)
    tagged = all_rows(lab, ["topic", "queueId", "queueOffset"], tags=["B"])
    lab.open()
    assert killed == rows_by_get(lab.store)
    assert len(killed) == 18
    assert offsets(tagged) == list(range(10, 17))
    assert narrow == [{name: row[name] for name in UNIT_COLUMNS} for row in killed]


def test_after_a_kill_a_torn_record_is_not_part_of_the_view(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.put_many(3)
    last = lab.put(b"torn")
    lab.store._dispatch.run()
    lab.kill()
    path = lab.log_files()[0]
    with path.open("r+b") as file:
        file.seek(last.physical_offset + 90)
        file.write(b"\xff")
    rows = all_rows(lab)
    assert offsets(rows) == [0, 1, 2]
    assert rows == rows_by_get(lab.open())


_WRITER = """
import sys
from flaremq import Message, MessageStore, StoreOptions

sizes = {"mapped_file_size_commit_log": 1 << 16, "mapped_file_size_consume_queue": 2000}
store = MessageStore.open(sys.argv[1], StoreOptions(flush_disk_type="ASYNC_FLUSH", **sizes))
print("open", flush=True)
number = 0
while number < 1_000_000:
    for _ in range(50):
        store.put(Message("orders", b"%08d" % number, tags=f"t{number % 3}", keys=f"k{number}"), queue_id=number % 2)
        number += 1
"""


def test_a_store_of_another_process_is_read_live_and_after_it_was_killed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(root)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == b"open\n"
        seen = [0, 0]
        with source_of(root) as source:
            while min(seen) < 1000:
                assert writer.poll() is None
                assert is_locked(str(root / "lock"))
                for span in spans_of(source):
                    number = span.queue.queue_id
                    rows = read_rows(source, [Span(span.queue, seen[number], span.end)], ["queueOffset", "body"])
                    assert [row["body"] for row in rows] == [
                        b"%08d" % (2 * n + number) for n in range(seen[number], span.end)
                    ]
                    seen[number] = span.end
    finally:
        writer.kill()
        writer.wait()
        if writer.stdout is not None:
            writer.stdout.close()
    assert not is_locked(str(root / "lock"))
    with source_of(root) as source:
        spans = spans_of(source)
        killed = in_queue_order(read_rows(source, spans))
        assert all(span.end >= seen[span.queue.queue_id] for span in spans)
        late = killed[-1]
        (found,) = read_rows(source, spans, keys=[late["keys"]])
        assert found == late
    with MessageStore.open(
        root, StoreOptions(mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000)
    ) as store:
        assert killed == rows_by_get(store)


_READER = """
import sys
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import Span
from flaremq.pipeline.sources.store import StoreSource

with StoreSource(SourceSpec(paths=(("b", sys.argv[1]),))) as source:
    spans = [Span(extent.queue, extent.min_offset, extent.max_offset) for extent in source.extents(TopicSelector())]
    def peak():
        # Not ru_maxrss: that remembers the process this one was forked from.
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
    before = peak()
    rows = largest = 0
    for columns in (None, ["body"], ["storeTimestamp", "properties"]):
        for batch in source.read(spans, ReadRequest(schema_of(columns))):
            rows += batch.num_rows
            largest = max(largest, batch.nbytes)
    print(rows, largest >> 20, peak() - before, peak())
"""


@pytest.mark.slow
def test_memory_of_a_reader_does_not_grow_with_the_range(tmp_path: Path) -> None:
    root = tmp_path / "store"
    bodies = [random.Random(size).randbytes(size) for size in (1000, 5000, 60_000, 700_000)]
    with MessageStore.open(
        root, StoreOptions(flush_disk_type="ASYNC_FLUSH", mapped_file_size_commit_log=64 << 20)
    ) as store:
        count = 0
        while count < 20_000:
            store.put_batch([Message(TOPIC, bodies[n % 300 == 0]) for n in range(500)], count // 500 % 4)
            store.put(Message("large", bodies[2]), 0)
            store.put(Message("large", bodies[3]), 0)
            count += 500
        stored = store.max_physical_offset
    assert stored > 48 << 20
    # Compiling the kernels for the first time takes more memory than reading ever does.
    subprocess.run([sys.executable, "-c", "import flaremq.pipeline.sources.store"], check=True)
    output = subprocess.run([sys.executable, "-c", _READER, str(root)], check=True, capture_output=True, text=True)
    rows, largest, grown, peak = map(int, output.stdout.split())
    assert rows == 3 * (20_000 + 80)
    assert largest <= 8
    assert grown < 128 and peak < 512, output.stdout


def test_each_death_of_a_store_has_a_tail_of_its_own(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(2)
    lab.store.flush()
    lab.kill()
    assert offsets(all_rows(lab)) == [0, 1]
    assert offsets(all_rows(lab)) == [0, 1]
    lab.open()
    lab.put_many(3)
    lab.store.flush()
    lab.kill()
    assert offsets(all_rows(lab)) == [0, 1, 2, 3, 4]

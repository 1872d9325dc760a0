"""Leases: what readers from outside ask of retention, and what becomes of it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from flaremq.message.message import Message
from flaremq.storage.engine.leases import LIFETIME_MS, Lease, Leases
from flaremq.storage.files.filesystem import LocalFileSystem
from tests.support.driven_store import open_driven
from tests.support.store_lab import LOG_FILE, TOPIC, MeasuredFileSystem, StoreLab
from tests.support.store_rows import read_rows, source_of, spans_of

HOUR = 3_600_000


@pytest.fixture
def expired(lab: StoreLab) -> StoreLab:
    """Five log files, all but the last of which retention may delete now."""
    lab.filesystem = MeasuredFileSystem(0.1)
    lab.open()
    lab.fill_files(4)
    lab.clock.advance(73 * HOUR)
    hour = time.localtime(lab.clock.now_ms() / 1000).tm_hour
    lab.reopen(delete_when=f"{hour:02d}")
    return lab


def starts(lab: StoreLab) -> list[int]:
    return [int(path.name) // LOG_FILE for path in lab.log_files()]


def test_leased_files_and_those_behind_them_stay(expired: StoreLab) -> None:
    Lease(str(expired.root)).hold(2 * LOG_FILE + 5, now_ms=expired.clock.now_ms())
    expired.store.tick()
    assert starts(expired) == [2, 3, 4]


def test_a_lease_that_ran_out_is_removed_and_holds_nothing(expired: StoreLab) -> None:
    Lease(str(expired.root)).hold(0, now_ms=expired.clock.now_ms())
    expired.store.tick()
    assert starts(expired) == [0, 1, 2, 3, 4]
    expired.clock.advance(LIFETIME_MS)
    expired.store.tick()
    assert starts(expired) == [4]
    assert list((expired.root / "flaremq.leases").iterdir()) == []


def test_a_nearly_full_disk_overrides_leases(expired: StoreLab) -> None:
    Lease(str(expired.root)).hold(0, now_ms=expired.clock.now_ms())
    assert isinstance(expired.filesystem, MeasuredFileSystem)
    expired.filesystem.used = 0.88
    expired.store.tick()
    assert starts(expired) == [4]


def test_without_leases_nothing_changes(expired: StoreLab) -> None:
    expired.store.tick()
    assert starts(expired) == [4]


def lowest(root: Path, now_ms: int) -> int | None:
    return Leases(LocalFileSystem(), str(root / "flaremq.leases")).lowest(now_ms)


def test_the_lowest_of_several_counts(tmp_path: Path) -> None:
    now = 1_000_000_000
    lease = Lease(str(tmp_path))
    lease.hold(500, now)
    lease.hold(900, now + 10)  # within the minute: the lower one stays
    assert lowest(tmp_path, now + 20) == 500
    lease.hold(300, now + 30)  # asking for more is written at once
    assert lowest(tmp_path, now + 40) == 300


def test_a_stream_lets_go_of_what_it_left_behind(tmp_path: Path) -> None:
    now = 1_000_000_000
    lease = Lease(str(tmp_path))
    for minute in range(40):
        lease.hold(1000 * minute, now + minute * 61_000)
    assert lowest(tmp_path, now + 39 * 61_000) == 25_000
    assert len(list((tmp_path / "flaremq.leases").iterdir())) == 1


def test_readers_prolong_the_lease_of_the_plan_they_work_for(tmp_path: Path) -> None:
    now = 1_000_000_000
    Lease(str(tmp_path)).hold(100, now)
    (plan,) = (tmp_path / "flaremq.leases").iterdir()
    plan = plan.rename(plan.with_name("00000000-0000-0000-0000-000000000001.json"))  # of another process
    reader = Lease(str(tmp_path))
    for minute in range(120):
        reader.hold(5000, now + minute * 61_000)
    later = now + 119 * 61_000
    assert lowest(tmp_path, later) == 100
    assert json.loads(plan.read_text())["expiresMs"] > later
    for minute in range(120, 400):
        reader.hold(5000, now + minute * 61_000)
    assert lowest(tmp_path, now + 399 * 61_000) == 5000  # not for ever: six hours


def test_a_lease_that_ends_absurdly_late_is_a_wrong_clock(tmp_path: Path) -> None:
    Lease(str(tmp_path)).hold(0, now_ms=10 * HOUR)
    assert lowest(tmp_path, now_ms=5 * HOUR) is None


def test_notes_that_are_none_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "flaremq.leases"
    folder.mkdir()
    for number, text in enumerate(("", "{", "[]", '{"physicalOffset": "x", "expiresMs": 1}', '{"holds": 3}')):
        (folder / f"{number}.json").write_text(text)
    (folder / "9.json").write_text('{"physicalOffset": 7, "expiresMs": 2000}')  # the short form
    assert lowest(tmp_path, 1000) == 7


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_cannot_be_written_gets_no_lease(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    Lease(str(tmp_path)).hold(0)
    assert not (tmp_path / "flaremq.leases").exists()


def test_a_file_in_place_of_the_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "flaremq.leases").write_text("")
    Lease(str(tmp_path)).hold(0)
    assert lowest(tmp_path, 0) is None


def test_planning_and_reading_a_live_store_leave_a_lease(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(5)
    second = lab.put_many(5)[0]
    lab.store.tick()
    with source_of(lab.root) as source:
        spans = [span._replace(start=5) for span in spans_of(source)]
        assert lowest(lab.root, int(time.time() * 1000)) is None  # a look alone asks for nothing
        source.profiles(spans)
        assert lowest(lab.root, int(time.time() * 1000)) == second.physical_offset
        for path in (lab.root / "flaremq.leases").iterdir():
            path.unlink()
    with source_of(lab.root) as source:
        read_rows(source, spans, ["body"])
        assert lowest(lab.root, int(time.time() * 1000)) == second.physical_offset


def test_a_store_at_rest_gets_no_lease(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(5)
    lab.close()
    with source_of(lab.root) as source:
        source.profiles(spans_of(source))
        read_rows(source, spans_of(source), ["body"])
    assert not (lab.root / "flaremq.leases").exists()


def test_queues_are_written_soon_while_somebody_reads_the_files(lab: StoreLab) -> None:
    lab.clock.jump(int(time.time() * 1000) - lab.clock.now_ms())
    open_driven(lab)
    engine = lab.store._engine
    assert engine.maintenance_step() == 1.0
    Lease(str(lab.root)).hold(0)
    assert engine.maintenance_step() < 0.1
    looks = []
    engine.cleaner.look = lambda: looks.append(1)  # type: ignore[method-assign]
    for _ in range(5):
        assert engine.maintenance_step() < 0.1
        lab.clock.advance(20)
    assert looks == [], "what is not draining keeps its pace"
    lab.clock.advance(1000)
    engine.maintenance_step()
    assert looks == [1]
    lab.clock.advance(2 * 60_000)
    assert engine.maintenance_step() == 1.0, "nobody has read for a while"


def test_who_looks_again_at_a_store_in_use_is_known_to_it(lab: StoreLab) -> None:
    store = lab.open()
    store.put(Message(TOPIC, b"first"), 0)
    lab.store.tick()
    leases = Leases(LocalFileSystem(), str(lab.root / "flaremq.leases"))
    with source_of(lab.root) as source:
        spans_of(source)
        assert not leases.are_fresh(int(time.time() * 1000)), "a batch that counts needs no lease"
        spans_of(source)
        assert leases.are_fresh(int(time.time() * 1000))

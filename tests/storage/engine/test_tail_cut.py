"""Cutting the log when a store is opened: everything behind the cut is saved, gone for good, and in no view."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import CorruptionError, FlareMQError
from flaremq.message.message import Message
from flaremq.storage.files.checkpoint import StoreCheckpoint
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.crash_choices import SubsetChooser
from tests.support.crash_fs import CrashFS, Fault, SimulatedCrash
from tests.support.driven_store import open_driven, show
from tests.support.replica_lab import Log, feed, log_of
from tests.support.store_lab import LOG_FILE, SMALL, TOPIC, StoreLab, all_bodies

TOPICS = (TOPIC, "payments")


def fill(store: MessageStore, clock: ManualClock, count: int, seed: int = 1) -> None:
    chance = random.Random(seed)
    for number in range(count):
        clock.advance(1)
        body = b"<%d>" % number + chance.randbytes(chance.randrange(1200))
        message = Message(chance.choice(TOPICS), body, keys=[f"k{number}", "shared"])
        assert store.put(message, chance.randrange(2)).ok


def content(store: MessageStore) -> dict[tuple[str, int], list[bytes]]:
    return {key: all_bodies(store, *key) for key in store.queues() if store.max_offset(*key)}


def reference(log: Log, cut_at: int, root: Path) -> tuple[dict[tuple[str, int], list[bytes]], StoreLab]:
    """What a store holds that never had more than the log up to the cut."""
    lab = StoreLab(root)
    driver = open_driven(lab, broker_role="SLAVE")
    feed(driver, Log(log.start, log.piece(log.start, cut_at), log.file_size))
    show(driver)
    found = content(driver.store)
    lab.close()
    return found, lab


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99, 1.0])
def test_the_store_is_as_if_it_never_had_more(lab: StoreLab, tmp_path: Path, share: float, kill: bool) -> None:
    fill(lab.open(), lab.clock, 80)
    lab.close()
    log = log_of(open_driven(lab))
    if kill:
        lab.kill()
    else:
        lab.close()
    cut_at = [0, *log.ends()][round(share * len(log.ends()))]
    store = lab._store = MessageStore.open(lab.root, lab.options, clock=lab.clock, threads=False, cut_at=cut_at)
    assert store.max_physical_offset == cut_at
    expected, other = reference(log, cut_at, tmp_path / "other")
    assert content(store) == expected
    assert len(store.query(TOPIC, "shared", 64)) + len(store.query("payments", "shared", 64)) == min(
        sum(map(len, expected.values())), 128
    )
    if cut_at < log.end:
        saved = tmp_path / "store" / "flaremq.saved" / f"{cut_at:020d}-{log.end:020d}"
        assert saved.read_bytes() == log.piece(cut_at, log.end)
        assert store.recovery.saved_tail == str(saved)
    lab.close()
    assert lab.log_bytes().rstrip(b"\0") == other.log_bytes().rstrip(b"\0")
    cut = {path: data for path, data in lab.queue_bytes().items() if data.strip(b"\0")}
    assert cut == {path: data for path, data in other.queue_bytes().items() if data.strip(b"\0")}
    assert len(lab.index_bytes()) == len(other.index_bytes())


def test_messages_go_on_behind_the_cut(lab: StoreLab) -> None:
    fill(lab.open(), lab.clock, 40)
    lab.close()
    log = log_of(open_driven(lab))
    lab.close()
    cut_at = log.ends()[10]
    store = lab._store = MessageStore.open(lab.root, lab.options, clock=lab.clock, threads=False, cut_at=cut_at)
    end = store.max_offset(TOPIC, 0)
    assert lab.put(b"new").queue_offset == end
    store.wait_for_dispatch(0)
    assert all_bodies(store)[-1] == b"new"
    lab.kill_and_open()
    assert all_bodies(lab.store)[-1] == b"new"


def test_an_offset_inside_a_record_is_refused_and_nothing_changes(lab: StoreLab) -> None:
    fill(lab.open(), lab.clock, 40)
    lab.close()
    log = log_of(open_driven(lab))
    lab.close()
    before = lab.log_bytes()
    filler = next(end for end, after in zip(log.ends(), log.ends()[1:], strict=False) if after % LOG_FILE == 0)
    for cut_at in (1, log.ends()[3] + 1, log.ends()[3] - 1, filler + 8, filler + 9, LOG_FILE - 1):
        with pytest.raises(CorruptionError, match="inside a record"):
            MessageStore.open(lab.root, lab.options, threads=False, cut_at=cut_at)
    assert lab.log_bytes() == before
    assert len(content(lab.open())) == 4


def test_a_record_inside_a_body_is_no_place_to_cut(lab: StoreLab) -> None:
    store = lab.open()
    first = lab.put(b"x" * 100)
    at = store._commit_log.record(first.physical_offset)
    assert at is not None
    inner = bytearray(at)
    place = first.size + 88  # where the body of the next record begins
    inner[28:36] = place.to_bytes(8, "big")
    lab.put(bytes(inner))
    assert store._commit_log.header(place) is not None
    lab.close()
    with pytest.raises(CorruptionError, match="inside a record"):
        MessageStore.open(lab.root, lab.options, threads=False, cut_at=place)


def test_an_offset_outside_the_log_is_refused_before_it_and_harmless_behind_it(lab: StoreLab) -> None:
    fill(lab.open(), lab.clock, 80)
    lab.store.delete_expired(force=True)
    first, end = lab.store.min_physical_offset, lab.store.max_physical_offset
    assert first > 0
    lab.close()
    with pytest.raises(CorruptionError, match="no bytes"):
        MessageStore.open(lab.root, lab.options, threads=False, cut_at=first - LOG_FILE)
    store = MessageStore.open(lab.root, lab.options, threads=False, cut_at=end + 5)
    assert store.max_physical_offset == end
    assert store.recovery.closed_cleanly
    store.close()
    store = MessageStore.open(lab.root, lab.options, threads=False, cut_at=first)
    assert (store.min_physical_offset, store.max_physical_offset) == (first, first)
    store.close()


def test_the_confirm_offset_does_not_survive_what_it_confirmed(lab: StoreLab) -> None:
    driver = open_driven(lab, broker_role="SYNC_MASTER")
    fill(driver.store, lab.clock, 20)
    driver.confirm(driver.appended)
    show(driver)
    log = log_of(driver)
    lab.close()
    cut_at = log.ends()[5]
    with MessageStore.open(lab.root, lab.options, threads=False, driven=True, cut_at=cut_at) as store:
        assert store.driver().confirmed == cut_at
    assert StoreCheckpoint.load(LocalFileSystem(), str(lab.root / "checkpoint")).confirm_phy_offset == cut_at


def test_an_index_that_rests_holds_nothing_behind_the_cut(lab: StoreLab) -> None:
    fill(lab.open(), lab.clock, 40)
    lab.reopen(message_index_enable=False)
    lab.close()
    log = log_of(open_driven(lab))
    lab.close()
    cut_at = log.ends()[10]
    lab._store = MessageStore.open(lab.root, lab.options, clock=lab.clock, threads=False, cut_at=cut_at)
    store = lab.reopen(message_index_enable=True)
    assert len(store.query(TOPIC, "shared", 64)) + len(store.query("payments", "shared", 64)) == 11


def test_a_topic_deleted_behind_the_cut_is_what_it_was(lab: StoreLab) -> None:
    fill(lab.open(), lab.clock, 10)
    cut_at = lab.store.max_physical_offset
    fill(lab.store, lab.clock, 10, seed=2)
    lab.store.delete_topics([TOPIC])
    lab.put(b"new life")
    lab.close()
    lab._store = MessageStore.open(lab.root, lab.options, clock=lab.clock, threads=False, cut_at=cut_at)
    assert all_bodies(lab.store) == [], "deleted before it was cut"
    assert lab.put(b"again").queue_offset == 0


OPTIONS = replace(SMALL, max_index_num=24)


def _disk(
    count: int, *, clean: bool, options: StoreOptions
) -> tuple[CrashFS, Log, int, dict[tuple[str, int], list[bytes]]]:
    """A store at rest, its log, where to cut, and what must be left."""
    filesystem, clock = CrashFS(), ManualClock()
    store = MessageStore.open("/s", options, filesystem=filesystem, clock=clock, threads=False)
    fill(store, clock, count)
    store.tick()
    fill(store, clock, 5, seed=9)
    if clean:
        store.close()
    else:
        store.abandon()
    reader = MessageStore.open("/s", options, filesystem=filesystem.kill(), clock=clock, threads=False, driven=True)
    log = log_of(reader.driver())
    reader.abandon()
    cut_at = log.ends()[len(log.ends()) // 3]
    twin = filesystem.kill()
    store = MessageStore.open("/s", options, filesystem=twin, clock=clock, threads=False, cut_at=cut_at)
    expected = content(store)
    store.abandon()
    assert expected
    return filesystem, log, cut_at, expected


# By default one image a call in turn, and of two variants those turns differ; all three in soak.
@pytest.mark.parametrize("images", [1, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_crash_at_any_call_leaves_a_log_that_can_be_cut_again(clean: bool, index: bool, images: int) -> None:
    options = replace(OPTIONS, message_index_enable=index)
    filesystem, log, cut_at, expected = _disk(45, clean=clean, options=options)
    ends = {log.start, *log.ends()}
    chance = random.Random(5)
    call = 0
    while True:
        call += 1
        disk = filesystem.kill()
        disk.faults = [Fault(kind="crash", at=disk.calls + call)]
        clock = ManualClock()
        try:
            MessageStore.open("/s", options, filesystem=disk, clock=clock, threads=False, cut_at=cut_at)
        except SimulatedCrash:
            pass
        else:
            assert call > 40
            return
        kinds: list[Callable[[], CrashFS]] = [
            disk.kill,
            lambda disk=disk: disk.crash(SubsetChooser(0)),  # type: ignore[misc]
            lambda disk=disk: disk.crash(chance.randrange(1 << 30)),  # type: ignore[misc]
        ]
        turn = call + clean + 2 * index
        for kind in (kinds + kinds)[turn % 3 : turn % 3 + images]:
            image = kind()
            again = image.kill()
            store = MessageStore.open("/s", options, filesystem=image, clock=clock, threads=False)
            end = store.max_physical_offset
            assert end in ends and cut_at <= end <= log.end, f"call {call}: the log ends at {end}"
            assert log_of(store._engine.driver()).data == log.piece(0, end)
            found = content(store)
            assert all(found[key][: len(expected[key])] == expected[key] for key in expected), f"call {call}"
            store.close()
            with MessageStore.open("/s", options, filesystem=image, clock=clock, threads=False, cut_at=cut_at) as store:
                assert store.max_physical_offset == cut_at
                assert content(store) == expected
            with MessageStore.open("/s", options, filesystem=again, clock=clock, threads=False, cut_at=cut_at) as store:
                assert store.max_physical_offset == cut_at
                assert content(store) == expected, f"call {call}"


def test_an_error_at_any_call_of_a_cut_costs_no_record_before_it() -> None:
    filesystem, _, cut_at, expected = _disk(30, clean=True, options=OPTIONS)
    call, failures = 0, 0
    while True:
        call += 1
        disk = filesystem.kill()
        fails_at = disk.calls + call
        disk.faults = [Fault(kind="eio", at=fails_at)]
        try:
            MessageStore.open(
                "/s", OPTIONS, filesystem=disk, clock=ManualClock(), threads=False, cut_at=cut_at
            ).abandon()
        except FlareMQError:
            failures += 1
        if disk.calls < fails_at:
            break
        with MessageStore.open("/s", OPTIONS, filesystem=disk.kill(), clock=ManualClock(), threads=False) as store:
            assert store.max_physical_offset >= cut_at
            found = content(store)
            assert all(found[key][: len(expected[key])] == expected[key] for key in expected), f"call {call}"
    assert failures > 40

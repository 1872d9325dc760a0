"""Epochs and identity on disk: after a crash at any call they are the old or the new ones, never less."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from flaremq.broker.controller_mode.epoch_store import EpochStore
from flaremq.broker.controller_mode.identity_files import IdentityFiles
from flaremq.errors import CorruptionError, StoreIOError
from flaremq.replication.epochs import EpochTable
from tests.support.crash_choices import SubsetChooser
from tests.support.crash_fs import CrashFS, Fault, SimulatedCrash

ROOT = "/store"
NAME = f"{ROOT}/epochFileCheckpoint"
CODE = "10.0.0.1:10911;1700000000000"


def disk_with(*epochs: tuple[int, int]) -> CrashFS:
    filesystem = CrashFS()
    filesystem.make_directories(ROOT)
    store = EpochStore(ROOT, filesystem)
    for epoch in epochs:
        store.add(*epoch)
    return filesystem


def images(disk: CrashFS, seed: str) -> list[CrashFS]:
    return [disk.kill(), disk.crash(SubsetChooser(0)), disk.crash(seed), disk.crash(seed + "!")]


def overwrite(disk: CrashFS, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.resize(len(data))
    file.write_at(0, data)
    file.close()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda store: store.add(4, 900), EpochTable([(1, 0), (3, 500), (4, 900)])),
        (lambda store: store.cut(400), EpochTable([(1, 0)])),
    ],
)
def test_after_a_crash_at_any_call_the_epochs_are_those_before_or_after(
    change: Callable[[EpochStore], None], expected: EpochTable
) -> None:
    before = EpochTable([(1, 0), (3, 500)])
    call = 0
    while True:
        call += 1
        disk = disk_with((1, 0), (3, 500))
        disk.faults = [Fault(kind="crash", at=disk.calls + call)]
        try:
            store = EpochStore(ROOT, disk)
            change(store)
        except SimulatedCrash:
            for image in images(disk, str(call)):
                assert EpochStore(ROOT, image).table in (before, expected), f"call {call}"
            continue
        assert call > 8
        for image in images(disk, "done"):
            assert EpochStore(ROOT, image).table == expected, "what was saved is durable"
        return


def test_an_error_while_epochs_are_saved_leaves_them_as_they_were() -> None:
    for call in range(1, 9):
        disk = disk_with((1, 0), (3, 500))
        store = EpochStore(ROOT, disk)
        disk.faults = [Fault(kind="eio", at=disk.calls + call)]
        with pytest.raises(StoreIOError):
            store.add(4, 900)
        assert store.table == EpochTable([(1, 0), (3, 500)])
        store.add(4, 900)
        assert EpochStore(ROOT, disk.crash(SubsetChooser(0))).table == store.table


def test_a_damaged_file_gives_way_to_its_predecessor_and_two_damaged_ones_are_refused() -> None:
    disk = disk_with((1, 0), (3, 500))
    overwrite(disk, NAME, b"2\n1\n1-0\n3-500\n")
    assert EpochStore(ROOT, disk).table == EpochTable([(1, 0)])
    overwrite(disk, NAME + ".bak", bytes(20))
    with pytest.raises(CorruptionError):
        EpochStore(ROOT, disk)


def test_the_files_are_rocketmqs() -> None:
    disk = disk_with((1, 0), (2, 1_144_516))
    files = disk.files()
    assert files[NAME] == b"2\n2107832152\n1-0\n2-1144516\n"
    assert files[NAME + ".bak"] == b"1\n1725254278\n1-0\n"
    identity = IdentityFiles(ROOT, disk, cluster="DefaultCluster", broker_name="broker-a")
    identity.save(2)
    assert disk.files()[f"{ROOT}/brokerIdentity"] == b"DefaultCluster#broker-a#2"


def test_a_crash_while_an_id_is_applied_for_never_leaves_another_id() -> None:
    chance = random.Random(3)
    call = 0
    while True:
        call += 1
        disk = CrashFS()
        disk.make_directories(ROOT)
        files = IdentityFiles(ROOT, disk, cluster="c", broker_name="b")
        files.save_temporary(7, CODE)
        disk.faults = [Fault(kind="crash", at=disk.calls + call)]
        try:
            files.save(7)
        except SimulatedCrash:
            pass
        for image in images(disk, str(chance.random())):
            found = IdentityFiles(ROOT, image, cluster="c", broker_name="b").load()
            assert found.broker_id == 7 or (found.temporary_id, found.temporary_code) == (7, CODE)
        if not disk.dead:
            assert IdentityFiles(ROOT, disk.crash(SubsetChooser(0)), cluster="c", broker_name="b").load().broker_id == 7
            return

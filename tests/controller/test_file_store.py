"""The state of a controller in a folder: what was saved survives crashes and rot."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.controller.groups import Member, ReplicaGroup
from flaremq.controller.stores.file_store import BACKUP, FILE, FileStore
from flaremq.errors import CorruptionError, StoreIOError, UnavailableError
from tests.support.crash_fs import CrashFS, Fault, SimulatedCrash

FOLDER = "/controller"


def group(name: str = "broker-a", *, epoch: int = 0) -> ReplicaGroup:
    member = Member(1, "127.0.0.1:1", "code")
    made = ReplicaGroup(cluster="c", broker_name=name, next_broker_id=2, members={1: member})
    for _ in range(epoch):
        made = made.with_master(1)
    return made


def stored(filesystem: CrashFS) -> dict[str, int]:
    """Epochs by name, as the next process finds them."""
    return {found.broker_name: found.master_epoch for found in FileStore(FOLDER, filesystem).open()}


def saved(*epochs: int) -> CrashFS:
    filesystem = CrashFS()
    store = FileStore(FOLDER, filesystem)
    assert list(store.open()) == []
    for epoch in epochs:
        store.save_now(group(epoch=epoch))
    return filesystem.kill()


def test_empty_folder_has_no_groups_and_what_is_saved_comes_back() -> None:
    assert stored(saved()) == {}
    assert stored(saved(1, 2, 3)) == {"broker-a": 3}


def test_what_was_saved_survives_a_power_cut_right_after() -> None:
    for seed in range(20):
        filesystem = CrashFS()
        store = FileStore(FOLDER, filesystem)
        store.open()
        for epoch in range(1, 4):
            store.save_now(group(epoch=epoch))
        assert stored(filesystem.crash(seed)) == {"broker-a": 3}


def test_crash_at_any_call_of_a_save_leaves_the_old_or_the_new_state() -> None:
    outcomes = set()
    for at in range(1, 40):
        for seed in range(4):
            filesystem = CrashFS()
            store = FileStore(FOLDER, filesystem)
            store.open()
            store.save_now(group(epoch=1))
            filesystem.faults.append(Fault(kind="crash", at=filesystem.calls + at))
            try:
                store.save_now(group(epoch=2))
                answered = True
            except SimulatedCrash:
                answered = False
            filesystem.faults.clear()
            found = stored(filesystem.crash(seed))["broker-a"]
            assert found == 2 if answered else found in (1, 2)
            outcomes.add((answered, found))
    assert outcomes == {(False, 1), (False, 2), (True, 2)}


@pytest.mark.parametrize("name", [FILE, BACKUP])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "flipped"])
def test_one_damaged_file_loses_nothing(name: str, damage: str) -> None:
    filesystem = saved(1, 2)
    path = f"{FOLDER}/{name}"
    content = filesystem.files()[path]
    if damage == "gone":
        filesystem.remove(path)
    else:
        bad = {"empty": b"", "cut": content[:-9], "flipped": content.replace(b'"masterEpoch": 2', b'"masterEpoch": 1')}
        assert bad[damage] != content
        filesystem.overwrite(path, bad[damage])
    assert stored(filesystem) == {"broker-a": 2}
    healed = filesystem.files()
    assert healed[f"{FOLDER}/{FILE}"] == healed[f"{FOLDER}/{BACKUP}"]


def test_two_damaged_files_refuse_to_start() -> None:
    filesystem = saved(1, 2)
    for name in (FILE, BACKUP):
        filesystem.overwrite(f"{FOLDER}/{name}", b"nonsense")
    with pytest.raises(CorruptionError, match="checksum"):
        stored(filesystem)


def test_refused_save_leaves_the_old_state_in_use_and_the_next_one_counts() -> None:
    filesystem = CrashFS()
    store = FileStore(FOLDER, filesystem)
    store.open()
    store.save_now(group(epoch=1))
    filesystem.faults.append(Fault(kind="eio", at=filesystem.calls + 3, forever=True))
    with pytest.raises(StoreIOError):
        store.save_now(group("broker-b", epoch=5))
    filesystem.faults.clear()
    store.save_now(group(epoch=2))
    assert stored(filesystem.kill()) == {"broker-a": 2}


def test_folder_belongs_to_one_controller(tmp_path: Path) -> None:
    first = FileStore(str(tmp_path))
    first.open()
    with pytest.raises(UnavailableError):
        FileStore(str(tmp_path)).open()

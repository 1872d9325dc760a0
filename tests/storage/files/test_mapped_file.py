"""One mapped file and a run of them: cursors, reserved space, lent views, loading, finding, truncating."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.errors import CorruptionError, StoreIOError
from flaremq.storage.files import filesystem
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.files.mapped_file_queue import MappedFileQueue
from tests.support.crash_choices import SubsetChooser
from tests.support.crash_fs import CrashFS, Fault

SIZE = 8192
FILESYSTEM = LocalFileSystem()


def create(folder: Path, start: int = 0, *, reserve: int = SIZE) -> MappedFile:
    return MappedFile.create(FILESYSTEM, str(folder / f"{start:020d}"), SIZE, reserve=reserve)


def load(*folders: Path, read_only_folders: frozenset[str] = frozenset()) -> MappedFileQueue:
    names = [str(folder) for folder in folders]
    queue = MappedFileQueue(FILESYSTEM, names, SIZE, read_only_folders=read_only_folders)
    queue.load()
    return queue


# One file


def test_new_file_has_its_full_length_in_zeros_and_is_empty(tmp_path: Path) -> None:
    file = create(tmp_path, SIZE)
    assert (tmp_path / f"{SIZE:020d}").read_bytes() == bytes(SIZE)
    assert (file.start, file.end, file.wrote, file.flushed) == (SIZE, 2 * SIZE, 0, 0)


def test_loaded_file_counts_as_full_until_recovery_says_otherwise(tmp_path: Path) -> None:
    create(tmp_path).close()
    file = MappedFile(FILESYSTEM, str(tmp_path / f"{0:020d}"), SIZE)
    assert (file.wrote, file.committed, file.flushed) == (SIZE, SIZE, SIZE)
    file.set_positions(100)
    assert (file.wrote, file.committed, file.flushed) == (100, 100, 100)


def appended(file: MappedFile, at: int, text: bytes) -> None:
    file.buffer[at : at + len(text)] = text
    file.wrote = file.committed = at + len(text)


def on_disk_after_a_power_cut(disk: CrashFS) -> bytes:
    (content,) = disk.crash(SubsetChooser(0)).files().values()
    return content


def test_sync_makes_all_that_was_appended_durable_and_leaves_alone_what_was_made_ahead() -> None:
    disk = CrashFS()
    disk.make_directories("/log")
    file = MappedFile.create(disk, f"/log/{0:020d}", SIZE, reserve=SIZE)
    appended(file, 0, b"first")
    assert file.sync() == 5
    appended(file, 5, b"second")
    file.buffer[SIZE - 1 :] = b"x"
    assert file.sync() == 11
    assert on_disk_after_a_power_cut(disk) == b"firstsecond".ljust(SIZE, b"\0")


def test_sync_of_a_file_that_is_in_doubt_takes_all_of_it_once() -> None:
    disk = CrashFS()
    disk.make_directories("/log")
    file = MappedFile.create(disk, f"/log/{0:020d}", SIZE, reserve=SIZE)
    appended(file, 0, b"first")
    file.buffer[SIZE - 1 :] = b"x"  # nobody knows what stood there before the first sync
    file.sync()
    assert on_disk_after_a_power_cut(disk)[SIZE - 1 :] == b"x"
    file.buffer[SIZE - 1 :] = b"y"
    file.is_doubtful = True
    appended(file, 5, b"second")
    file.sync()
    assert on_disk_after_a_power_cut(disk)[SIZE - 1 :] == b"y"
    assert not file.is_doubtful


def test_sync_that_fails_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = create(tmp_path)
    appended(file, 0, b"first")
    file.sync()
    appended(file, 5, b"second")
    monkeypatch.setattr(filesystem, "_msync", lambda: lambda address, length, flags: -1)
    with pytest.raises(StoreIOError, match="sync"):
        file.sync()
    assert file.flushed == 5
    monkeypatch.undo()
    assert file.sync() == 11


def test_space_is_reserved_in_whole_steps_and_never_beyond_the_file(tmp_path: Path) -> None:
    file = create(tmp_path, reserve=1000)
    assert file.reserved == 1000
    file.reserve_to(1500, 1000)
    assert file.reserved == 2000
    file.reserve_to(1200, 1000)
    assert file.reserved == 2000
    file.reserve_to(SIZE, 3000)
    assert file.reserved == SIZE


def test_reservation_that_fails_changes_nothing() -> None:
    disk = CrashFS(capacity=8192)
    disk.make_directories("/log")
    file = MappedFile.create(disk, f"/log/{0:020d}", 4 * 8192, reserve=4096)
    with pytest.raises(StoreIOError):
        file.reserve_to(3 * 8192, 4096)
    assert file.reserved == 4096


def test_failed_sync_does_not_move_the_flushed_position() -> None:
    disk = CrashFS()
    disk.make_directories("/log")
    file = MappedFile.create(disk, f"/log/{0:020d}", SIZE, reserve=SIZE)
    file.wrote = file.committed = 100
    disk.faults = [Fault(kind="eio", at=1, operations=frozenset({"sync"}))]
    with pytest.raises(StoreIOError):
        file.sync()
    assert file.flushed == 0


def test_lent_view_of_a_destroyed_file_stays_readable_and_the_name_goes_at_once(tmp_path: Path) -> None:
    file = create(tmp_path)
    file.buffer[:4] = b"data"
    view = file.view(0, 4)
    assert view is not None
    file.destroy()
    assert not (tmp_path / f"{0:020d}").exists()
    assert bytes(view) == b"data"
    assert file.view(0, 4) is None  # nobody new gets one


@pytest.mark.parametrize(("at", "length"), [(-1, 4), (0, SIZE + 1), (SIZE, 1), (4, -1)])
def test_view_outside_the_file_is_refused(tmp_path: Path, at: int, length: int) -> None:
    assert create(tmp_path).view(at, length) is None


def test_sealed_file_stays_readable_without_its_descriptor(tmp_path: Path) -> None:
    file = create(tmp_path)
    file.buffer[:4] = b"data"
    file.set_positions(SIZE)
    file.seal()
    assert bytes(file.view(0, 4) or b"") == b"data"


# A run of files


def test_files_are_found_by_offset_even_if_the_first_does_not_start_at_zero(tmp_path: Path) -> None:
    for start in (SIZE, 2 * SIZE, 3 * SIZE):
        create(tmp_path, start).close()
    queue = load(tmp_path)
    assert queue.min_offset == SIZE
    found = [queue.find(at) for at in (SIZE, 2 * SIZE - 1, 2 * SIZE, 4 * SIZE - 1)]
    assert [file.start for file in found if file] == [SIZE, SIZE, 2 * SIZE, 3 * SIZE]
    assert [queue.find(at) for at in (-1, 0, SIZE - 1, 4 * SIZE)] == [None] * 4


def test_empty_folder_loads_as_an_empty_run(tmp_path: Path) -> None:
    queue = load(tmp_path / "absent")
    assert (queue.files, queue.min_offset, queue.find(0)) == ((), 0, None)


def test_file_of_another_length_is_refused_with_both_sizes(tmp_path: Path) -> None:
    create(tmp_path).close()
    (tmp_path / f"{0:020d}").write_bytes(bytes(SIZE + 1))
    with pytest.raises(CorruptionError, match="mappedFileSizeCommitLog") as caught:
        load(tmp_path)
    assert (caught.value.expected, caught.value.found) == (SIZE, SIZE + 1)


def test_missing_file_between_two_others_is_refused_by_name(tmp_path: Path) -> None:
    create(tmp_path, 0).close()
    create(tmp_path, 2 * SIZE).close()
    with pytest.raises(CorruptionError, match=f"{SIZE:020d}"):
        load(tmp_path)


def test_same_file_in_two_folders_is_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        create(tmp_path / folder).close()
    with pytest.raises(CorruptionError, match="two folders"):
        load(tmp_path / "a", tmp_path / "b")


def test_truncation_erases_the_tail_and_deletes_later_files(tmp_path: Path) -> None:
    for start in (0, SIZE, 2 * SIZE):
        file = create(tmp_path, start)
        file.buffer[:] = b"\xff" * SIZE
        file.close()
    queue = load(tmp_path)
    queue.truncate(SIZE + 10)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{0:020d}", f"{SIZE:020d}"]
    assert (tmp_path / f"{0:020d}").read_bytes() == b"\xff" * SIZE
    assert (tmp_path / f"{SIZE:020d}").read_bytes() == b"\xff" * 10 + bytes(SIZE - 10)
    assert [file.wrote for file in queue.files] == [SIZE, 10]


def test_truncation_at_a_file_boundary_empties_the_file_behind_it_and_deletes_later_ones(tmp_path: Path) -> None:
    for start in (0, SIZE, 2 * SIZE):
        create(tmp_path, start).close()
    queue = load(tmp_path)
    queue.truncate(SIZE)
    assert [(file.start, file.wrote) for file in queue.files] == [(0, SIZE), (SIZE, 0)]


def test_oldest_file_is_dropped_even_while_somebody_reads_it(tmp_path: Path) -> None:
    for start in (0, SIZE):
        create(tmp_path, start).close()
    queue = load(tmp_path)
    view = queue.files[0].view(0, 8)
    assert view is not None
    queue.drop_first()
    assert (queue.min_offset, [file.start for file in queue.files]) == (SIZE, [SIZE])
    assert bytes(view) == bytes(8)


def test_new_files_go_to_writable_folders_in_turn(tmp_path: Path) -> None:
    a, b, c = (str(tmp_path / name) for name in "abc")
    queue = MappedFileQueue(FILESYSTEM, [c, a, b], SIZE, read_only_folders=frozenset({b}))
    assert [Path(queue.path_for(n * SIZE)).parent.name for n in range(4)] == ["a", "c", "a", "c"]
    queue.full_folders = frozenset({a})
    assert [Path(queue.path_for(n * SIZE)).parent.name for n in range(3)] == ["c", "c", "c"]
    queue.full_folders = frozenset({a, c})  # all full: better a full folder than none
    assert [Path(queue.path_for(n * SIZE)).parent.name for n in range(2)] == ["a", "c"]

"""The simulated disk keeps exactly what was promised, loses the rest, and catches a toy log that cheats."""

from __future__ import annotations

import errno
import struct
import zlib

import pytest

from flaremq.errors import NotFoundError, StoreIOError, UnavailableError
from flaremq.storage.files.filesystem import FileSystem, write_atomically
from tests.support.crash_choices import PAGE, SubsetChooser
from tests.support.crash_fs import CrashFS, Fault, SimulatedCrash

LOST = SubsetChooser  # SubsetChooser(0): every question is answered "old"


def disk(*faults: Fault, capacity: int | None = None) -> CrashFS:
    made = CrashFS(capacity=capacity)
    made.make_directories("/d")
    made.calls, made.faults = 0, list(faults)
    return made


def write(filesystem: CrashFS, path: str, content: bytes, *, sync: bool) -> None:
    handle = filesystem.open(path, create=True)
    handle.write_at(0, content)
    if sync:
        handle.sync()
    handle.close()


def test_the_simulated_disk_offers_the_whole_seam() -> None:
    seam: FileSystem = CrashFS()
    assert seam.list_directory("/") == []


def test_synced_bytes_without_a_synced_name_are_lost() -> None:
    d = disk()
    write(d, "/d/a", b"content", sync=True)
    assert d.files() == {"/d/a": b"content"}
    assert d.crash(LOST(0)).files() == {}


def test_a_synced_name_without_synced_bytes_is_an_empty_file() -> None:
    d = disk()
    write(d, "/d/a", b"content", sync=False)
    d.sync_directory("/d")
    assert d.crash(LOST(0)).files() == {"/d/a": b""}


def test_both_synced_survive_every_crash() -> None:
    d = disk()
    write(d, "/d/a", b"content" * 2000, sync=True)
    d.sync_directory("/d")
    assert d.questions() == 0
    for seed in range(20):
        assert d.crash(seed).files() == {"/d/a": b"content" * 2000}


def test_each_dirty_page_is_chosen_on_its_own() -> None:
    d = disk()
    write(d, "/d/a", b"o" * (3 * PAGE), sync=True)
    d.sync_directory("/d")
    write(d, "/d/a", b"n" * (3 * PAGE), sync=False)
    assert d.questions() == 3
    seen = {d.crash(SubsetChooser(bits)).files()["/d/a"][::PAGE] for bits in range(8)}
    assert len(seen) == 8


def test_a_sync_of_a_mapping_makes_its_pages_durable_and_no_other() -> None:
    d = disk()
    write(d, "/d/a", b"o" * (3 * PAGE), sync=True)
    d.sync_directory("/d")
    mapping = d.open("/d/a").map(3 * PAGE)
    mapping.buffer[:] = b"n" * (3 * PAGE)
    mapping.sync(PAGE + 5, 10)
    assert d.crash(LOST(0)).files()["/d/a"] == b"o" * PAGE + b"n" * PAGE + b"o" * PAGE


def test_a_page_that_a_failed_sync_dropped_stays_lost_for_a_sync_of_a_mapping() -> None:
    d = disk(Fault(kind="eio", at=1, operations=frozenset({"sync"})))
    handle = d.open("/d/a", create=True)
    handle.resize(PAGE)
    handle.reserve(0, PAGE)
    d._inode("open", "/d/a").persist()
    d.sync_directory("/d")
    mapping = handle.map(PAGE)
    mapping.buffer[:1] = b"n"
    with pytest.raises(StoreIOError):
        mapping.sync(0, PAGE)
    mapping.sync(0, PAGE)
    assert d.crash(LOST(0)).files()["/d/a"] == bytes(PAGE)


def test_a_torn_or_garbled_page_keeps_the_bytes_nobody_was_changing() -> None:
    d = disk()
    write(d, "/d/a", b"s" * 1000 + bytes(PAGE - 1000), sync=True)
    d.sync_directory("/d")
    handle = d.open("/d/a")
    handle.write_at(1000, b"n" * 700)
    contents = {d.crash(seed).files()["/d/a"] for seed in range(300)}
    assert len(contents) > 20
    assert all(content[:1000] == b"s" * 1000 and not any(content[1700:]) for content in contents)


def test_stores_through_a_mapping_are_dirty_until_the_sync() -> None:
    d = disk()
    handle = d.open("/d/a", create=True)
    handle.resize(2 * PAGE)
    handle.reserve(0, 2 * PAGE)
    handle.sync()
    d.sync_directory("/d")
    mapping = handle.map(2 * PAGE)
    struct.pack_into(">q", mapping.buffer, PAGE, 7)
    assert d.crash(LOST(0)).files()["/d/a"] == bytes(2 * PAGE)
    handle.sync()
    assert d.crash(LOST(0)).files()["/d/a"][PAGE : PAGE + 8] == struct.pack(">q", 7)


def test_a_store_to_a_page_never_reserved_is_reported() -> None:
    d = disk()
    handle = d.open("/d/a", create=True)
    handle.resize(2 * PAGE)
    handle.reserve(0, PAGE)
    mapping = handle.map(2 * PAGE)
    mapping.buffer[0] = 1
    handle.sync()
    mapping.buffer[PAGE] = 1
    for check in (handle.sync, lambda: d.remove("/d/a"), d.kill):
        with pytest.raises(AssertionError, match="would be SIGBUS"):
            check()
    assert len(d.violations) == 3


def test_a_reservation_that_was_not_synced_may_be_gone_after_a_crash() -> None:
    d = disk()
    handle = d.open("/d/a", create=True)
    handle.resize(4 * PAGE)
    handle.sync()
    d.sync_directory("/d")
    handle.reserve(0, 4 * PAGE)
    assert handle.data_end() == 4 * PAGE
    assert d.crash(LOST(0)).open("/d/a").data_end() == 0


def test_a_file_cut_under_a_live_mapping_is_reported() -> None:
    d = disk()
    handle = d.open("/d/a", create=True)
    handle.resize(PAGE)
    mapping = handle.map(PAGE)
    with pytest.raises(AssertionError, match="under a live mapping"):
        handle.resize(0)
    view = mapping.buffer[10:20]
    del mapping
    with pytest.raises(AssertionError, match="under a live mapping"):
        handle.resize(0)
    del view
    handle.resize(0)


def test_space_of_a_removed_file_is_free_when_the_last_view_of_it_is_gone() -> None:
    d = disk()
    handle = d.open("/d/a", create=True)
    handle.reserve(0, PAGE)
    view = handle.map(PAGE).buffer[:10]
    handle.close()
    d.remove("/d/a")
    assert d.used_bytes() == PAGE
    del view
    assert d.used_bytes() == 0


def test_a_rename_happens_whole_or_not_at_all() -> None:
    d = disk()
    write(d, "/d/a", b"old", sync=True)
    write(d, "/d/a.tmp", b"new", sync=True)
    d.sync_directory("/d")
    d.rename("/d/a.tmp", "/d/a")
    assert d.crash(SubsetChooser(0)).files() == {"/d/a": b"old", "/d/a.tmp": b"new"}
    assert d.crash(SubsetChooser(1)).files() == {"/d/a": b"new"}


def test_name_changes_of_different_folders_persist_independently() -> None:
    d = disk()
    d.make_directories("/d/x")
    write(d, "/d/a", b"1", sync=True)
    write(d, "/d/x/b", b"2", sync=True)
    d.sync_directory("/d/x")
    assert d.crash(LOST(0)).files() == {"/d/x/b": b"2"}
    assert d.pending() == ["create /d/a"]


def test_a_removed_file_may_come_back_until_its_folder_is_synced() -> None:
    d = disk()
    write(d, "/d/a", b"1", sync=True)
    d.sync_directory("/d")
    d.remove("/d/a")
    assert d.crash(LOST(0)).exists("/d/a")
    d.sync_directory("/d")
    assert not d.crash(LOST(0)).exists("/d/a")


def test_a_new_folder_is_durable_when_make_directories_returns_and_not_before() -> None:
    d = disk(Fault(kind="crash", at=2))
    with pytest.raises(SimulatedCrash):
        d.make_directories("/d/x")
    assert not d.crash(LOST(0)).exists("/d/x")
    d = disk()
    d.make_directories("/d/x/y")
    assert d.crash(LOST(0)).is_directory("/d/x/y")


@pytest.mark.parametrize("at", range(1, 8))
def test_replacing_a_file_atomically_leaves_the_old_or_the_new_content(at: int) -> None:
    d = disk()
    write(d, "/d/a", b"old" * 3000, sync=True)
    d.sync_directory("/d")
    d.calls, d.faults = 0, [Fault(kind="crash", at=at)]
    try:
        write_atomically(d, "/d/a", b"new" * 4000)
    except SimulatedCrash:
        pass
    else:
        assert at > 5, "all five calls of the replacement were crashed"
    allowed = {b"old" * 3000, b"new" * 4000} if at <= 5 else {b"new" * 4000}
    for bits in range(1 << d.questions()):
        assert d.crash(SubsetChooser(bits)).files()["/d/a"] in allowed
    for seed in range(50):
        assert d.crash(seed).files()["/d/a"] in allowed


def test_after_a_failed_sync_a_later_one_succeeds_over_lost_pages() -> None:
    d = disk()
    write(d, "/d/a", b"o" * (2 * PAGE), sync=True)
    d.sync_directory("/d")
    handle = d.open("/d/a")
    handle.write_at(0, b"n" * (2 * PAGE))
    d.faults = [Fault(kind="eio", at=1)]
    with pytest.raises(StoreIOError):
        handle.sync()
    handle.write_at(0, b"m")
    handle.sync()
    durable = d.crash(LOST(0)).files()["/d/a"]
    assert durable[:PAGE] == b"m" + b"n" * (PAGE - 1), "the page was dirtied again"
    assert durable[PAGE:] == b"o" * PAGE, "the kernel thought this page was clean"
    assert handle.read_at(PAGE, 1) == b"n"


def test_after_a_failed_directory_sync_the_names_wait_for_the_next_one() -> None:
    d = disk(Fault(kind="eio", at=2, operations=frozenset({"sync directory"})))
    write(d, "/d/a", b"1", sync=True)
    with pytest.raises(StoreIOError):
        d.sync_directory("/d")
    assert not d.crash(LOST(0)).exists("/d/a")
    d.sync_directory("/d")
    assert d.crash(LOST(0)).exists("/d/a")


def test_a_short_write_applies_a_part_and_raises() -> None:
    d = disk()
    handle = d.open("/d/a", create=True)
    d.faults = [Fault(kind="short", at=1)]
    with pytest.raises(StoreIOError):
        handle.write_at(0, b"x" * 100)
    assert handle.size() == 50
    handle.write_at(0, b"x" * 100)


def test_a_fault_for_ever_fails_every_call_that_can_fail_so() -> None:
    d = disk()
    handle = d.open("/d/a", create=True)
    d.faults = [Fault(kind="enospc", at=1, forever=True)]
    for _ in range(3):
        with pytest.raises(StoreIOError) as caught:
            handle.write_at(0, b"x")
        assert caught.value.errno == errno.ENOSPC
    handle.sync()
    assert d.fired == 3


def test_reads_fail_only_when_they_are_counted() -> None:
    d = disk()
    write(d, "/d/a", b"1", sync=True)
    d.faults = [Fault(kind="eio", at=1, forever=True, operations=frozenset({"read"}))]
    assert d.open("/d/a").read_at(0, 1) == b"1"
    d.count_reads = True
    with pytest.raises(StoreIOError):
        d.open("/d/a").read_at(0, 1)


def test_a_full_disk_refuses_reserve_and_write_and_recovers_when_space_is_freed() -> None:
    d = disk(capacity=4 * PAGE)
    a = d.open("/d/a", create=True)
    a.resize(8 * PAGE)
    a.reserve(0, 3 * PAGE)
    assert d.used_ratio("/d") == 0.75
    with pytest.raises(StoreIOError):
        a.reserve(3 * PAGE, 2 * PAGE)
    b = d.open("/d/b", create=True)
    with pytest.raises(StoreIOError):
        b.write_at(0, b"x" * (PAGE + 1))
    assert b.size() == PAGE
    d.remove("/d/b")
    with pytest.raises(StoreIOError):
        a.reserve(3 * PAGE, PAGE)  # the removed file is still open
    b.close()
    a.reserve(3 * PAGE, PAGE)


def test_nothing_works_after_the_crash_and_locks_are_gone_on_the_new_disk() -> None:
    d = disk()
    d.lock("/d/lock")
    with pytest.raises(UnavailableError):
        d.lock("/d/lock")
    d.faults = [Fault(kind="crash", at=1)]
    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            d.open("/d/a", create=True)
    d.crash(1).lock("/d/lock").release()


def test_killing_the_process_keeps_the_page_cache_and_its_debts() -> None:
    d = disk()
    write(d, "/d/a", b"1", sync=False)
    killed = d.kill()
    assert killed.files() == {"/d/a": b"1"}
    assert killed.crash(LOST(0)).files() == {}
    killed.open("/d/a").sync()
    killed.sync_directory("/d")
    assert killed.crash(LOST(0)).files() == {"/d/a": b"1"}
    assert d.crash(LOST(0)).files() == {}, "the old disk is untouched"


def test_writeback_makes_pages_durable_early_so_intermediate_versions_can_survive() -> None:
    seen = set()
    for seed in range(60):
        d = disk()
        write(d, "/d/a", b"0", sync=True)
        d.sync_directory("/d")
        handle = d.open("/d/a")
        d.chance.seed(seed)
        d.writeback = 0.5
        for version in (b"1", b"2", b"3"):
            handle.write_at(0, version)
        seen.add(d.crash(LOST(0)).files()["/d/a"])
    assert seen >= {b"0", b"1", b"2"}


def test_missing_things_are_not_found() -> None:
    d = disk()
    for call in (d.open, d.size, d.remove, d.modified_ms, d.used_ratio, d.remove_directory, d.sync_directory):
        with pytest.raises(NotFoundError):
            call("/d/none")
    assert d.list_directory("/d/none") == []


class ToyLog:
    """Length, checksum, bytes; sync before the ack. The cheat leaves the sync out."""

    SIZE = 4 * PAGE

    def __init__(self, filesystem: CrashFS, *, cheat: bool = False) -> None:
        self._cheat = cheat
        self._file = filesystem.open("/d/log", create=True)
        if self._file.size() == 0:
            self._file.resize(self.SIZE)
            self._file.reserve(0, self.SIZE)
            self._file.sync()
            filesystem.sync_directory("/d")
        self._buffer = self._file.map(self.SIZE).buffer
        self.records: list[bytes] = []
        self._end = 0
        while (record := self._read(self._end)) is not None:
            self.records.append(record)
            self._end += 8 + len(record)

    def _read(self, at: int) -> bytes | None:
        length, checksum = struct.unpack_from(">II", self._buffer, at)
        data = bytes(self._buffer[at + 8 : at + 8 + length])
        return data if length and zlib.crc32(data) == checksum else None

    def append(self, data: bytes) -> None:
        struct.pack_into(">II", self._buffer, self._end, len(data), zlib.crc32(data))
        self._buffer[self._end + 8 : self._end + 8 + len(data)] = data
        if not self._cheat:
            self._file.sync()
        self._end += 8 + len(data)


def _lost_records(seed: int, *, cheat: bool) -> int:
    d = disk()
    log = ToyLog(d, cheat=cheat)
    d.calls, d.faults = 0, [Fault(kind="crash", at=seed % 12 + 1)]
    written = [f"{number}:".encode() * 150 for number in range(12)]
    acked = 0
    try:
        for data in written:
            log.append(data)
            acked += 1
    except SimulatedCrash:
        pass
    recovered = ToyLog(d.crash(seed)).records
    assert recovered == written[: len(recovered)], f"seed {seed}: not a prefix"
    return max(acked - len(recovered), 0)


def test_an_honest_log_loses_nothing_acknowledged() -> None:
    assert sum(_lost_records(seed, cheat=False) for seed in range(200)) == 0


def test_a_log_that_skips_the_sync_is_caught() -> None:
    assert sum(_lost_records(seed, cheat=True) > 0 for seed in range(50)) > 10

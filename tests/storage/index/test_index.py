"""The key index: one file's slots and chains, the run of files, names, limits, and recovery of its state."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import CorruptionError
from flaremq.message.java_hash import index_hash
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.index.index_file import IndexFile, index_file_size
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.verify.finding import Severity
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.store_lab import TOPIC, StoreLab

SLOTS, ENTRIES = 8, 10
BEGIN = 1_700_000_000_000
END_OF_TIME = 2**63 - 1


def open_file(path: Path, *, create: bool = False, slots: int = SLOTS, entries: int = ENTRIES) -> IndexFile:
    return IndexFile(LocalFileSystem(), str(path), slots=slots, entries=entries, reserve_step=4096, create=create)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[IndexFile]:
    created = open_file(tmp_path / "20231114221320000", create=True)
    yield created
    created.close()


class Bench:
    """An index service on a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.service = self.open()

    def open(self) -> IndexService:
        service = IndexService(
            LocalFileSystem(), self.clock, str(self.folder), slots=SLOTS, entries=ENTRIES, reserve_step=4096
        )
        service.load()
        self.service = service
        return service

    def put(self, key: str, offset: int, at_ms: int = BEGIN) -> None:
        self.service.put("T", None, [key], offset, at_ms)

    def find(self, key: str, begin: int = 0, end: int = END_OF_TIME, count: int = 100) -> list[int]:
        return self.service.lookup("T", key, begin, end, count)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "index")


def test_empty_file_counts_from_one(file: IndexFile) -> None:
    assert (file.count, file.header.slot_count, file.is_full) == (1, 0, False)
    assert file.lookup(5, 0, END_OF_TIME, 10) == []


def test_file_on_disk_has_the_layout_of_the_format(file: IndexFile, tmp_path: Path) -> None:
    file.put(11, 100, BEGIN)
    file.put(3, 200, BEGIN + 2_999)
    file.put(19, 300, BEGIN + 7_000)  # 11, 3 and 19 share slot 3
    data = (tmp_path / file.name).read_bytes()
    assert struct.unpack_from(">qqqqii", data) == (BEGIN, BEGIN + 7_000, 100, 300, 1, 4)
    assert struct.unpack_from(f">{SLOTS}i", data, 40) == (0, 0, 0, 3, 0, 0, 0, 0)
    entries = [struct.unpack_from(">iqii", data, 40 + 4 * SLOTS + 20 * n) for n in range(4)]
    assert entries == [(0, 0, 0, 0), (11, 100, 0, 0), (3, 200, 2, 1), (19, 300, 7, 2)]
    assert len(data) == index_file_size(SLOTS, ENTRIES) == 40 + 4 * SLOTS + 20 * ENTRIES


def test_file_takes_one_entry_less_than_it_has_places(file: IndexFile) -> None:
    assert [file.put(n, n, BEGIN) for n in range(ENTRIES)] == [True] * (ENTRIES - 1) + [False]
    assert file.is_full


def test_lookup_gives_newest_first_and_at_most_as_many_as_asked(file: IndexFile) -> None:
    for offset in (100, 200, 300):
        file.put(7, offset, BEGIN)
    assert file.lookup(7, 0, END_OF_TIME, 10) == [300, 200, 100]
    assert file.lookup(7, 0, END_OF_TIME, 2) == [300, 200]
    assert file.lookup(7 + SLOTS, 0, END_OF_TIME, 10) == []


def test_chain_that_points_forward_or_to_itself_ends_the_walk(file: IndexFile) -> None:
    file.put(7, 100, BEGIN)
    file.put(7, 200, BEGIN)
    at = 40 + 4 * SLOTS + 20 * 2 + 16
    for previous in (2, 5, -1, 2**31 - 1):
        struct.pack_into(">i", file.buffer, at, previous)
        assert file.lookup(7, 0, END_OF_TIME, 10) == [200]


def test_slot_that_points_behind_the_last_entry_finds_nothing(file: IndexFile) -> None:
    file.put(7, 100, BEGIN)
    struct.pack_into(">i", file.buffer, 40 + 4 * 7, 9)
    assert file.lookup(7, 0, END_OF_TIME, 10) == []


def test_negative_time_difference_and_store_times_before_the_first_count_as_zero(file: IndexFile) -> None:
    file.put(1, 100, BEGIN)
    file.put(1, 200, BEGIN - 50_000)
    assert file.entry(2)[2] == 0


@pytest.mark.parametrize("kept", [2, 4, 6])
def test_cut_file_is_what_it_was_with_that_many_entries(tmp_path: Path, kept: int) -> None:
    whole, short = (open_file(tmp_path / name, create=True) for name in ("1" * 17, "2" * 17))
    for number in range(1, 6):
        whole.put(number * 5, number * 100, BEGIN + number)
        if number < kept:
            short.put(number * 5, number * 100, BEGIN + number)
    whole.set_ends(*short.header[:4])
    whole.cut(kept)
    assert bytes(whole.buffer) == bytes(short.buffer)
    whole.close()
    short.close()


def test_file_of_another_geometry_is_refused(tmp_path: Path) -> None:
    open_file(tmp_path / ("1" * 17), create=True).close()
    with pytest.raises(CorruptionError, match="maxHashSlotNum"):
        open_file(tmp_path / ("1" * 17), slots=SLOTS + 1)


# The run of files


def test_unique_key_comes_first_and_empty_keys_are_left_out(bench: Bench) -> None:
    bench.service.put("T", "U", ["a", "", "b"], 700, BEGIN)
    file = bench.service.last
    assert file is not None
    hashes = [file.entry(number)[0] for number in range(1, file.count)]
    assert hashes == [index_hash("T", "U"), index_hash("T", "a"), index_hash("T", "b")]


def test_full_file_is_followed_by_one_that_starts_from_its_end_values(bench: Bench) -> None:
    for number in range(ENTRIES - 1):
        bench.put("k", number, BEGIN + number)
    bench.clock.advance(5)
    created = bench.service.writable_file()
    assert len(bench.service.files) == 2
    assert created.header[:4] == (BEGIN + 8, BEGIN + 8, 8, 8)


def test_results_of_several_files_come_newest_first(bench: Bench) -> None:
    for number in range(25):
        bench.put("k", number * 100, BEGIN + number)
    assert len(bench.service.files) == 3
    assert bench.find("k") == [number * 100 for number in range(24, -1, -1)]
    assert bench.find("k", count=12) == [number * 100 for number in range(24, 12, -1)]


def test_two_files_in_one_millisecond_get_names_that_sort(bench: Bench) -> None:
    for number in range(25):
        bench.put("k", number)
    names = [file.name for file in bench.service.files]
    assert names == sorted(set(names)) and len(names) == 3


def test_names_sort_even_when_the_clock_goes_back(bench: Bench) -> None:
    for number in range(25):
        bench.put("k", number)
        bench.clock.jump(-1_000)
    names = [file.name for file in bench.service.files]
    assert names == sorted(set(names))


def test_time_range_is_widened_so_that_rounding_hides_nothing(bench: Bench) -> None:
    bench.put("k", 1, BEGIN)
    bench.put("k", 2, BEGIN + 1_999)
    assert bench.find("k", begin=BEGIN + 1_999) == [2]


def test_first_entry_after_a_pause_is_found_by_its_real_time(bench: Bench) -> None:
    for number in range(ENTRIES - 1):
        bench.put("old", number, BEGIN)
    later = BEGIN + 3_600_000
    bench.put("k", 777, later)  # first of the second file
    assert len(bench.service.files) == 2
    assert 777 in bench.find("k", begin=later - 1_000, end=later + 1_000)


def test_keys_of_every_script_are_found(bench: Bench) -> None:
    keys = ["ключ", "键", "clé", "🔥", "a b"[0], "x" * 300]
    for number, key in enumerate(keys):
        bench.put(key, number)
    assert [bench.find(key) for key in keys] == [[number] for number in range(len(keys))]


def test_files_before_the_log_start_go_but_never_the_last(bench: Bench) -> None:
    for number in range(25):
        bench.put("k", number * 100)
    assert bench.service.drop_before(800) == 0  # the first file ends with the record at 800
    assert bench.service.drop_before(801) == 1
    assert bench.service.drop_before(10**9) == 1
    assert len(bench.service.files) == 1


def test_foreign_names_and_an_unsized_last_file_do_not_stop_loading(bench: Bench) -> None:
    bench.put("k", 1)
    bench.service.close()
    (bench.folder / "notes.txt").write_text("mine")
    (bench.folder / "99991231235959999").write_bytes(b"")
    bench.open()
    assert bench.find("k") == [1]
    assert (bench.folder / "notes.txt").exists() and not (bench.folder / "99991231235959999").exists()


def test_record_whose_indexing_was_cut_short_is_continued_not_repeated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(ENTRIES - 2):
        bench.put("other", number)

    def no_space() -> IndexFile:
        raise OSError("no space")

    original = IndexService.writable_file

    def fail_when_full(self: IndexService) -> IndexFile:
        last = self.last
        return no_space() if last is not None and last.is_full else original(self)

    monkeypatch.setattr(IndexService, "writable_file", fail_when_full)
    with pytest.raises(OSError, match="no space"):
        bench.service.put("T", "U", ["a", "b"], 900, BEGIN)
    monkeypatch.undo()
    bench.service.put("T", "U", ["a", "b"], 900, BEGIN)
    assert [bench.find(key) for key in ("U", "a", "b")] == [[900], [900], [900]]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_start_without_indexing_costs_no_keys(lab: StoreLab, closed: bool, checkpointed: bool) -> None:
    """Killed with the index on, then some runs with it off: the next run with it on finds every key, each once."""
    lab.open()
    lab.put(keys="on")
    if checkpointed:
        lab.store.tick()
    lab.put(keys="on")
    lab.kill()
    for number in range(2):
        lab.open(message_index_enable=False)
        lab.put(keys=f"off{number}")
        lab.store.tick()
        lab.put(keys=f"off{number}")
        lab.close() if closed else lab.kill()
        with StoreReader.open(lab.root, index_geometry=IndexGeometry(16, 64)) as reader:
            found = {finding.kind: finding.severity for finding in StoreVerifier(reader).findings()}
            assert found["key-pending"] is Severity.NOTE and not {Severity.WARNING, Severity.DAMAGE} & {*found.values()}
    store = lab.open(message_index_enable=True)
    for key in ("on", "off0", "off1"):
        assert len(store.query(TOPIC, key, 64)) == 2
    lab.put(keys="on")
    assert len(lab.store.query(TOPIC, "on", 64)) == 3
    lab.reopen()
    assert len(lab.store.query(TOPIC, "on", 64)) == 3

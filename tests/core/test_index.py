"""The index in the core: files against those Java wrote, lookups against a plain model, damage against termination."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core.arrays import Bytes, as_array
from flaremq.core.index import (
    PUT_DONE,
    PUT_FULL,
    PUT_INVALID,
    PUT_RESERVE,
    index_keys,
    index_put,
    index_rebuild_slots,
)
from flaremq.core.lookup import (
    NO_MATCH,
    UNDECIDED,
    index_lookup,
    index_lookup_many,
    match_record,
    match_records,
)
from flaremq.core.record import walk
from flaremq.core.table import CHECK_BODY_CRC, END, FILE_OFFSET, PHYSICAL_OFFSET, RecordTable
from flaremq.core.table import SIZE as RECORD_SIZE
from flaremq.message.java_hash import index_hash
from flaremq.storage.at_rest.indexes import IndexGeometry, StoredIndex
from flaremq.storage.files.directory import OpenFiles
from flaremq.storage.verify.index_soundness import check_index
from tests.message.records import make_record
from tests.support.golden import GoldenStore, golden_names, open_golden

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
SLOTS, ENTRIES = 200, 800
SIZE = 40 + 4 * SLOTS + 20 * ENTRIES
END_OF_TIME = 2**62


def new_file(after: Bytes | None = None, size: int = SIZE) -> Bytes:
    """An empty file; one that follows a full file begins with that file's end values, as RocketMQ makes it."""
    index = np.zeros(size, np.uint8)
    if after is not None:
        _, end_time, _, end_offset, _, _ = header(after)
        index[:32] = as_array(struct.pack(">qqqq", end_time, end_time, end_offset, end_offset))
    return index


def header(index: Bytes) -> tuple[int, ...]:
    return HEADER.unpack_from(index.data)


def entries(index: Bytes, slots: int = SLOTS) -> list[tuple[int, ...]]:
    count = max(header(index)[5], 1)
    return [ENTRY.unpack_from(index.data, 40 + 4 * slots + 20 * number) for number in range(1, count)]


class _InMemory:
    """Stands for the open files of a store."""

    def __init__(self, index: Bytes) -> None:
        self._data = index.tobytes()

    def read(self, _: str, position: int, length: int) -> bytes:
        return self._data[position : position + length]


def is_sound(index: Bytes, slots: int = SLOTS, entry_count: int = ENTRIES) -> bool:
    geometry = IndexGeometry(slots, entry_count)
    return check_index(StoredIndex(cast(OpenFiles, _InMemory(index)), "index", len(index), geometry)).is_sound


def rows(*columns: Any) -> array[int]:
    """Keys as the core takes them: hash, physical offset and time of each."""
    return array("q", [int(field) for key in zip(*columns, strict=True) for field in key])


def split(keys: bytes | bytearray | array[int]) -> tuple[list[int], list[int], list[int]]:
    cells = memoryview(keys).cast("B").cast("q").tolist()
    return cells[::3], cells[1::3], cells[2::3]


def put_all(files: list[Bytes], keys: bytes | bytearray | array[int]) -> None:
    position, code = 0, PUT_FULL
    while True:
        position, code = index_put(files[-1], SLOTS, ENTRIES, ENTRIES, keys, position)
        if code != PUT_FULL:
            break
        files.append(new_file(files[-1]))
    assert (position, code) == (len(split(keys)[0]), PUT_DONE)


def rebuilt_index(store: GoldenStore, end_offset: int, with_tags: bool) -> list[Bytes]:
    """Index files made from the log alone, up to the message at ``end_offset``."""
    files = [new_file()]
    table = RecordTable(1024)
    for base, path in store.log_files().items():
        log = np.fromfile(path, np.uint8)
        count, _, _ = walk(log, 0, log.size, base, CHECK_BODY_CRC, table.cells)
        count = int(np.searchsorted(table[PHYSICAL_OFFSET][:count], end_offset, "right"))
        put_all(files, index_keys(log, table.cells, 0, count, 0, with_tags))
    return files


def java_index(store: GoldenStore) -> list[Bytes]:
    return [np.fromfile(path, np.uint8) for path in sorted((store.root / "index").iterdir())]


@pytest.mark.parametrize("name", [name for name in golden_names() if name != "rmq53-expired"])
def test_an_index_made_from_the_log_is_javas_byte_for_byte(name: str, tmp_path: Path) -> None:
    # rmq53-killed died before dispatching its last record, hence the end; 5.5 alone indexes tags as well.
    store = open_golden(name, tmp_path)
    theirs = java_index(store)
    ours = rebuilt_index(store, end_offset=header(theirs[-1])[3], with_tags=name.startswith("rmq55"))
    assert len(ours) == len(theirs)
    for mine, java in zip(ours, theirs, strict=True):
        assert header(mine) == header(java)
        assert np.array_equal(mine, java)


def test_an_index_that_outlived_its_log_has_the_same_keys_for_what_is_left(tmp_path: Path) -> None:
    store = open_golden("rmq53-expired", tmp_path)
    first = store.messages[0]["physicalOffset"]
    theirs = [entry for index in java_index(store) for entry in entries(index) if entry[1] >= first]
    ours = [entry for index in rebuilt_index(store, 2**62, with_tags=False) for entry in entries(index)]
    assert [entry[:2] for entry in ours] == [entry[:2] for entry in theirs]


@pytest.mark.parametrize("name", golden_names())
def test_javas_index_files_are_found_sound_and_survive_a_rebuild_of_their_slots(name: str, tmp_path: Path) -> None:
    for index in java_index(open_golden(name, tmp_path)):
        assert is_sound(index)
        before = index.copy()
        index[40 : 40 + 4 * SLOTS] = 0xEE
        used = index_rebuild_slots(index, SLOTS, ENTRIES, header(index)[5])
        assert used == header(before)[4]
        assert np.array_equal(index, before)


def test_queries_of_golden_stores_find_at_least_what_java_found(tmp_path: Path) -> None:
    store = open_golden("rmq53-clean", tmp_path)
    files = java_index(store)
    for query in store.manifest["indexQueries"]:
        hashed = index_hash(query["topic"], query["key"])
        found: set[int] = set()
        for index in files:
            found.update(index_lookup(index, SLOTS, ENTRIES, hashed, query["begin"] - 999, query["end"], 10**6))
        assert found >= set(query["physicalOffsets"])


def table_of(records: Sequence[Mapping[str, Any]]) -> tuple[Bytes, RecordTable, int]:
    data = b""
    for record in records:
        data += make_record(physical_offset=len(data), **record)
    log = as_array(data)
    table = RecordTable(max(len(records), 1))
    count, _, stop = walk(log, 0, log.size, 0, 0, table.cells)
    assert (count, stop) == (len(records), END)
    return log, table, count


@pytest.mark.parametrize(
    ("properties", "sys_flag", "keys"),
    [
        (b"UNIQ_KEY\1u\2KEYS\1a b\2", 0, ["u", "a", "b"]),
        (b"KEYS\1b a\2UNIQ_KEY\1u\2", 0x4, ["u", "b", "a"]),
        (b"KEYS\1 a  b \2", 0x8, ["a", "b"]),
        (b"KEYS\1   \2", 0, []),
        (b"TAGS\1t\2", 0, []),
        (b"UNIQ_KEY\1u\2KEYS\1a\2", 0xC, []),
        ("KEYS\1订单 \U0001f600\2".encode(), 0, ["订单", "\U0001f600"]),
        (b"KEYS\1a\2KEYS\1b\2", 0, ["b"]),
        (b"KEYS\1" + b"x " * 4000 + b"\2", 0, ["x"] * 4000),
    ],
)
def test_keys_come_in_rocketmqs_order(properties: bytes, sys_flag: int, keys: list[str]) -> None:
    log, table, count = table_of([{"properties": properties, "sys_flag": sys_flag, "topic": b"Topic"}])
    hashes, offsets, times = split(index_keys(log, table.cells, 0, count, 0, False))
    assert hashes == [index_hash("Topic", key) for key in keys]
    assert offsets == [0] * len(keys)
    assert times == [1700000000123] * len(keys)


def test_tags_are_keys_of_their_own_kind_where_asked_for() -> None:
    log, table, count = table_of([{"properties": b"TAGS\1red\2KEYS\1a\2", "topic": b"T"}, {"properties": b"TAGS\1b\2"}])
    hashes, _, _ = split(index_keys(log, table.cells, 0, count, 0, True))
    assert hashes == [index_hash("T", "a"), index_hash("T", "T#red"), index_hash("TopicTest", "T#b")]


def test_rows_below_the_given_offset_are_passed_over_and_the_one_at_it_is_not() -> None:
    log, table, count = table_of([{"properties": b"KEYS\1k\2"}] * 5)
    second = int(table[PHYSICAL_OFFSET][1])
    assert split(index_keys(log, table.cells, 0, count, second, False))[1][0] == second
    assert split(index_keys(log, table.cells, 0, count, second + 1, False))[1][0] > second
    assert len(split(index_keys(log, table.cells, 3, count, 0, False))[0]) == 2


def test_a_row_with_text_that_is_no_utf8_is_left_to_those_who_read_records_one_by_one() -> None:
    log, table, count = table_of(
        [{"properties": b"KEYS\1a\2"}, {"properties": b"KEYS\1\xff\2"}, {"properties": b"KEYS\1b\2"}]
    )
    keys = index_keys(log, table.cells, 0, count, 0, False)
    assert split(keys)[0] == [index_hash("TopicTest", "a"), index_hash("TopicTest", "b")]


def test_a_hash_that_no_key_has_is_not_put() -> None:
    index = new_file()
    assert index_put(index, SLOTS, ENTRIES, ENTRIES, rows([1, -1, 2], [0, 1, 2], [5, 5, 5]), 0) == (1, PUT_INVALID)
    assert len(entries(index)) == 1


def test_no_entry_is_written_beyond_the_reserved_ones() -> None:
    keys = rows(range(50), range(0, 5000, 100), [1_700_000_000_000] * 50)
    index = new_file()
    assert index_put(index, SLOTS, ENTRIES, 11, keys, 0) == (10, PUT_RESERVE)
    assert not index[40 + 4 * SLOTS + 20 * 11 :].any()
    assert index_put(index, SLOTS, ENTRIES, 40, keys, 10) == (39, PUT_RESERVE)
    whole = new_file()
    index_put(whole, SLOTS, ENTRIES, ENTRIES, keys, 0)
    index_put(index, SLOTS, ENTRIES, ENTRIES, keys, 39)
    assert np.array_equal(index, whole)


def test_keys_of_one_message_go_on_in_the_next_file() -> None:
    offsets = [number // 10 * 100 for number in range(ENTRIES + 5)]
    keys = rows(range(ENTRIES + 5), offsets, [1_700_000_000_000] * (ENTRIES + 5))
    files = [new_file()]
    put_all(files, keys)
    assert [header(index)[5] for index in files] == [ENTRIES, 7]
    assert header(files[1])[2] == offsets[ENTRIES - 1] == header(files[0])[3]


@pytest.mark.parametrize(
    ("times", "seconds"),
    [([5_000, 5_999, 6_000, 4_000], [0, 0, 1, 0]), ([0, 9_000], [0, 0]), ([1, 2**45], [0, 2**31 - 1])],
)
def test_times_are_whole_seconds_since_the_first_entry(times: list[int], seconds: list[int]) -> None:
    index = new_file()
    count = len(times)
    index_put(index, SLOTS, ENTRIES, ENTRIES, rows(range(count), range(count), times), 0)
    assert [entry[2] for entry in entries(index)] == seconds


@pytest.mark.parametrize(
    ("slots", "entry_count"), [(0, 800), (-1, 800), (200, 0), (10**7, 800), (2**60, 2**60), (2**62, 1)]
)
def test_an_impossible_geometry_touches_nothing(slots: int, entry_count: int) -> None:
    index = new_file()
    keys = rows(range(5), range(5), range(5))
    assert index_put(index, slots, entry_count, entry_count, keys, 0) == (0, PUT_FULL)
    assert index_rebuild_slots(index, slots, entry_count, 2) == -1
    assert len(index_lookup_many(index, slots, entry_count, array("q", range(5)), 10)[1]) == 0
    assert index_lookup(index, slots, entry_count, 3, 0, END_OF_TIME, 10) == []
    assert not index.any()


puts = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4_000)), max_size=60)


@given(puts, st.integers(0, 120_000), st.integers(0, 120_000), st.integers(1, 5))
def test_a_lookup_finds_the_newest_entries_in_the_time_range(
    steps: list[tuple[int, int]], begin: int, length: int, max_each: int
) -> None:
    slots, entry_count, start = 5, 100, 1_000_000
    index = np.zeros(40 + 4 * slots + 20 * entry_count, np.uint8)
    times = start + np.cumsum([step for _, step in steps], dtype=np.int64)
    hashes = np.array([key for key, _ in steps], np.int64)
    offsets = np.arange(len(steps), dtype=np.int64) * 10
    assert index_put(index, slots, entry_count, entry_count, rows(hashes, offsets, times), 0)[1] == PUT_DONE
    assert is_sound(index, slots, entry_count)
    asked = np.array([3, 99, 7, -1, 3], np.int64)
    low, high = start + begin, start + begin + length
    starts, found = index_lookup_many(index, slots, entry_count, asked, max_each)
    for number, key in enumerate(asked.tolist()):
        newest = [int(offset) for offset, h in zip(offsets, hashes, strict=True) if h == key][::-1][:max_each]
        assert found[starts[number] : starts[number + 1]].tolist() == newest
        got = index_lookup(index, slots, entry_count, key, low - 999, high, max_each)
        assert got == sorted(got, reverse=True)
        assert len(got) <= max_each
        wanted = [
            int(offset) for offset, h, t in zip(offsets, hashes, times, strict=True) if h == key and low <= t <= high
        ]
        candidates = [int(offset) for offset, h in zip(offsets, hashes, strict=True) if h == key]
        assert set(got) <= set(candidates)
        if len(got) < max_each:
            assert set(wanted) <= set(got)


def filled() -> Bytes:
    index = new_file()
    count = 500
    hashes = np.arange(count) * 7919 % 1000
    keys = rows(hashes, np.arange(count) * 10, [1_700_000_000_000] * count)
    index_put(index, SLOTS, ENTRIES, ENTRIES, keys, 0)
    return index


def entry_at(number: int) -> int:
    return 40 + 4 * SLOTS + 20 * number


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (entry_at(100), struct.pack(">i", -5)),  # hash
        (entry_at(100) + 12, struct.pack(">i", -1)),  # seconds
        (entry_at(100) + 4, struct.pack(">q", 5)),  # offset below the one before
        (entry_at(100) + 4, struct.pack(">q", 10**9)),  # offset above the one behind
        (entry_at(100) + 4, struct.pack(">q", -1)),
        (entry_at(100) + 16, struct.pack(">i", 100)),  # link to itself
        (entry_at(100) + 16, struct.pack(">i", 3)),  # link to another slot's entry
        (40 + 4 * 17, struct.pack(">i", 3)),  # slot
        (32, struct.pack(">i", 3)),  # slots in use
        (16, struct.pack(">q", 7)),  # first offset
        (24, struct.pack(">q", 7)),  # last offset
        (36, struct.pack(">i", 801)),  # more entries than fit
        (36, struct.pack(">i", 400)),  # fewer entries than slots lead to
    ],
)
def test_a_file_with_a_wrong_field_is_not_sound(at: int, value: bytes) -> None:
    index = filled()
    assert is_sound(index)
    index[at : at + len(value)] = as_array(value)
    assert not is_sound(index)


def test_rebuilding_repairs_links_and_slots_and_drops_entries_past_the_count() -> None:
    index, whole = filled(), filled()
    for number in range(1, 500, 3):
        index[entry_at(number) + 16 : entry_at(number) + 20] = 0x11
    assert index_rebuild_slots(index, SLOTS, ENTRIES, 501) == header(whole)[4]
    assert np.array_equal(index, whole)
    index_rebuild_slots(index, SLOTS, ENTRIES, 400)
    assert header(index)[5] == 400
    index[24:32] = as_array(struct.pack(">q", 3980))  # the header's bounds are the caller's
    assert is_sound(index)
    _, offsets = index_lookup_many(index, SLOTS, ENTRIES, np.arange(1000), 1000)
    assert max(offsets) == 3980
    assert index_rebuild_slots(index, SLOTS, ENTRIES, ENTRIES + 1) == -1
    assert index_rebuild_slots(index, SLOTS, ENTRIES, 0) == -1


@given(st.lists(st.tuples(st.integers(0, SIZE - 4), st.integers(-5, 900)), max_size=40))
def test_lookups_in_a_damaged_file_end(edits: list[tuple[int, int]]) -> None:
    index = filled()
    for at, value in edits:
        index[at : at + 4] = as_array(struct.pack(">i", value))
    hashes = np.arange(1000, dtype=np.int64)
    starts, offsets = index_lookup_many(index, SLOTS, ENTRIES, hashes, 100)
    assert starts[-1] == len(offsets) <= 1000 * 100
    for number in range(1000):
        alone = index_lookup(index, SLOTS, ENTRIES, number, -(2**62), END_OF_TIME, 100)
        assert offsets[starts[number] : starts[number + 1]].tolist() == alone
    is_sound(index)
    index_put(index, SLOTS, ENTRIES, ENTRIES, rows(range(20), range(20), range(20)), 0)


def test_the_first_entry_after_a_pause_is_found_at_its_real_time() -> None:
    full = new_file()
    index_put(full, SLOTS, ENTRIES, ENTRIES, rows(range(2), range(2), [1_000_000] * 2), 0)
    index = new_file(full)
    an_hour_later = 1_000_000 + 3_600_000
    index_put(index, SLOTS, ENTRIES, ENTRIES, rows([7], [5], [an_hour_later]), 0)
    assert entries(index)[0][2] == 3600, "as RocketMQ writes it"
    around = (an_hour_later - 1000, an_hour_later + 1000)
    assert index_lookup(index, SLOTS, ENTRIES, 7, *around, 10) == [5]


def test_a_chain_that_runs_in_a_circle_ends() -> None:
    index = new_file()
    index_put(index, SLOTS, ENTRIES, ENTRIES, rows([7] * 5, range(5), [1000] * 5), 0)
    index[entry_at(1) + 16 : entry_at(1) + 20] = as_array(struct.pack(">i", 5))
    assert len(index_lookup_many(index, SLOTS, ENTRIES, np.array([7]), 1000)[1]) == 5
    assert len(index_lookup(index, SLOTS, ENTRIES, 7, 0, END_OF_TIME, 1000)) == 5


MATCH = 1


def matched(records: Sequence[Mapping[str, Any]], topic: str, key: str, begin: int = 0, end: int = 2**62) -> list[int]:
    """What is said of each record, asked one by one; a match is as large as its record."""
    log, table, count = table_of(records)
    verdicts = []
    for at, size in zip(table.column(FILE_OFFSET, count), table.column(RECORD_SIZE, count), strict=True):
        verdict = match_record(log, at, 0, log.size, topic.encode(), key.encode(), begin, end)
        assert verdict in (NO_MATCH, UNDECIDED, size)
        verdicts.append(min(verdict, MATCH))
    return verdicts


def test_only_the_same_topic_and_key_text_match() -> None:
    records = [
        {"topic": b"T", "properties": b"KEYS\1a key b\2"},
        {"topic": b"T", "properties": b"UNIQ_KEY\1key\2"},
        {"topic": b"T", "properties": b"KEYS\1key\2"},
        {"topic": b"TT", "properties": b"KEYS\1key\2"},
        {"topic": b"T", "properties": b"KEYS\1keys ke y\2"},
        {"topic": b"T", "properties": b"TAGS\1key\2"},
        {"topic": b"T", "properties": b"KEYS\1\xff\2"},
        {"topic": b"T", "properties": b""},
    ]
    expected = [MATCH] * 3 + [NO_MATCH] * 3 + [UNDECIDED, NO_MATCH]
    assert matched(records, "T", "key") == expected
    assert matched(records, "T", "") == [NO_MATCH] * 6 + [UNDECIDED, NO_MATCH]
    log, table, count = table_of(records)
    verdicts = array("q", [9] * (count + 1))
    places = array("q", [*table.column(PHYSICAL_OFFSET, count), log.size + 5])
    bounds = array("q", [0, 0, count + 1])  # nothing for the first key, everything for the second
    judged = match_records(log, 0, log.size, b"T", b"otherkey", array("q", [0, 5, 8]), bounds, places, verdicts)
    assert judged == count and verdicts[-1] == 9, "what lies in another file is left alone"
    assert [min(verdict, MATCH) for verdict in verdicts[:-1]] == expected


def test_a_match_lies_within_the_time_range_both_ends_included() -> None:
    records = [{"properties": b"KEYS\1k\2", "store_timestamp": time} for time in (999, 1000, 1500, 2000, 2001)]
    expected = [NO_MATCH, MATCH, MATCH, MATCH, NO_MATCH]
    assert matched(records, "TopicTest", "k", 1000, 2000) == expected


@pytest.mark.parametrize("at", [-1, 3, 10**9])
def test_candidates_that_are_no_record_are_not_judged(at: int) -> None:
    log, _, _ = table_of([{"properties": b"KEYS\1k\2"}])
    assert match_record(log, at, 0, log.size, b"TopicTest", b"k", 0, 2**62) == UNDECIDED
    assert match_record(log, 0, 0, log.size - 1, b"TopicTest", b"k", 0, 2**62) == UNDECIDED

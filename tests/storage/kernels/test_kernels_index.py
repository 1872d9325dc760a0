"""Index kernels: files against those Java wrote, lookups against a plain model, damage against termination."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.message.java_hash import index_hash
from flaremq.storage.at_rest.indexes import IndexGeometry, StoredIndex
from flaremq.storage.files.directory import OpenFiles
from flaremq.storage.kernels.compile import Bytes, Integers
from flaremq.storage.kernels.index import (
    PUT_DONE,
    PUT_FULL,
    PUT_PLAIN,
    PUT_RESERVE,
    index_keys,
    index_put,
    index_rebuild_slots,
)
from flaremq.storage.kernels.lookup import (
    MATCH,
    NO_MATCH,
    UNDECIDED,
    index_lookup_many,
    match_keys,
)
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.kernels.record import parse_at, walk
from flaremq.storage.kernels.table import CHECK_BODY_CRC, END, FILE_OFFSET, PHYSICAL_OFFSET, RecordTable
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


def put_all(files: list[Bytes], keys: tuple[Integers, Integers, Integers]) -> None:
    position, code = 0, PUT_FULL
    while True:
        position, code = index_put(files[-1], SLOTS, ENTRIES, ENTRIES, *keys, position)
        if code != PUT_FULL:
            break
        files.append(new_file(files[-1]))
    assert (position, code) == (len(keys[0]), PUT_DONE)


def rebuilt_index(store: GoldenStore, end_offset: int, with_tags: bool) -> list[Bytes]:
    """Index files made from the log alone, up to the message at ``end_offset``."""
    files = [new_file()]
    table = RecordTable(1024)
    for base, path in store.log_files().items():
        log = np.fromfile(path, np.uint8)
        rows, _, _ = walk(log, 0, log.size, base, CHECK_BODY_CRC, table.columns)
        rows = int(np.searchsorted(table[PHYSICAL_OFFSET][:rows], end_offset, "right"))
        put_all(files, index_keys(log, table.columns, 0, rows, 0, with_tags))
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
        hashes = np.array([index_hash(query["topic"], query["key"])], np.int64)
        found: set[int] = set()
        for index in files:
            _, offsets = index_lookup_many(index, SLOTS, ENTRIES, hashes, query["begin"], query["end"], 10**6)
            found.update(offsets.tolist())
        assert found >= set(query["physicalOffsets"])


def table_of(records: Sequence[Mapping[str, Any]]) -> tuple[Bytes, RecordTable, int]:
    data = b""
    for record in records:
        data += make_record(physical_offset=len(data), **record)
    log = as_array(data)
    table = RecordTable(max(len(records), 1))
    rows, _, stop = walk(log, 0, log.size, 0, 0, table.columns)
    assert (rows, stop) == (len(records), END)
    return log, table, rows


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
    log, table, rows = table_of([{"properties": properties, "sys_flag": sys_flag, "topic": b"Topic"}])
    hashes, offsets, times = index_keys(log, table.columns, 0, rows, 0, False)
    assert hashes.tolist() == [index_hash("Topic", key) for key in keys]
    assert offsets.tolist() == [0] * len(keys)
    assert times.tolist() == [1700000000123] * len(keys)


def test_tags_are_keys_of_their_own_kind_where_asked_for() -> None:
    log, table, rows = table_of([{"properties": b"TAGS\1red\2KEYS\1a\2", "topic": b"T"}, {"properties": b"TAGS\1b\2"}])
    hashes, _, _ = index_keys(log, table.columns, 0, rows, 0, True)
    assert hashes.tolist() == [index_hash("T", "a"), index_hash("T", "T#red"), index_hash("TopicTest", "T#b")]


def test_rows_below_the_given_offset_are_passed_over_and_the_one_at_it_is_not() -> None:
    log, table, rows = table_of([{"properties": b"KEYS\1k\2"}] * 5)
    second = int(table[PHYSICAL_OFFSET][1])
    assert index_keys(log, table.columns, 0, rows, second, False)[1][0] == second
    assert index_keys(log, table.columns, 0, rows, second + 1, False)[1][0] > second
    assert len(index_keys(log, table.columns, 3, rows, 0, False)[0]) == 2


def test_a_row_with_text_that_is_no_utf8_stops_the_put_for_the_plain_path() -> None:
    log, table, rows = table_of(
        [{"properties": b"KEYS\1a\2"}, {"properties": b"KEYS\1\xff\2"}, {"properties": b"KEYS\1b\2"}]
    )
    keys = index_keys(log, table.columns, 0, rows, 0, False)
    assert keys[0][1] == -2, "-1 - row"
    index = new_file()
    assert index_put(index, SLOTS, ENTRIES, ENTRIES, *keys, 0) == (1, PUT_PLAIN)
    assert index_put(index, SLOTS, ENTRIES, ENTRIES, *keys, 2) == (3, PUT_DONE)
    assert len(entries(index)) == 2


def test_no_entry_is_written_beyond_the_reserved_ones() -> None:
    keys = (np.arange(50), np.arange(50) * 100, np.full(50, 1_700_000_000_000))
    index = new_file()
    assert index_put(index, SLOTS, ENTRIES, 11, *keys, 0) == (10, PUT_RESERVE)
    assert not index[40 + 4 * SLOTS + 20 * 11 :].any()
    assert index_put(index, SLOTS, ENTRIES, 40, *keys, 10) == (39, PUT_RESERVE)
    whole = new_file()
    index_put(whole, SLOTS, ENTRIES, ENTRIES, *keys, 0)
    index_put(index, SLOTS, ENTRIES, ENTRIES, *keys, 39)
    assert np.array_equal(index, whole)


def test_keys_of_one_message_go_on_in_the_next_file() -> None:
    keys = (np.arange(ENTRIES + 5), np.arange(ENTRIES + 5) // 10 * 100, np.full(ENTRIES + 5, 1_700_000_000_000))
    files = [new_file()]
    put_all(files, keys)
    assert [header(index)[5] for index in files] == [ENTRIES, 7]
    assert header(files[1])[2] == keys[1][ENTRIES - 1] == header(files[0])[3]


@pytest.mark.parametrize(
    ("times", "seconds"),
    [([5_000, 5_999, 6_000, 4_000], [0, 0, 1, 0]), ([0, 9_000], [0, 0]), ([1, 2**45], [0, 2**31 - 1])],
)
def test_times_are_whole_seconds_since_the_first_entry(times: list[int], seconds: list[int]) -> None:
    index = new_file()
    count = len(times)
    index_put(index, SLOTS, ENTRIES, ENTRIES, np.arange(count), np.arange(count), np.array(times), 0)
    assert [entry[2] for entry in entries(index)] == seconds


@pytest.mark.parametrize(
    ("slots", "entry_count"), [(0, 800), (-1, 800), (200, 0), (10**7, 800), (2**60, 2**60), (2**62, 1)]
)
def test_an_impossible_geometry_touches_nothing(slots: int, entry_count: int) -> None:
    index = new_file()
    keys = (np.arange(5), np.arange(5), np.arange(5))
    assert index_put(index, slots, entry_count, entry_count, *keys, 0) == (0, PUT_FULL)
    assert index_rebuild_slots(index, slots, entry_count, 2) == -1
    assert len(index_lookup_many(index, slots, entry_count, keys[0], 0, END_OF_TIME, 10)[0]) == 0
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
    assert index_put(index, slots, entry_count, entry_count, hashes, offsets, times, 0)[1] == PUT_DONE
    assert is_sound(index, slots, entry_count)
    asked = np.array([3, 99, 7, -1, 3], np.int64)
    low, high = start + begin, start + begin + length
    numbers, found = index_lookup_many(index, slots, entry_count, asked, low, high, max_each)
    for number, key in enumerate(asked.tolist()):
        got = found[numbers == number].tolist()
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
    index_put(index, SLOTS, ENTRIES, ENTRIES, hashes, np.arange(count) * 10, np.full(count, 1_700_000_000_000), 0)
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
    _, offsets = index_lookup_many(index, SLOTS, ENTRIES, np.arange(1000), 0, END_OF_TIME, 1000)
    assert offsets.max() == 3980
    assert index_rebuild_slots(index, SLOTS, ENTRIES, ENTRIES + 1) == -1
    assert index_rebuild_slots(index, SLOTS, ENTRIES, 0) == -1


@given(st.lists(st.tuples(st.integers(0, SIZE - 4), st.integers(-5, 900)), max_size=40))
def test_lookups_in_a_damaged_file_end(edits: list[tuple[int, int]]) -> None:
    index = filled()
    for at, value in edits:
        index[at : at + 4] = as_array(struct.pack(">i", value))
    hashes = np.arange(1000, dtype=np.int64)
    numbers, offsets = index_lookup_many(index, SLOTS, ENTRIES, hashes, 0, END_OF_TIME, 100)
    assert len(numbers) == len(offsets) <= 1000 * 100
    is_sound(index)
    more = (np.arange(20), np.arange(20), np.arange(20))
    index_put(index, SLOTS, ENTRIES, ENTRIES, *more, 0)


def test_the_first_entry_after_a_pause_is_found_at_its_real_time() -> None:
    full = new_file()
    index_put(full, SLOTS, ENTRIES, ENTRIES, np.arange(2), np.arange(2), np.full(2, 1_000_000), 0)
    index = new_file(full)
    an_hour_later = 1_000_000 + 3_600_000
    index_put(index, SLOTS, ENTRIES, ENTRIES, np.array([7]), np.array([5]), np.array([an_hour_later]), 0)
    assert entries(index)[0][2] == 3600, "as RocketMQ writes it"
    around = (an_hour_later - 1000, an_hour_later + 1000)
    _, offsets = index_lookup_many(index, SLOTS, ENTRIES, np.array([7]), *around, 10)
    assert offsets.tolist() == [5]


def test_a_chain_that_runs_in_a_circle_ends() -> None:
    index = new_file()
    index_put(index, SLOTS, ENTRIES, ENTRIES, np.full(5, 7), np.arange(5), np.full(5, 1000), 0)
    index[entry_at(1) + 16 : entry_at(1) + 20] = as_array(struct.pack(">i", 5))
    numbers, _ = index_lookup_many(index, SLOTS, ENTRIES, np.array([7]), 0, END_OF_TIME, 1000)
    assert len(numbers) == 5


def matched(records: Sequence[Mapping[str, Any]], topic: str, key: str, begin: int = 0, end: int = 2**62) -> list[int]:
    log, table, _ = table_of(records)
    assert parse_at(log, table[FILE_OFFSET][: len(records)].copy(), 0, 0, table.columns) == len(records)
    verdicts = np.full(len(records), 9, np.uint8)
    keys = b"other" + key.encode()
    offsets = np.array([0, 5, len(keys)], np.int64)
    numbers = np.ones(len(records), np.int64)
    count = match_keys(
        log, table.columns, numbers, as_array(topic.encode()), as_array(keys), offsets, begin, end, verdicts
    )
    assert count == verdicts.tolist().count(MATCH)
    return verdicts.tolist()


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
    assert matched(records, "T", "key") == [MATCH] * 3 + [NO_MATCH] * 3 + [UNDECIDED, NO_MATCH]


def test_a_match_lies_within_the_time_range_both_ends_included() -> None:
    records = [{"properties": b"KEYS\1k\2", "store_timestamp": time} for time in (999, 1000, 1500, 2000, 2001)]
    expected = [NO_MATCH, MATCH, MATCH, MATCH, NO_MATCH]
    assert matched(records, "TopicTest", "k", 1000, 2000) == expected


def test_candidates_that_are_no_record_do_not_match() -> None:
    log, table, _ = table_of([{"properties": b"KEYS\1k\2"}])
    parse_at(log, np.array([3], np.int64), 0, 0, table.columns)
    verdicts = np.full(1, 9, np.uint8)
    topic, keys = as_array(b"TopicTest"), as_array(b"k")
    offsets = np.array([0, 1], np.int64)
    assert match_keys(log, table.columns, np.zeros(1, np.int64), topic, keys, offsets, 0, 2**62, verdicts) == 0
    assert verdicts[0] == NO_MATCH

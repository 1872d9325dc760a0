"""Queue kernels: grouping against a dictionary, units against the files Java wrote."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core.arrays import Bytes, as_array
from flaremq.core.queue import fill_units, find_marked, group_queues, parse_units, queue_runs
from flaremq.core.record import walk
from flaremq.core.table import (
    BLANK,
    EMPTY,
    END,
    MARK_BAD_TEXT,
    MARK_INNER_BATCH,
    PHYSICAL_OFFSET,
    QUEUE_HASH,
    QUEUE_ID,
    QUEUE_OFFSET,
    SIZE,
    TOPIC_AT,
    TOPIC_LENGTH,
    RecordTable,
)
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.java_hash import tags_code
from tests.message.records import make_record
from tests.support.golden import GoldenStore, golden_names, open_golden

UNIT = struct.Struct(">qiq")
FILLER = UNIT.pack(0, 2147483647, 0)
DELAY_MS = np.array([0, *parse_delay_levels(DEFAULT_DELAY_LEVELS).delays_ms], np.int64)


def parsed(log: Bytes, base: int = 0) -> tuple[RecordTable, int]:
    table = RecordTable(2048)
    rows, _, stop = walk(log, 0, log.size, base, 0, table.cells)
    assert stop in (END, BLANK, EMPTY)
    return table, rows


def log_of(records: Sequence[Mapping[str, Any]]) -> Bytes:
    log = b""
    for record in records:
        log += make_record(physical_offset=len(log), **record)
    return as_array(log)


def rebuilt_queues(store: GoldenStore) -> dict[tuple[str, int], dict[int, bytes]]:
    queues: dict[tuple[str, int], dict[int, bytes]] = {}
    for base, path in store.log_files().items():
        log = np.fromfile(path, np.uint8)
        table, rows = parsed(log, base)
        order, starts = group_queues(log, table.cells, rows)
        for group in range(len(starts) - 1):
            members = np.array(order[starts[group] : starts[group + 1]], np.int64)
            units = np.empty(UNIT.size * len(members), np.uint8)
            assert fill_units(table.cells, members, DELAY_MS, units) == len(members)
            first = members[0]
            topic = log[table[TOPIC_AT][first] :][: table[TOPIC_LENGTH][first]].tobytes().decode()
            queue = queues.setdefault((topic, int(table[QUEUE_ID][first])), {})
            for queue_offset, unit in zip(table[QUEUE_OFFSET][members], units.reshape(-1, 20), strict=True):
                queue[int(queue_offset)] = unit.tobytes()
    return queues


@pytest.mark.parametrize("name", [name for name in golden_names() if name != "rmq53-batchcq"])
def test_units_made_from_the_log_are_the_bytes_of_javas_queue_files(name: str, tmp_path: Path) -> None:
    store = open_golden(name, tmp_path)
    queues = rebuilt_queues(store)
    first_record = store.messages[0]["physicalOffset"]
    missing = []
    for folder in sorted((store.root / "consumequeue").glob("*/[0-9]*")):
        ours = queues.pop((folder.parent.name, int(folder.name)), {})
        for path in sorted(folder.iterdir()):
            data = path.read_bytes()
            for at in range(0, len(data), UNIT.size):
                theirs = data[at : at + UNIT.size]
                unit = ours.pop((int(path.name) + at) // UNIT.size, None)
                if unit is not None and theirs == bytes(UNIT.size):
                    missing.append(UNIT.unpack(unit)[0])
                elif unit is not None:
                    assert unit == theirs
                elif theirs not in (FILLER, bytes(UNIT.size)):
                    assert UNIT.unpack(theirs)[0] < first_record, "a unit of a record that is still in the log"
        assert ours == {}
    assert queues == {}
    # The one difference: this broker was killed between writing its last record and dispatching it.
    assert missing == ([store.messages[-1]["physicalOffset"]] if name == "rmq53-killed" else [])


def test_units_of_an_ext_queue_differ_from_the_plain_ones_only_in_the_tags_code(tmp_path: Path) -> None:
    store = open_golden("rmq53-batchcq", tmp_path)
    for (topic, queue_id), units in rebuilt_queues(store).items():
        path = store.root / "consumequeue" / topic / str(queue_id) / "0".zfill(20)
        if path.exists():
            data = path.read_bytes()
            for queue_offset, unit in units.items():
                assert data[queue_offset * 20 :][:12] == unit[:12]


topics = st.sampled_from([b"A", b"B", b"AB", b"Topic%d", b"Topic-long-long-long-1", b"Topic-long-long-long-2"])


@given(st.lists(st.tuples(topics, st.integers(0, 2), st.sampled_from([0, 0x4, 0x8, 0xC, 0x1])), max_size=40))
def test_grouping_is_that_of_a_dictionary_in_log_order(rows: list[tuple[bytes, int, int]]) -> None:
    log = log_of([{"topic": topic, "queue_id": queue, "sys_flag": flag} for topic, queue, flag in rows])
    table, count = parsed(log)
    expected: dict[tuple[bytes, int], list[int]] = {}
    for number, (topic, queue, flag) in enumerate(rows):
        if flag not in (0x4, 0xC):
            expected.setdefault((topic, queue), []).append(number)
    order, starts = group_queues(log, table.cells, count)
    groups = [order[start:end].tolist() for start, end in pairwise(starts)]
    assert groups == list(expected.values())


def test_equal_hashes_of_different_queues_do_not_mix() -> None:
    log = log_of([{"topic": topic, "queue_id": queue} for topic in (b"A", b"B") for queue in (0, 1)] * 3)
    table, count = parsed(log)
    table[QUEUE_HASH][:] = 42
    order, starts = group_queues(log, table.cells, count)
    assert starts.tolist() == [0, 3, 6, 9, 12]
    assert order.tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]


def test_rows_of_another_log_are_left_out_instead_of_read_outside_this_one() -> None:
    table, count = parsed(log_of([{"body": b"x" * 500}] * 4))
    order, starts = group_queues(as_array(b"short"), table.cells, count)
    assert (len(order), starts.tolist()) == (0, [0])


@pytest.mark.parametrize(
    ("topic", "properties", "code"),
    [
        (b"T", b"TAGS\1TagA\2", tags_code("TagA")),
        (b"T", b"TAGS\1a\2TAGS\1b\2TAGS\1\2", tags_code("b")),
        (b"T", "TAGS\1订单\2".encode(), 1129459),
        (b"T", b"KEYS\1x\2", 0),
        (b"T", b"TAGS\1TagA\2DELAY\0013\2", tags_code("TagA")),
        (b"SCHEDULE_TOPIC_XXXX", b"TAGS\1TagA\2", tags_code("TagA")),
        (b"SCHEDULE_TOPIC_XXXX", b"TAGS\1TagA\2DELAY\0010\2", tags_code("TagA")),
        (b"SCHEDULE_TOPIC_XXXX", b"DELAY\0011\2", 1700000000123 + 1_000),
        (b"SCHEDULE_TOPIC_XXXX", b"DELAY\0013\2TAGS\1TagA\2", 1700000000123 + 10_000),
        (b"SCHEDULE_TOPIC_XXXX", b"DELAY\00199\2", 1700000000123 + 7_200_000),
    ],
)
def test_the_third_field_is_the_tag_hash_or_the_due_time(topic: bytes, properties: bytes, code: int) -> None:
    log = log_of([{"topic": topic, "properties": properties}])
    table, _ = parsed(log)
    out = np.zeros(UNIT.size, np.uint8)
    assert fill_units(table.cells, np.zeros(1, np.int64), DELAY_MS, out) == 1
    assert UNIT.unpack(out.tobytes()) == (0, log.size, code)


def test_a_level_without_a_delay_counts_as_a_second() -> None:
    table, _ = parsed(log_of([{"topic": b"SCHEDULE_TOPIC_XXXX", "properties": b"DELAY\0012\2"}]))
    out = np.zeros(UNIT.size, np.uint8)
    fill_units(table.cells, np.zeros(1, np.int64), np.array([0, 5, -1], np.int64), out)
    assert UNIT.unpack(out.tobytes())[2] == 1700000000123 + 1_000


def test_units_stop_at_the_room_given_and_at_rows_that_do_not_exist() -> None:
    table, count = parsed(log_of([{}] * 5))
    out = np.zeros(UNIT.size * 3 + 7, np.uint8)
    assert fill_units(table.cells, np.arange(count), DELAY_MS, out) == 3
    assert not out[60:].any()
    assert fill_units(table.cells, np.array([0, 10**9], np.int64), DELAY_MS, out) == 1
    assert fill_units(table.cells, np.array([-1], np.int64), DELAY_MS, out) == 0


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
    ),
    st.binary(max_size=19),
)
def test_parsed_units_are_what_was_packed(units: list[tuple[int, int, int]], rest: bytes) -> None:
    data = b"".join(UNIT.pack(*unit) for unit in units) + rest
    columns = np.empty((3, len(units)), np.int64)
    assert parse_units(data, columns) == len(units)
    assert [tuple(unit) for unit in columns.T.tolist()] == units


def test_runs_are_the_units_of_each_queue_where_its_offsets_follow_each_other() -> None:
    places = [(b"A", 0, 5), (b"B", 1, 0), (b"A", 0, 6), (b"A", 0, 9), (b"B", 1, 1)]
    log = log_of([{"topic": topic, "queue_id": queue, "queue_offset": at} for topic, queue, at in places])
    table, count = parsed(log)
    units, runs = queue_runs(log, table.cells, 0, count, DELAY_MS)
    assert [run[:5] for run in runs] == [("A", 0, 5, 0, 40), ("A", 0, 9, 40, 60), ("B", 1, 0, 60, 100)]
    rows = [int(row) for row in (0, 2, 3, 1, 4)]
    offsets, sizes = table.column(PHYSICAL_OFFSET, count), table.column(SIZE, count)
    assert [unit[:2] for unit in UNIT.iter_unpack(units)] == [(offsets[row], sizes[row]) for row in rows]
    assert [run[5] for run in runs] == [offsets[row] + sizes[row] for row in (2, 3, 4)]
    for row in range(count):
        alone, one = queue_runs(log, table.cells, row, row + 1, DELAY_MS)
        assert UNIT.unpack(alone)[:2] == (offsets[row], sizes[row])
        assert one == [(places[row][0].decode(), places[row][1], places[row][2], 0, 20, offsets[row] + sizes[row])]


@pytest.mark.parametrize("flag", [0x4, 0xC])
def test_records_without_a_place_in_a_queue_make_no_run(flag: int) -> None:
    log = log_of([{"sys_flag": flag}, {}, {"sys_flag": flag}])
    table, count = parsed(log)
    assert queue_runs(log, table.cells, 0, 1, DELAY_MS) == (bytearray(), [])
    assert [run[3:5] for run in queue_runs(log, table.cells, 0, count, DELAY_MS)[1]] == [(0, 20)]


def test_marked_rows_are_found_in_order() -> None:
    log = log_of([{}, {"properties": b"KEYS\1\xff\2"}, {}, {"sys_flag": 0x80}])
    table, count = parsed(log)
    assert find_marked(table.cells, 0, count, MARK_BAD_TEXT | MARK_INNER_BATCH) == 1
    assert find_marked(table.cells, 2, count, MARK_BAD_TEXT | MARK_INNER_BATCH) == 3
    assert find_marked(table.cells, 2, count, MARK_BAD_TEXT) == count

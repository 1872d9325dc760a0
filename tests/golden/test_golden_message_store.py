"""Every golden store opened for real: log, queues, reads, times, queries and checkpoint as Java answers.

Where our answer differs on purpose, the difference is computed here from the manifest's own messages:

* 4.9 chose "offset by time" by file modification times; ours follows the 5.x rules for every store.
* Java's key queries return hash collisions and duplicates and round times to seconds; ours compare text and time.
* A queue that Java lists with maximum 0 is only an object it made when asked; it has no folder.
* In batch queues Java's maxPhysicOffset is the start of the last record, and its UPPER answers are arbitrary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from flaremq.message.message_ext import MessageExt
from flaremq.storage.files.checkpoint import StoreCheckpoint
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.consume_queue import UNIT
from flaremq.storage.queue.consume_queue_ext import is_ext_address
from tests.support.golden import GoldenStore, golden_names, open_golden

LONG_BODY = 96


class Opened:
    """A golden store, its checkpoint as it was found, and our store opened on it."""

    def __init__(self, golden: GoldenStore) -> None:
        self.golden = golden
        self.manifest = golden.manifest
        self.checkpoint = StoreCheckpoint.load(LocalFileSystem(), str(golden.root / "checkpoint"))
        self.store = MessageStore.open(golden.root, StoreOptions.from_properties(golden.options), threads=False)

    @property
    def is_49(self) -> bool:
        return self.golden.name.startswith("rmq49")

    def queues(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Topic, queue id and manifest entry of every queue that has a folder."""
        for name, queue in self.manifest["queues"].items():
            topic, queue_id = name.rsplit("@", 1)
            if queue["max"] > 0:
                yield topic, int(queue_id), queue

    def times(self, topic: str, queue_id: int) -> list[tuple[int, int]]:
        """(queue offset, store time) of the messages of a queue that have a unit, by offset."""
        return sorted(
            (message["queueOffset"], message["storeTimestamp"])
            for message in self.golden.messages
            if (message["topic"], message["queueId"]) == (topic, queue_id) and not message["sysFlag"] & 0x4
        )


@pytest.fixture(scope="module", params=golden_names())
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    opened = Opened(open_golden(request.param, tmp_path_factory.mktemp("store")))
    yield opened
    opened.store.close()


def split(name: str) -> tuple[str, int]:
    topic, queue_id = name.rsplit("@", 1)
    return topic, int(queue_id)


def test_log_range_is_that_of_java(opened: Opened) -> None:
    log = opened.manifest["commitLog"]
    assert opened.store.min_physical_offset == log["minPhyOffset"]
    assert opened.store.max_physical_offset == log["maxPhyOffset"]


def test_nothing_is_taken_for_damage(opened: Opened) -> None:
    report = opened.store.recovery
    assert report.closed_cleanly is not opened.manifest["abortFilePresent"]
    assert (report.damaged, report.saved_tail) == ([], None)


def test_every_record_is_read_as_java_reads_it(opened: Opened) -> None:
    for expected in opened.golden.messages:
        message = opened.store.read(expected["physicalOffset"])
        assert message is not None, expected["physicalOffset"]
        assert message.to_dict(body_bytes_max=LONG_BODY) == expected


def test_queues_have_the_ranges_of_java(opened: Opened) -> None:
    store = opened.store
    listed = {(topic, queue_id) for topic, queue_id, _ in opened.queues()}
    assert set(store.queues()) == listed
    for topic, queue_id, expected in opened.queues():
        found = (store.min_offset(topic, queue_id), store.max_offset(topic, queue_id))
        assert found == (expected["min"], expected["max"]), (topic, queue_id)


def test_empty_queues_of_java_have_no_folder(opened: Opened) -> None:
    for name, queue in opened.manifest["queues"].items():
        if queue["max"] == 0:
            topic, queue_id = split(name)
            assert not list((opened.golden.root / "consumequeue" / topic).glob(f"{queue_id}/*"))


def test_plain_units_are_those_of_java(opened: Opened) -> None:
    store = opened.store
    for topic, queue_id, expected in opened.queues():
        if expected["type"] != "SimpleCQ":
            continue
        queue = store._queues.simple[(topic, queue_id)]
        for number, physical, size, code in expected["units"]:
            found = list(UNIT.unpack(queue.read_units(number, 1)))
            if is_ext_address(found[2]):
                unit = store._queues.ext[(topic, queue_id)].read(found[2])
                assert unit is not None
                found[2] = unit.tags_code
            assert found == [physical, size, code], (topic, queue_id, number)
        assert queue.max_physical_offset == expected["maxPhysicOffset"], (topic, queue_id)


def test_batch_units_are_those_of_java(opened: Opened) -> None:
    for topic, queue_id, expected in opened.queues():
        if expected["type"] == "SimpleCQ":
            continue
        queue = opened.store._queues.batch[(topic, queue_id)]
        found = [queue.unit(number) for number in range(queue.first_unit, queue.unit_end)]
        assert [
            [unit.base_offset, unit.physical_offset, unit.record_size, unit.tags_code] for unit in found if unit
        ] == [unit[:4] for unit in expected["units"]]
        counts = [unit[4] if len(unit) > 4 else 1 for unit in expected["units"]]
        assert [unit.messages for unit in found if unit] == counts
        last = found[-1]
        assert last is not None and last.physical_offset == expected["maxPhysicOffset"]
        assert queue.max_physical_offset == last.physical_offset + last.record_size


def test_reads_by_offset_are_answered_as_by_java(opened: Opened) -> None:
    for name, reads in opened.manifest["getMessage"].items():
        topic, queue_id = split(name)
        exists = opened.manifest["queues"][name]["max"] > 0
        for read in reads:
            found = opened.store.get(topic, queue_id, read["offset"], 32)
            if not exists:  # no folder, so no queue: the one status Java cannot give after it made the object
                assert found.status.name == "NO_MATCHED_LOGIC_QUEUE"
                assert (read["status"], read["nextBeginOffset"]) == ("NO_MESSAGE_IN_QUEUE", found.next_offset)
                continue
            assert {
                "offset": read["offset"],
                "status": found.status.name,
                "nextBeginOffset": found.next_offset,
                "minOffset": found.min_offset,
                "maxOffset": found.max_offset,
                "messageCount": found.message_count,
                "bytes": found.bytes,
            } == read, name


def expected_lower(times: list[tuple[int, int]], low: int, high: int, timestamp: int) -> int:
    return next((offset for offset, at in times if low <= offset < high and at >= timestamp), high)


def expected_upper(times: list[tuple[int, int]], low: int, high: int, timestamp: int) -> int:
    return max((offset for offset, at in times if low <= offset < high and at <= timestamp), default=low)


def test_plain_offsets_by_time_follow_the_rules_of_5x(opened: Opened) -> None:
    for name, answers in opened.manifest["offsetsByTime"].items():
        topic, queue_id = split(name)
        queue = opened.manifest["queues"][name]
        if queue["type"] != "SimpleCQ":
            continue
        times = opened.times(topic, queue_id)
        for answer in answers:
            timestamp = answer["ts"]
            lower = opened.store.offset_by_time(topic, queue_id, timestamp)
            upper = opened.store.offset_by_time(topic, queue_id, timestamp, "UPPER")
            if queue["max"]:
                assert lower == expected_lower(times, queue["min"], queue["max"], timestamp), (name, timestamp)
                assert upper == expected_upper(times, queue["min"], queue["max"], timestamp), (name, timestamp)
            if not opened.is_49:
                assert (lower, upper) == (answer["lower"], answer["upper"]), (name, timestamp)


def test_batch_offsets_by_time(opened: Opened) -> None:
    for name, answers in opened.manifest["offsetsByTime"].items():
        topic, queue_id = split(name)
        if opened.manifest["queues"][name]["type"] == "SimpleCQ":
            continue
        times = opened.times(topic, queue_id)
        for answer in answers:
            assert opened.store.offset_by_time(topic, queue_id, answer["ts"]) == answer["lower"]
            upper = opened.store.offset_by_time(topic, queue_id, answer["ts"], "UPPER")
            assert upper == max((offset for offset, at in times if at <= answer["ts"]), default=0)


def keys_of(message: dict[str, Any]) -> set[str]:
    """Keys a message is indexed under; rolled-back ones under none."""
    if message["sysFlag"] & 0xC == 0xC:
        return set()
    properties = message["properties"]
    return {key for key in (*properties.get("KEYS", "").split(" "), properties.get("UNIQ_KEY", "")) if key}


def check_queries(opened: Opened) -> None:
    by_key: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for message in opened.golden.messages:
        for key in keys_of(message):
            by_key[(message["topic"], key)].append(message)
    for query in opened.manifest["indexQueries"]:
        matching = [
            message["physicalOffset"]
            for message in by_key[(query["topic"], query["key"])]
            if query["begin"] <= message["storeTimestamp"] <= query["end"]
        ]
        found = opened.store.query(query["topic"], query["key"], query["maxNum"], query["begin"], query["end"])
        offsets = [message.physical_offset for message in found]
        assert offsets == sorted(matching)[-min(query["maxNum"], 64) :], query
        real = set(query["physicalOffsets"]) & set(matching)  # without Java's collisions
        assert real <= set(offsets), query


def test_key_queries_find_exactly_the_messages_with_that_key(opened: Opened) -> None:
    check_queries(opened)


def test_many_keys_at_once_find_the_same(opened: Opened) -> None:
    wanted: dict[str, list[str]] = defaultdict(list)
    for query in opened.manifest["indexQueries"]:
        wanted[query["topic"]].append(query["key"])
    for topic, keys in wanted.items():
        alone = [[m.physical_offset for m in opened.store.query(topic, key, 64)] for key in keys]
        many = opened.store.query_many(topic, keys, 64)
        assert [[m.physical_offset for m in found] for found in many] == alone, topic


def test_checkpoint_is_read_as_java_reads_it(opened: Opened) -> None:
    found = opened.checkpoint
    raw = [
        found.physic_msg_timestamp,
        found.logics_msg_timestamp,
        found.index_msg_timestamp,
        found.master_flushed_offset,
        found.confirm_phy_offset,
        found.logics_physical_offset,
    ]
    assert raw == opened.manifest["checkpointRawFirst6"]
    if not opened.manifest["abortFilePresent"]:
        assert found.recovery_time_ms == opened.manifest["checkpoint"]["minTimestamp"]


def test_scan_gives_every_message_of_every_plain_queue(opened: Opened) -> None:
    columns = ["queueOffset", "physicalOffset", "body", "properties", "bornHost", "storeHost", "msgId"]
    for topic, queue_id, expected in opened.queues():
        if expected["type"] != "SimpleCQ":
            continue
        batches = list(opened.store.scan(topic, queue_id, columns=columns))
        rows = [row for batch in batches for row in batch.to_pylist()]
        read: list[MessageExt] = []
        offset = expected["min"]
        while offset < expected["max"]:
            result = opened.store.get(topic, queue_id, offset)
            read += result.messages
            offset = result.next_offset
        assert [(row["queueOffset"], row["physicalOffset"], row["body"], dict(row["properties"])) for row in rows] == [
            (m.queue_offset, m.physical_offset, m.body, m.properties) for m in read
        ]
        assert [(row["bornHost"], row["storeHost"], row["msgId"]) for row in rows] == [
            (m.born_host, m.store_host, m.message_id) for m in read
        ]


def test_scan_gives_every_message_within_the_records_of_every_batch_queue(opened: Opened) -> None:
    for topic, queue_id, expected in opened.queues():
        if expected["type"] == "SimpleCQ":
            continue
        batches = list(opened.store.scan(topic, queue_id, columns=["queueOffset"]))
        found = [offset for batch in batches for offset in batch.column(0).to_pylist()]
        assert found == list(range(expected["min"], expected["max"])), (topic, queue_id)
        part = list(opened.store.scan(topic, queue_id, expected["min"] + 1, expected["max"] - 1, ["queueOffset"]))
        assert [offset for batch in part for offset in batch.column(0).to_pylist()] == found[1:-1]


def test_tag_filter_works_through_ext_addresses(tmp_path_factory: pytest.TempPathFactory) -> None:
    opened = Opened(open_golden("rmq53-batchcq", tmp_path_factory.mktemp("ext")))
    through_ext = 0
    for topic, queue_id, expected in opened.queues():
        if expected["type"] != "SimpleCQ" or (topic, queue_id) not in opened.store._queues.ext:
            continue
        messages = opened.store.get(topic, queue_id, 0).messages
        for tag in {message.tags for message in messages} - {None}:
            found = opened.store.get(topic, queue_id, 0, tags=tag).messages
            assert [m.queue_offset for m in found] == [m.queue_offset for m in messages if m.tags == tag]
            through_ext += len(found)
    assert through_ext > 0
    opened.store.close()

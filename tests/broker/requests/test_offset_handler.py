"""Questions about offsets over the wire, against a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flaremq import Message, MessageStore, StoreOptions
from flaremq.broker.requests.offsets import OffsetHandler
from flaremq.clock import ManualClock
from flaremq.java_json import parse_java_json
from flaremq.message.stored_form import StoredForm
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.storage.put.put_result import PutResult
from tests.support.metadata_lab import MetadataLab


class InlineStoreLoop:
    """A store without threads."""

    waits_for_sync = True

    def __init__(self, store: MessageStore) -> None:
        self.store = store

    async def put(self, form: StoredForm) -> PutResult:
        return self.store.put_form(form)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    run_cold = run
    run_long = run


class OffsetLab(MetadataLab):
    """A broker with topic ``T`` of four queues and group ``G``."""

    def __init__(self, folder: Path, store: MessageStore, clock: ManualClock) -> None:
        super().__init__(folder)
        self.store = store
        self.store_clock = clock
        self.is_cold = False
        OffsetHandler(
            self.topics, self.groups, self.offsets, InlineStoreLoop(store), lambda *_: self.is_cold, self._catch_up
        ).register(self.table)
        self.topics.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
        self.groups.find("G")

    def put(self, queue_id: int, count: int) -> None:
        for _ in range(count):
            self.store_clock.advance(1_000)
            assert self.store.put(Message("T", b"x"), queue_id=queue_id).ok

    def offset(self, code: RequestCode, **ext: Any) -> int:
        reply = self.ask(code, {"topic": "T", "queueId": 0, "consumerGroup": "G", **ext})
        assert reply.code == 0, reply
        return reply.int_field("offset")

    def _catch_up(self) -> None:
        assert self.store.wait_for_dispatch(timeout=10)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[OffsetLab]:
    clock = ManualClock()
    options = StoreOptions(mapped_file_size_commit_log=1 << 20, max_hash_slot_num=100, max_index_num=400)
    with MessageStore.open(tmp_path / "store", options, clock=clock) as store:
        yield OffsetLab(tmp_path, store, clock)


QUERY = {"consumerGroup": "G", "topic": "T", "queueId": 0}


def test_committed_offset_is_answered(lab: OffsetLab) -> None:
    lab.put(0, 3)
    lab.offsets.commit("G", "T", 0, 2)
    assert lab.offset(RequestCode.QUERY_CONSUMER_OFFSET) == 2
    lab.offsets.commit("G", "T", 0, 0)
    assert lab.offset(RequestCode.QUERY_CONSUMER_OFFSET) == 0


def test_new_group_starts_a_young_queue_at_its_beginning(lab: OffsetLab) -> None:
    lab.put(0, 3)
    assert lab.offset(RequestCode.QUERY_CONSUMER_OFFSET) == 0
    assert lab.offset(RequestCode.QUERY_CONSUMER_OFFSET, setZeroIfNotFound="true") == 0
    assert lab.offset(RequestCode.QUERY_CONSUMER_OFFSET, setZeroIfNotFound="") == 0


def test_code_22_when_the_client_wants_no_zero(lab: OffsetLab) -> None:
    lab.put(0, 3)
    reply = lab.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**QUERY, "setZeroIfNotFound": False})
    assert reply.code == ResponseCode.QUERY_NOT_FOUND


def test_code_22_for_a_queue_without_messages(lab: OffsetLab) -> None:
    assert lab.ask(RequestCode.QUERY_CONSUMER_OFFSET, QUERY).code == ResponseCode.QUERY_NOT_FOUND
    assert lab.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**QUERY, "topic": "absent"}).code == 22


def test_code_22_for_a_queue_whose_beginning_has_left_the_memory(lab: OffsetLab) -> None:
    lab.put(0, 3)
    lab.is_cold = True
    assert lab.ask(RequestCode.QUERY_CONSUMER_OFFSET, QUERY).code == ResponseCode.QUERY_NOT_FOUND


def test_commit_is_taken_and_kept(lab: OffsetLab) -> None:
    reply = lab.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**QUERY, "commitOffset": 7, "bname": "broker-a"})
    assert reply.code == 0
    assert lab.offsets.find("G", "T", 0) == 7


def test_commit_of_minus_one_from_ali_ons_changes_nothing(lab: OffsetLab) -> None:
    lab.offsets.commit("G", "T", 0, 7)
    assert lab.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**QUERY, "commitOffset": -1}).code == 0
    assert lab.offsets.find("G", "T", 0) == 7


def test_commit_during_a_reset_is_answered_and_ignored(lab: OffsetLab) -> None:
    lab.offsets.reset("G", "T", 0, 1)
    reply = lab.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**QUERY, "commitOffset": 9})
    assert reply.code == 0 and reply.remark == "Offset has been previously reset"
    assert lab.offset(RequestCode.QUERY_CONSUMER_OFFSET) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "absent"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "absent"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"queueId": 4}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": -1}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": "x"}, ResponseCode.SYSTEM_ERROR),
        ({"commitOffset": 2**63}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_commit_for_what_does_not_exist_is_refused(lab: OffsetLab, change: dict[str, Any], code: int) -> None:
    reply = lab.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**QUERY, "commitOffset": 1, **change})
    assert reply.code == code
    assert lab.offsets.table() == {}


def test_ends_of_a_queue_are_answered(lab: OffsetLab) -> None:
    lab.put(1, 3)
    assert lab.offset(RequestCode.GET_MAX_OFFSET, queueId=1) == 3
    assert lab.offset(RequestCode.GET_MIN_OFFSET, queueId=1) == 0


@pytest.mark.parametrize("code", [RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET])
@pytest.mark.parametrize("ext", [{"topic": "absent"}, {"queueId": 99}, {"queueId": -1}, {"topic": "../x"}])
def test_unknown_queue_ends_at_0(lab: OffsetLab, code: RequestCode, ext: dict[str, Any]) -> None:
    assert lab.offset(code, **ext) == 0


def test_offset_is_found_by_time(lab: OffsetLab) -> None:
    start = lab.store_clock.now_ms()
    lab.put(0, 5)  # stored at start + 1 s … start + 5 s
    search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert lab.offset(search, timestamp=0) == 0
    assert lab.offset(search, timestamp=start + 3_000) == 2
    assert lab.offset(search, timestamp=start + 2_500) == 2
    assert lab.offset(search, timestamp=start + 2_500, boundaryType="upper") == 1
    assert lab.offset(search, timestamp=start + 60_000) == 5
    assert lab.offset(search, timestamp=start, topic="absent") == 0


def test_earliest_store_time_or_minus_one(lab: OffsetLab) -> None:
    start = lab.store_clock.now_ms()
    lab.put(0, 2)
    ext = {"topic": "T", "queueId": 0}
    reply = lab.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, ext)
    assert reply.int_field("timestamp") == start + 1_000
    reply = lab.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, {**ext, "queueId": 3})
    assert reply.code == 0 and reply.int_field("timestamp") == -1


def test_all_offsets_are_handed_to_a_slave(lab: OffsetLab) -> None:
    lab.offsets.commit("G", "T", 0, 5)
    reply = lab.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert parse_java_json(reply.body_bytes)["offsetTable"] == {"T@G": {"0": 5}}


def test_offsets_beyond_the_stored_data_are_cut_at_start(lab: OffsetLab) -> None:
    lab.put(0, 3)
    lab.offsets.commit("G", "T", 0, 8)
    assert lab.store.wait_for_dispatch(timeout=10)
    assert len(lab.offsets.clamp(lab.store.max_offset)) == 1
    assert lab.offset(RequestCode.QUERY_CONSUMER_OFFSET) == 3
    assert asyncio.run(lab.offsets.persist_if_changed())

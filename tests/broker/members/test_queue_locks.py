"""Locks of queues for orderly consumers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.protocol.bodies.queue import LockBatchResponseBody, MessageQueue
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from tests.support.metadata_lab import MetadataLab


class LockLab(MetadataLab):
    """A broker with one topic of four queues, and clients that lock them."""

    def __init__(self, folder: Path, options: BrokerOptions | None = None) -> None:
        super().__init__(folder, options)
        self.topics.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2))

    def lock(self, client: str, *queue_ids: int, group: str = "G", topic: str = "T") -> list[int]:
        reply = self.ask(RequestCode.LOCK_BATCH_MQ, body=self._body(client, queue_ids, group, topic))
        assert reply.code == 0
        granted = LockBatchResponseBody.from_json(reply.body_bytes).lock_ok_mq_set
        assert all((queue.topic, queue.broker_name) == (topic, "broker-a") for queue in granted)
        return [queue.queue_id for queue in granted]

    def unlock(self, client: str, *queue_ids: int, group: str = "G") -> None:
        assert self.ask(RequestCode.UNLOCK_BATCH_MQ, body=self._body(client, queue_ids, group, "T")).code == 0

    def _body(self, client: str, queue_ids: tuple[int, ...], group: str, topic: str) -> bytes:
        queues = [{"topic": topic, "brokerName": "broker-a", "queueId": queue_id} for queue_id in queue_ids]
        return json.dumps({"consumerGroup": group, "clientId": client, "mqSet": queues}).encode()


@pytest.fixture
def lab(tmp_path: Path) -> LockLab:
    return LockLab(tmp_path)


def test_free_queues_are_granted_and_others_refused(lab: LockLab) -> None:
    assert lab.lock("c1", 0, 1) == [0, 1]
    assert lab.lock("c2", 1, 2) == [2]
    assert lab.lock("c1", 0, 1, 2) == [0, 1]


def test_groups_do_not_see_each_others_locks(lab: LockLab) -> None:
    assert lab.lock("c1", 0, group="G") == [0]
    assert lab.lock("c2", 0, group="H") == [0]


def test_lock_lasts_60_seconds_after_its_owner_last_asked(lab: LockLab) -> None:
    lab.lock("c1", 0)
    lab.clock.advance(60_000)
    assert lab.lock("c2", 0) == []
    lab.lock("c1", 0)
    lab.clock.advance(60_000)
    assert lab.lock("c2", 0) == []
    lab.clock.advance(1)
    assert lab.locks.owner("G", MessageQueue("T", "broker-a", 0)) is None
    assert lab.lock("c2", 0) == [0]
    assert lab.locks.owner("G", MessageQueue("T", "broker-a", 0)) == "c2"
    assert lab.lock("c1", 0) == []


def test_only_the_owner_unlocks(lab: LockLab) -> None:
    lab.lock("c1", 0, 1)
    lab.unlock("c2", 0, 1)
    assert lab.lock("c2", 0, 1) == []
    lab.unlock("c1", 0)
    assert lab.lock("c2", 0, 1) == [0]
    lab.unlock("c1", 3)
    lab.unlock("c1", 0, group="absent")


def test_what_does_not_exist_is_not_granted(lab: LockLab) -> None:
    assert lab.lock("c1", -1, 0, 3, 4, 2**31 - 1) == [0, 3]
    assert lab.lock("c1", 0, topic="absent") == []
    assert len(lab.locks) == 2


def test_expired_locks_are_forgotten(lab: LockLab) -> None:
    lab.lock("c1", 0, 1)
    lab.clock.advance(30_000)
    lab.lock("c1", 1)
    lab.clock.advance(30_001)
    assert lab.locks.expire() == 1
    assert len(lab.locks) == 1


def test_number_of_locks_is_limited_until_old_ones_expire(tmp_path: Path) -> None:
    lab = LockLab(tmp_path, BrokerOptions(queue_locks_max=2))
    assert lab.lock("c1", 0, 1, 2) == [0, 1]
    assert lab.lock("c1", 0, 1) == [0, 1]
    assert lab.lock("c2", 3, group="H") == []
    lab.clock.advance(60_001)
    assert lab.lock("c2", 2, 3, group="H") == [2, 3]
    assert len(lab.locks) == 2


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
@pytest.mark.parametrize("body", [b"", b"[]", b'{"mqSet":{}}', b'{"mqSet":[{"queueId":"x"}]}'])
def test_garbage_is_an_error(lab: LockLab, code: RequestCode, body: bytes) -> None:
    assert lab.ask(code, body=body).code == ResponseCode.SYSTEM_ERROR


def test_illegal_group_locks_nothing(lab: LockLab) -> None:
    reply = lab.ask(RequestCode.LOCK_BATCH_MQ, body=b'{"consumerGroup":"a b","clientId":"c","mqSet":[]}')
    assert reply.code == ResponseCode.INVALID_PARAMETER

"""Topics, groups, consumer offsets and delay progress of a master arrive at its slave, and the slave keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.interop.replication.combinations import combinations, require_group
from tests.interop.replication.group import Group
from tests.interop.replication.talk import OK
from tests.interop.wire import probe

pytestmark = pytest.mark.interop

# A slave of 5.x asks for the first time a minute after its start.
_ROUND_S = 90.0
_TOPICS, _DELAY_PROGRESS, _GROUPS = 21, 45, 201


@pytest.fixture(scope="module", params=combinations(core=("flaremq>flaremq",)))
def group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    require_group(request.param)
    with Group(request.param, tmp_path_factory.mktemp("metadata") / "group") as pair:
        pair.start()
        _make_metadata(pair)
        yield pair


def _make_metadata(group: Group) -> None:
    master = group.master.talk
    probe.create_topic(group.master.address, "seven-queues", queues=7)
    assert master.make_group("patient-readers", retry_max=42).code == OK
    for number in range(5):
        assert master.send("seven-queues", f"{number}".encode(), queue_id=6).code == OK
        assert master.send("seven-queues", f"later {number}".encode(), delay_level=1).code == OK
    assert master.commit_offset("patient-readers", "seven-queues", 6, 3).code == OK
    group.wait("delayed messages to be delivered", lambda: master.max_offset("seven-queues", 0) == 5)
    group.wait_caught_up()


def test_topic_made_at_the_master_is_known_to_the_slave(group: Group) -> None:
    def queue_count() -> int:
        table = group.slave.talk.ask(_TOPICS).json()["topicConfigTable"]
        return int(table.get("seven-queues", {}).get("readQueueNums", 0))

    group.wait("topic at the slave", lambda: queue_count() == 7, seconds=_ROUND_S)


def test_group_made_at_the_master_is_known_to_the_slave(group: Group) -> None:
    def retries() -> int:
        table = group.slave.talk.ask(_GROUPS).json()["subscriptionGroupTable"]
        return int(table.get("patient-readers", {}).get("retryMaxTimes", 0))

    group.wait("group at the slave", lambda: retries() == 42, seconds=_ROUND_S)


def test_offset_committed_at_the_master_is_known_to_the_slave(group: Group) -> None:
    def offset() -> int | None:
        return group.slave.talk.committed_offset("patient-readers", "seven-queues", 6)

    group.wait("offset at the slave", lambda: offset() == 3, seconds=_ROUND_S)


def test_delay_progress_of_the_master_is_known_to_the_slave(group: Group) -> None:
    def progress() -> int:
        """As the slave answers it, or as its file has it: 4.9 writes the file and goes on answering its own."""
        reply = group.slave.talk.ask(_DELAY_PROGRESS)
        file = group.slave.store / "config" / "delayOffset.json"
        texts = [reply.body if reply.code == OK else b"", file.read_bytes() if file.exists() else b""]
        return max(int((match or [0, 0])[1]) for match in (re.search(rb'"?1"?\s*:\s*(\d+)', text) for text in texts))

    group.wait("progress of level 1 at the slave", lambda: progress() == 5, seconds=_ROUND_S)


def test_slave_that_comes_back_without_its_master_still_knows_them(group: Group) -> None:
    test_offset_committed_at_the_master_is_known_to_the_slave(group)
    test_topic_made_at_the_master_is_known_to_the_slave(group)
    group.slave.stop()
    group.master.kill()
    group.start_slaves()
    slave = group.slave.talk
    assert slave.committed_offset("patient-readers", "seven-queues", 6) == 3
    assert slave.ask(_TOPICS).json()["topicConfigTable"]["seven-queues"]["readQueueNums"] == 7
    reply = slave.pull("seven-queues", 0, queue_id=6)
    assert reply.code == OK, reply

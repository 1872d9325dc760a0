"""A topic deleted on the master, and made again: the slave's queues become what the master's are."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.broker.metadata_copy import metadata_copy
from flaremq.protocol.codes import RequestCode
from flaremq.storage.runtime.health import RunningFlag
from tests.support.broker_lab import bodies, until
from tests.support.group_lab import GroupLab, Member, caught_up, run


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_copy, "PERIOD_SECONDS", 0.5)


async def send(member: Member, body: bytes, *queue_ids: int) -> None:
    for queue_id in queue_ids:
        await member.sent("T", body, queue_id=queue_id)


async def delete(master: Member, topic: str = "T") -> None:
    assert (await master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})).code == 0


def queues(member: Member) -> dict[tuple[str, int], tuple[int, int]]:
    """(min, max) offset by queue, of those that have messages."""
    store = member.broker.store
    ends = {key: (store.min_offset(*key), store.max_offset(*key)) for key in store.queues()}
    return {key: end for key, end in ends.items() if end[1]}


def folders(member: Member) -> set[str]:
    root = member.folder / "consumequeue"
    return {str(path.relative_to(root)) for path in root.glob("T/*")}


async def agrees(slave: Member, master: Member) -> None:
    await caught_up(slave, master)
    await caught_up(master, master)
    await until(lambda: queues(slave) == queues(master), "the slave has the queues of the master")
    await until(lambda: folders(slave) == folders(master), "and their folders")
    for (topic, queue_id), (low, _) in queues(master).items():
        if topic == "T":
            there, here = [bodies(await who.pull("T", low, queue_id=queue_id)) for who in (master, slave)]
            assert here == there
    assert not slave.broker.store.health & RunningFlag.LOG_DAMAGED


@pytest.mark.parametrize("new", [(0,), (3, 0, 0), (1, 2)])
def test_topic_made_again_at_once_counts_from_0_on_the_slave(tmp_path: Path, new: tuple[int, ...]) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await lab.master(), await lab.slave()
        master.topic("T")
        await send(master, b"old", 0, 1, 2, 0)
        await until(lambda: slave.broker.state.topics.find("T") is not None, "the topic is copied")
        await caught_up(slave, master)
        await delete(master)
        master.topic("T")
        await send(master, b"new", *new)
        await agrees(slave, master)
        await send(master, b"newer", 0, 1, 2, 3)
        await agrees(slave, master)

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_made_again", [True, False])
def test_slave_that_was_down_during_the_deletion_follows_it(tmp_path: Path, is_made_again: bool) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await lab.master(), await lab.slave()
        master.topic("T")
        await send(master, b"old", 0, 1, 2, 0)
        await until(lambda: slave.broker.state.topics.find("T") is not None, "the topic is copied")
        await caught_up(slave, master)
        await slave.stop()
        await delete(master)
        if is_made_again:
            master.topic("T")
            await send(master, b"new", 1, 0)
        await slave.start()
        await until(lambda: slave.broker.ha.copy.copied_ms > 0, "the tables are copied")
        await agrees(slave, master)
        await slave.stop()
        await slave.start()
        await until(lambda: slave.broker.ha.copy.copied_ms > 0, "the tables are copied again")
        await agrees(slave, master)

    run(tmp_path, scenario)


def test_deleted_topic_goes_on_the_slave_and_others_stay(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await lab.master(), await lab.slave()
        for topic in ("T", "Other"):
            await master.sent(topic, b"old")
        await master.sent("%RETRY%readers", b"again")
        await until(lambda: slave.broker.state.topics.find("T") is not None, "the topic is copied")
        await caught_up(slave, master)
        await delete(master)
        await agrees(slave, master)
        assert ("Other", 0) in queues(slave) and ("%RETRY%readers", 0) in queues(slave)
        await send(master, b"new", 0, 1)
        await until(lambda: slave.broker.state.topics.find("T") is not None, "the new topic is copied")
        await agrees(slave, master)

    run(tmp_path, scenario)


def test_groups_of_the_earlier_life_are_not_ahead_in_the_new_one(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await lab.master(), await lab.slave()
        await send(master, b"old", 0, 0, 0)
        master.broker.state.offsets.commit("readers", "T", 0, 3)
        await until(lambda: slave.broker.state.offsets.find("readers", "T", 0) == 3, "the offset is copied")
        await delete(master)
        await send(master, b"new", 0)
        await agrees(slave, master)
        await until(lambda: slave.broker.state.offsets.find("readers", "T", 0) < 0, "the offset is gone")

    run(tmp_path, scenario)


def test_topic_that_only_the_masters_table_has_lost_keeps_its_queues(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master, slave = await lab.master(), await lab.slave()
        await send(master, b"kept", 0, 1)
        await until(lambda: slave.broker.state.topics.find("T") is not None, "the topic is copied")
        await caught_up(slave, master)
        master.broker.state.topics.delete("T")  # its queues stay
        await until(lambda: slave.broker.state.topics.find("T") is None, "the slave has no such topic, either")
        await another_round(slave)
        assert queues(slave)["T", 0] == queues(slave)["T", 1] == (0, 1)

    run(tmp_path, scenario)


async def another_round(slave: Member) -> None:
    for _ in range(2):
        before = slave.broker.ha.copy.copied_ms
        await until(lambda before=before: slave.broker.ha.copy.copied_ms > before, "a round of copying")  # type: ignore[misc]

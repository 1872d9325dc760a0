"""Tables of a slave: what is copied, what is kept, and what is not believed too early."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.catalog.groups import TRANSACTION_GROUP
from flaremq.broker.metadata_copy import master_tables, metadata_copy
from flaremq.broker.metadata_copy.master_tables import MasterTables
from flaremq.broker.metadata_copy.metadata_copy import MetadataCopy
from flaremq.errors import StoreIOError
from flaremq.java_json import write_java_json
from flaremq.message.topics import HALF_TOPIC
from flaremq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from flaremq.protocol.bodies.topic import DataVersion, KVTable, TopicConfig, TopicConfigSerializeWrapper
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.storage.config.config_file import ConfigFile
from tests.support.broker_lab import until
from tests.support.group_lab import GroupLab, Member, caught_up, run

VERSION = DataVersion(counter=5, timestamp=1_700_000_000_000)


class FakeMaster(RemotingClient):
    """The answers of a master by request code; what is not there is unknown to it, as to a 4.9 broker."""

    def __init__(self, log_end: int = 0) -> None:
        super().__init__()
        self.answers: dict[int, Callable[[RemotingCommand], RemotingCommand]] = {}
        self.committed: list[dict[str, Any]] = []
        self.log_end = log_end
        self.say(RequestCode.GET_ALL_TOPIC_CONFIG, self._topics({}))
        self.say(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupWrapper(data_version=VERSION).to_json())
        self.answers[RequestCode.GET_BROKER_RUNTIME_INFO] = lambda _: RemotingCommand.response(
            body=KVTable(table={"commitLogMinOffset": "0", "commitLogMaxOffset": str(self.log_end)}).to_json()
        )
        self.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = self._commit

    def say(self, code: int, body: bytes) -> None:
        self.answers[code] = lambda _: RemotingCommand.response(body=body)

    def topics(self, *names: str, version: DataVersion = VERSION) -> None:
        table = {name: TopicConfig(topic_name=name) for name in names}
        self.say(RequestCode.GET_ALL_TOPIC_CONFIG, self._topics(table, version))

    def offsets(self, table: dict[str, dict[int, int]]) -> None:
        self.say(RequestCode.GET_ALL_CONSUMER_OFFSET, write_java_json({"offsetTable": _with_text_keys(table)}))

    def _topics(self, table: dict[str, TopicConfig], version: DataVersion = VERSION) -> bytes:
        return TopicConfigSerializeWrapper(data_version=version, topic_config_table=table).to_json()

    def _commit(self, request: RemotingCommand) -> RemotingCommand:
        self.committed.append(dict(request.ext or {}))
        return RemotingCommand.response()

    async def request(self, address: str, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        answer = self.answers.get(command.code)
        if answer is None:
            return RemotingCommand.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type not supported")
        reply = answer(command)
        reply.ext = {name: str(value) for name, value in (reply.ext or {}).items()}
        return reply


def _with_text_keys(table: dict[str, dict[int, int]]) -> dict[str, dict[str, int]]:
    return {key: {str(queue_id): offset for queue_id, offset in queues.items()} for key, queues in table.items()}


async def slave_of(master: FakeMaster, lab: GroupLab) -> tuple[Member, MetadataCopy]:
    """A slave that copies from a made-up master, when it is told to."""
    slave = await lab.slave()
    copy = MetadataCopy(slave.broker.state, master, slave.broker.address)
    copy.set_master("127.0.0.1:1")
    return slave, copy


async def another_round(copy: MetadataCopy) -> None:
    copy.set_master(None)
    copy.set_master("127.0.0.1:1")
    await copy.run_due()


def test_topics_that_had_no_room_on_disk_are_saved_by_a_later_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: ConfigFile, document: object) -> None:
        raise StoreIOError("write", self.path, OSError(errno.ENOSPC, "No space left on device"))

    async def scenario(lab: GroupLab) -> None:
        master = FakeMaster()
        master.topics("orders")
        slave, copy = await slave_of(master, lab)
        with monkeypatch.context() as patch:
            patch.setattr(ConfigFile, "save", no_room)
            await copy.run_due()
        assert slave.broker.state.topics.find("orders") is not None
        assert not slave.broker.state.topics.is_saved
        await another_round(copy)  # the version is equal by now
        assert slave.broker.state.topics.is_saved

    run(tmp_path, scenario)


def test_topics_are_replaced_in_one_step_and_kept_over_a_restart(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = FakeMaster()
        master.topics("A", "B")
        slave, copy = await slave_of(master, lab)
        await copy.run_due()
        assert slave.broker.state.topics.all().keys() == {"A", "B"}
        assert slave.broker.state.topics.data_version == VERSION
        master.topics("B", "C", version=VERSION.next(1_700_000_000_001))
        gone: list[str] = []
        slave.broker.state.topics.on_delete.append(gone.append)
        await another_round(copy)
        assert slave.broker.state.topics.all().keys() == {"B", "C"} and gone == ["A"]
        await slave.stop()
        await slave.start()
        assert {"B", "C"} <= slave.broker.state.topics.all().keys()

    run(tmp_path, scenario)


def test_groups_follow_and_a_4_9_master_without_the_rest_is_enough(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = FakeMaster()
        config = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
        wrapper = SubscriptionGroupWrapper(data_version=VERSION, subscription_group_table={"g": config})
        master.say(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, wrapper.to_json())
        slave, copy = await slave_of(master, lab)
        await copy.run_due()
        assert slave.broker.state.groups.all() == {"g": config}
        assert copy.copied_ms > 0

    run(tmp_path, scenario)


def test_offsets_committed_while_the_master_was_away_stay_and_are_told_to_it(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        master = FakeMaster()
        master.topics("T")
        master.offsets({"T@g": {0: 10, 1: 20}})
        slave, copy = await slave_of(master, lab)
        await copy.run_due()
        offsets = slave.broker.state.offsets
        assert offsets.queues_of("g", "T") == {0: 10, 1: 20}
        offsets.commit("g", "T", 0, 15)
        offsets.commit("g", "T", 1, 5)  # behind the master: somebody else goes on there
        offsets.commit("new", "T", 0, 7)  # of this group the master knows nothing
        await another_round(copy)
        assert offsets.queues_of("g", "T") == {0: 15, 1: 20} and offsets.queues_of("new", "T") == {0: 7}
        told = {(entry["consumerGroup"], entry["queueId"], entry["commitOffset"]) for entry in master.committed}
        assert {tuple(map(str, entry)) for entry in told} == {("g", "0", "15"), ("new", "0", "7")}
        master.committed.clear()
        master.offsets({"T@g": {0: 3, 1: 20}})  # an administrator took the group back, and the master knows
        await another_round(copy)
        assert offsets.queues_of("g", "T") == {0: 3, 1: 20} and master.committed == []

    run(tmp_path, scenario)


def test_offset_that_the_master_cannot_be_told_is_told_in_the_next_round(tmp_path: Path) -> None:
    from flaremq.errors import UnavailableError

    async def scenario(lab: GroupLab) -> None:
        master = FakeMaster()
        master.topics("T")
        master.offsets({"T@g": {0: 1}})
        slave, copy = await slave_of(master, lab)
        await copy.run_due()
        slave.broker.state.offsets.commit("g", "T", 0, 5)
        commit = master.answers[RequestCode.UPDATE_CONSUMER_OFFSET]

        def away(request: RemotingCommand) -> RemotingCommand:
            raise UnavailableError("away")

        master.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = away
        await another_round(copy)
        assert slave.broker.state.offsets.find("g", "T", 0) == 5
        master.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = commit
        await another_round(copy)
        assert [entry["commitOffset"] for entry in master.committed] == ["5"]

    run(tmp_path, scenario)


def test_progress_is_believed_when_the_log_has_what_it_counts(tmp_path: Path) -> None:
    async def scenario(lab: GroupLab) -> None:
        real = await lab.master()
        slave = await lab.slave()
        await until(lambda: len(slave.broker.state.topics) > 0)
        fake = FakeMaster(log_end=real.log_end + 100)
        fake.say(RequestCode.GET_ALL_DELAY_OFFSET, b'{"offsetTable":{"3":7}}')
        fake.offsets({f"{HALF_TOPIC}@{TRANSACTION_GROUP}": {0: 9}, "T@g": {0: 4}})
        slave.broker.ha.copy.set_master(None)
        copy = MetadataCopy(slave.broker.state, fake, slave.broker.address)
        copy.set_master("127.0.0.1:1")
        await copy.run_due()
        state = slave.broker.state
        assert state.offsets.find("g", "T", 0) == -1
        assert state.offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0) == -1
        assert state.schedule.document()["offsetTable"] == {}
        await real.sent("T", b"x" * 200)
        await caught_up(slave, real)
        await copy.run_due()
        assert state.offsets.find("g", "T", 0) == 4
        assert state.offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0) == 9
        assert state.schedule.document()["offsetTable"] == {3: 7}

    run(tmp_path, scenario)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7])
def test_pages_of_a_5_5_master_are_all_read(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_tables, "_PAGE", 3)
    names = [f"t{number}" for number in range(count)]
    asked: list[int] = []

    def page(request: RemotingCommand) -> RemotingCommand:
        first, size = request.int_field("topicSeq"), request.int_field("maxTopicNum")
        asked.append(first)
        table = {name: TopicConfig(topic_name=name) for name in names[first : first + size]}
        body = TopicConfigSerializeWrapper(data_version=VERSION, topic_config_table=table).to_json()
        return RemotingCommand.response(ext={"totalTopicNum": count}, body=body)

    async def scenario() -> None:
        master = FakeMaster()
        master.answers[RequestCode.GET_ALL_TOPIC_CONFIG] = page

        async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
            return function(*arguments)

        topics = await MasterTables(master, "127.0.0.1:1", inline).topics()
        assert list(topics.topic_config_table) == names

    asyncio.run(scenario())
    assert asked == list(range(0, max(count, 1), 3))


def test_round_that_fails_changes_nothing_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_copy, "PERIOD_SECONDS", 0.0)

    async def scenario(lab: GroupLab) -> None:
        master = FakeMaster()
        slave, copy = await slave_of(master, lab)
        before = slave.broker.state.topics.all()
        master.say(RequestCode.GET_ALL_TOPIC_CONFIG, b"{broken")
        await copy.run_due()
        assert slave.broker.state.topics.all() == before and copy.copied_ms == 0
        master.topics("T")
        await copy.run_due()
        assert slave.broker.state.topics.all().keys() == {"T"}

    run(tmp_path, scenario)

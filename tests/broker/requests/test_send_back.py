"""Messages that consumers send back: retried later and later, then dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flaremq.broker.delay.levels import ScheduleService
from flaremq.broker.options import BrokerOptions
from flaremq.broker.requests.send_back import SendBackHandler
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.status import PutMessageStatus
from tests.broker.waiting_lab import ROOT, FakeConnection, WaitingLab, run
from tests.support.golden_frames import golden_pairs, raw_cases

GROUP = "CG_RETRY"
RETRY = f"%RETRY%{GROUP}"
DEAD = f"%DLQ%{GROUP}"
LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)


class Counter:
    """A broker to which a consumer sends messages back."""

    def __init__(self, **options: Any) -> None:
        self.lab = WaitingLab()
        self.options = BrokerOptions(**options)
        self.topics = self.lab.topics(self.options)
        self.groups = self.lab.groups(self.options)
        self.statistics = BrokerStatistics(self.options.broker_cluster_name, self.lab.clock.now_ms())
        self.handler = SendBackHandler(self.options, self.lab.access, self.topics, self.groups, self.statistics)
        file = ConfigFile(self.lab.disk, f"{ROOT}/config/delayOffset.json")
        self.schedule = ScheduleService(self.lab.access, self.lab.clock, LEVELS, file, self.lab.disk, self.lab.declare)
        self.schedule.load()

    def send_back(self, offset: int, *, version: int = 513, **ext: str) -> RemotingCommand:
        fields = {"offset": str(offset), "group": GROUP, "delayLevel": "0"} | ext
        request = RemotingCommand.request(36, fields)
        request.version = version
        return run(self.handler.send_back(FakeConnection().connection, request))

    def refusal(self, offset: int, **ext: str) -> RequestError:
        with pytest.raises(RequestError) as caught:
            self.send_back(offset, version=513, **ext)
        return caught.value

    def due(self, seconds: int) -> list[MessageExt]:
        """What is to be retried after so many seconds."""
        before = len(self.lab.messages(RETRY))
        self.lab.clock.advance(seconds * 1000)
        run(self.schedule.run_due())
        return self.lab.messages(RETRY)[before:]


def test_message_comes_back_under_the_retry_topic_after_ten_seconds() -> None:
    counter = Counter()
    sent = counter.lab.send(b"a", KEYS="k", TAGS="t", UNIQ_KEY="U")
    reply = counter.send_back(sent.physical_offset, originTopic="orders", originMsgId="U", maxReconsumeTimes="16")
    assert (reply.code, reply.ext, reply.remark) == (0, None, None)
    assert counter.statistics._named["SNDBCK_PUT_NUMS"].keys() == {f"orders@{GROUP}"}
    assert counter.statistics._named["DLQ_PUT_NUMS"] == {}
    assert counter.due(9) == []
    (message,) = counter.due(1)
    assert (message.body, message.topic, message.reconsume_times) == (b"a", RETRY, 1)
    properties = dict(message.properties)
    properties.pop("__CRC32#")
    assert properties == {
        "KEYS": "k",
        "TAGS": "t",
        "UNIQ_KEY": "U",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": sent.message_id,
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": RETRY,
        "REAL_QID": "0",
    }


def test_waiting_grows_with_each_retry_and_ends_in_the_dead_letters() -> None:
    counter = Counter()
    offset = counter.lab.send(b"a").physical_offset
    seconds = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    for number, wait in enumerate(seconds):
        counter.send_back(offset)
        assert counter.due(wait - 1) == []
        (message,) = counter.due(1)
        assert message.reconsume_times == number + 1
        assert message.properties["RETRY_TOPIC"] == "orders"
        offset = message.physical_offset
    counter.send_back(offset)
    assert counter.due(8000) == []
    (dead,) = counter.lab.messages(DEAD)
    assert (dead.body, dead.queue_id, dead.reconsume_times) == (b"a", 0, 17)
    assert dead.properties["DELAY"] == "0"
    config = counter.topics.find(DEAD)
    assert config is not None and (config.write_queue_nums, config.perm) == (1, 6)


def test_clients_limit_counts_and_that_of_old_clients_does_not() -> None:
    counter = Counter()
    offset = counter.lab.send(b"a").physical_offset
    counter.send_back(offset, maxReconsumeTimes="0")
    assert counter.lab.bodies(DEAD) == [b"a"]
    counter.send_back(offset, maxReconsumeTimes="0", version=120)
    assert len(counter.lab.bodies(DEAD)) == 1


def test_negative_level_gives_up_at_once() -> None:
    counter = Counter()
    counter.send_back(counter.lab.send(b"a").physical_offset, delayLevel="-1")
    assert counter.lab.bodies(DEAD) == [b"a"]
    assert counter.lab.bodies(SCHEDULE_TOPIC) == []


def test_consumer_may_choose_the_level() -> None:
    counter = Counter()
    counter.send_back(counter.lab.send(b"a").physical_offset, delayLevel="1")
    (message,) = counter.due(1)
    assert message.properties["DELAY"] == "1"


def test_retry_topic_has_the_groups_queues_and_all_are_used() -> None:
    counter = Counter()
    counter.groups.update(SubscriptionGroupConfig(group_name=GROUP, retry_queue_nums=3))
    offset = counter.lab.send(b"a").physical_offset
    for _ in range(60):
        counter.send_back(offset, delayLevel="1")
    config = counter.topics.find(RETRY)
    assert config is not None and config.write_queue_nums == 3
    counter.due(1)
    counts = [len(counter.lab.messages(RETRY, queue_id)) for queue_id in range(3)]
    assert sum(counts) == 60 and all(counts)


def test_group_without_retries_drops_the_message_and_says_thanks() -> None:
    counter = Counter()
    counter.groups.update(SubscriptionGroupConfig(group_name=GROUP, retry_queue_nums=0))
    before = counter.lab.store.max_physical_offset
    sent = counter.lab.send(b"a")
    assert counter.send_back(sent.physical_offset).code == 0
    assert counter.lab.store.max_physical_offset == before + sent.size


def test_send_back_that_cannot_be_is_refused_with_the_code_that_says_why() -> None:
    counter = Counter(auto_create_subscription_group=False)
    offset = counter.lab.send(b"a").physical_offset
    assert counter.refusal(offset).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    counter = Counter(broker_permission=4)
    assert counter.refusal(counter.lab.send(b"a").physical_offset).code == ResponseCode.NO_PERMISSION
    counter = Counter()
    assert counter.refusal(0, group="no blanks allowed").code == ResponseCode.INVALID_PARAMETER
    config = counter.topics.create_on_send_back(RETRY, 1)
    counter.topics.update(replace(config, perm=4))
    assert counter.refusal(counter.lab.send(b"a").physical_offset).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("offset", ["-1", "1", "999999999"])
def test_unknown_message_is_refused(offset: str) -> None:
    counter = Counter()
    counter.lab.send(b"a")
    assert counter.refusal(int(offset)).code == ResponseCode.SYSTEM_ERROR
    assert counter.topics.find(RETRY) is None


def test_half_message_cannot_be_made_visible_by_sending_it_back() -> None:
    counter = Counter()
    half = counter.lab.send(b"half", TRAN_MSG="true", PGROUP="p")
    assert counter.lab.bodies(HALF_TOPIC) == [b"half"]
    assert counter.refusal(half.physical_offset).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC, "rmq_sys_REVIVE_LOG_DefaultCluster"])
def test_record_of_the_brokers_own_topics_cannot_be_sent_back(topic: str) -> None:
    counter = Counter()
    own = counter.lab.send(b"own", topic)
    assert counter.refusal(own.physical_offset).code == ResponseCode.SYSTEM_ERROR


def test_message_that_could_not_be_stored_is_not_acknowledged() -> None:
    counter = Counter()
    offset = counter.lab.send(b"a").physical_offset
    with counter.lab.refusing(DEAD, PutMessageStatus.OS_PAGE_CACHE_BUSY):
        assert counter.refusal(offset, delayLevel="-1").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("recording", ["json-49", "json-55"])
def test_recorded_send_backs_are_answered_as_recorded(recording: str) -> None:
    counter = Counter()
    pairs = [(ask.command, reply.command) for ask, reply in golden_pairs(recording) if ask.command.code == 36]
    assert len(pairs) >= 5
    for request, recorded in pairs:
        sent = counter.lab.send(b"a")
        request.ext = {**(request.ext or {}), "offset": str(sent.physical_offset)}
        reply = run(counter.handler.send_back(FakeConnection().connection, request))
        assert (reply.code, reply.remark, reply.ext or None) == (recorded.code, recorded.remark, recorded.ext or None)


def test_recorded_nonsense_is_answered_as_recorded() -> None:
    cases = [case for case in raw_cases() if case.name == "send-back-nonsense"]
    assert len(cases) == 2
    for case in cases:
        counter = Counter()
        error = counter.refusal(999_999_999, group="RAWG")
        assert f'"code":{error.code},'.encode() in case.got
        assert f'"remark":"{error.remark}"'.encode() in case.got

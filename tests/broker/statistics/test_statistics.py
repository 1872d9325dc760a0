"""Broker statistics: windows of a minute, an hour and a day over counters that cost next to nothing."""

from __future__ import annotations

import time

import pytest

from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.slow_consumers import FallBehind, SlowConsumerProtection
from flaremq.broker.statistics.windows import StatsSnapshot
from flaremq.clock import ManualClock
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import LocalFileSystem

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class Lab:
    """Statistics on a clock of their own, sampled every second as a broker does."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.statistics = BrokerStatistics("DefaultCluster", self.clock.now_ms())

    def advance(self, milliseconds: int, step: int = SECOND) -> None:
        for _ in range(milliseconds // step):
            self.clock.advance(step)
            self.statistics.tick(self.clock.now_ms())

    def minute(self, name: str, key: str) -> StatsSnapshot:
        found = self.statistics.find(name, key)
        assert found is not None
        return found.minute


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_item_does_not_exist_before_its_first_note(lab: Lab) -> None:
    assert lab.statistics.find("TOPIC_PUT_NUMS", "T") is None
    assert lab.statistics.find("GROUP_GET_NUMS", "T@G") is None
    assert lab.statistics.find("NO_SUCH_NAME", "T") is None
    assert lab.statistics.topic_put_tps("T") == 0.0
    assert lab.statistics.group_get_tps("G", "T") == 0.0


def test_pull_that_finds_nothing_makes_no_item(lab: Lab) -> None:
    lab.statistics.note_get("G", "T", 0, 0)
    lab.statistics.note_get_latency("G", "T", 7, 0)
    assert lab.statistics.find("GROUP_GET_LATENCY", "T@G") is None
    assert (lab.statistics.get_miss_count, lab.statistics.get_latency_max_ms) == (1, 7)


def _note_all(statistics: BrokerStatistics, number: int) -> None:
    group, topic = f"G{number}", f"T{number}"
    statistics.note_put(topic, 1, 1)
    statistics.note_get(group, topic, 1, 1)
    statistics.note_get_latency(group, topic, 1, 1)
    statistics.note_send_back(group, topic)
    statistics.fall_behind.note_size(group, topic, 0, 1)
    statistics.fall_behind.note_time(group, topic, 0, 1)


def _has(statistics: BrokerStatistics, number: int) -> set[bool]:
    pair = f"T{number}@G{number}"
    keys = {"TOPIC_PUT_NUMS": f"T{number}", "GROUP_GET_NUMS": pair, "GROUP_GET_LATENCY": pair, "SNDBCK_PUT_NUMS": pair}
    return {statistics.find(name, key) is not None for name, key in keys.items()}


def test_items_have_a_limit_and_idle_ones_make_room(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("counters", "slow_consumers"):
        monkeypatch.setattr(f"flaremq.broker.statistics.{module}.ITEMS_MAX", 10)
    for number in range(15):
        _note_all(lab.statistics, number)
    assert (_has(lab.statistics, 9), _has(lab.statistics, 10)) == ({True}, {False})
    assert len(lab.statistics.fall_behind.sizes) == len(lab.statistics.fall_behind.times) == 10
    assert lab.statistics.put_total == lab.statistics.get_total == 15  # the broker's totals have it all
    for _ in range(8):
        lab.advance(10 * SECOND)
        _note_all(lab.statistics, 0)
    _note_all(lab.statistics, 20)
    assert (_has(lab.statistics, 0), _has(lab.statistics, 1), _has(lab.statistics, 20)) == ({True}, {False}, {True})


def test_item_goes_when_nothing_was_counted_for_a_day(lab: Lab) -> None:
    _note_all(lab.statistics, 1)
    lab.advance(24 * HOUR, step=MINUTE)
    _note_all(lab.statistics, 2)
    assert _has(lab.statistics, 1) == {True}
    lab.advance(2 * HOUR, step=MINUTE)
    assert (_has(lab.statistics, 1), _has(lab.statistics, 2)) == ({False}, {True})
    lab.advance(24 * HOUR, step=MINUTE)
    assert _has(lab.statistics, 2) == {False}


def test_counts_show_after_the_next_sample(lab: Lab) -> None:
    lab.advance(25 * SECOND)
    lab.statistics.note_put("T", 1, 100)
    lab.statistics.note_put("T", 9, 900)
    assert lab.minute("TOPIC_PUT_NUMS", "T") == StatsSnapshot()
    lab.advance(10 * SECOND)
    assert lab.minute("TOPIC_PUT_NUMS", "T") == StatsSnapshot(sum=10, tps=1.0, avgpt=5.0)
    assert lab.minute("TOPIC_PUT_SIZE", "T") == StatsSnapshot(sum=1000, tps=100.0, avgpt=500.0)
    assert lab.statistics.topic_put_tps("T") == 1.0


def test_minute_window_forgets_after_a_minute(lab: Lab) -> None:
    for _ in range(12):
        lab.statistics.note_put("T", 10, 1000)
        lab.advance(10 * SECOND)
    assert lab.minute("TOPIC_PUT_NUMS", "T") == StatsSnapshot(sum=60, tps=1.0, avgpt=10.0)
    lab.advance(MINUTE)
    assert lab.minute("TOPIC_PUT_NUMS", "T") == StatsSnapshot()
    assert lab.statistics.topic_put_tps("T") == 0.0


def test_hour_and_day_windows_are_sampled_at_their_own_pace(lab: Lab) -> None:
    for _ in range(30):
        lab.statistics.note_put("T", 60, 60)
        lab.advance(HOUR, step=MINUTE)
    found = lab.statistics.find("TOPIC_PUT_NUMS", "T")
    assert found is not None
    assert found.minute.sum == 0
    assert found.hour.sum == 60  # the window's oldest sample was taken before the last note
    assert found.day.sum == 24 * 60
    assert found.day.tps == pytest.approx(24 * 60 / (24 * 3600))


def test_young_item_is_measured_over_its_own_life(lab: Lab) -> None:
    lab.advance(10 * MINUTE)
    lab.statistics.note_put("Young", 30, 30)
    lab.advance(20 * SECOND)
    assert lab.minute("TOPIC_PUT_NUMS", "Young").tps == pytest.approx(1.5)


def test_gets_are_kept_by_topic_and_group(lab: Lab) -> None:
    lab.statistics.note_get("G", "T", 32, 3200)
    lab.statistics.note_get("G", "T", 8, 800)
    lab.statistics.note_get("G", "T", 0, 0)
    lab.statistics.note_get("H", "T", 1, 1)
    lab.statistics.note_get_latency("G", "T", 4, 1)
    lab.statistics.note_get_latency("G", "T", 2, 1)
    lab.advance(10 * SECOND)
    assert lab.minute("GROUP_GET_NUMS", "T@G") == StatsSnapshot(sum=40, tps=4.0, avgpt=20.0)
    assert lab.minute("GROUP_GET_SIZE", "T@G").sum == 4000
    assert lab.minute("GROUP_GET_LATENCY", "T@G").avgpt == 3.0
    assert lab.statistics.group_get_tps("G", "T") == 4.0
    assert (lab.statistics.get_found_count, lab.statistics.get_miss_count) == (3, 1)
    assert lab.statistics.get_transferred_count == 41
    assert lab.statistics.get_latency_max_ms == 4


def test_send_backs_dead_letters_and_acks_have_names_of_their_own(lab: Lab) -> None:
    lab.statistics.note_send_back("G", "T")
    lab.statistics.note_dead_letter("G", "T")
    lab.statistics.note_ack("G", "T", 3)
    lab.statistics.note_check_point("G", "T", 2)
    lab.advance(10 * SECOND)
    sums = {
        name: lab.minute(name, "T@G").sum
        for name in ("SNDBCK_PUT_NUMS", "DLQ_PUT_NUMS", "GROUP_ACK_NUMS", "GROUP_CK_NUMS")
    }
    assert sums == {"SNDBCK_PUT_NUMS": 1, "DLQ_PUT_NUMS": 1, "GROUP_ACK_NUMS": 3, "GROUP_CK_NUMS": 2}
    assert lab.minute("BROKER_ACK_NUMS", "DefaultCluster").sum == 3
    assert lab.minute("BROKER_CK_NUMS", "DefaultCluster").sum == 2


def test_broker_totals_count_all_topics_but_todays_total_only_the_users(lab: Lab) -> None:
    lab.statistics.note_put("T", 3, 3)
    lab.statistics.note_put("SCHEDULE_TOPIC_XXXX", 2, 2)
    lab.statistics.note_get("G", "T", 3, 3)
    lab.statistics.note_get("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 5, 5)
    lab.advance(10 * SECOND)
    assert lab.minute("BROKER_PUT_NUMS", "DefaultCluster").sum == 5
    assert lab.minute("BROKER_GET_NUMS", "DefaultCluster").sum == 8
    assert lab.statistics.find("BROKER_PUT_NUMS", "OtherCluster") is None
    assert (lab.statistics.put_total, lab.statistics.get_total) == (3, 3)


def test_morning_totals_move_at_local_midnight(lab: Lab) -> None:
    lab.statistics.note_put("T", 7, 7)
    lab.statistics.note_get("G", "T", 5, 5)
    local = time.localtime(lab.clock.now_ms() / 1000)
    to_midnight = (24 * 3600 - local.tm_hour * 3600 - local.tm_min * 60 - local.tm_sec) * SECOND
    lab.advance(to_midnight - MINUTE, step=to_midnight - MINUTE)
    assert lab.statistics.put_total_today_morning == 0
    lab.advance(3 * MINUTE, step=MINUTE)
    assert (lab.statistics.put_total_today_morning, lab.statistics.get_total_today_morning) == (7, 5)
    assert lab.statistics.put_total_yesterday_morning == 0
    lab.statistics.note_put("T", 1, 1)
    lab.advance(26 * HOUR, step=HOUR)
    assert (lab.statistics.put_total_yesterday_morning, lab.statistics.put_total_today_morning) == (7, 8)


def test_deleted_topics_and_groups_are_forgotten_but_totals_stay(lab: Lab) -> None:
    for topic in ("T", "U"):
        lab.statistics.note_put(topic, 1, 1)
        for group in ("G", "H"):
            lab.statistics.note_get(group, topic, 1, 1)
            lab.statistics.note_get_latency(group, topic, 1, 1)
            lab.statistics.note_send_back(group, topic)
            lab.statistics.fall_behind.note_size(group, topic, 0, 100)
    lab.statistics.forget_topic("T")
    lab.statistics.forget_group("H")
    lab.advance(10 * SECOND)
    assert lab.statistics.find("TOPIC_PUT_NUMS", "T") is None
    for name in ("GROUP_GET_NUMS", "GROUP_GET_LATENCY", "SNDBCK_PUT_NUMS"):
        assert [key for key in ("T@G", "T@H", "U@G", "U@H") if lab.statistics.find(name, key)] == ["U@G"]
    assert lab.statistics.fall_behind.sizes == {("U", 0, "G"): 100}
    assert lab.statistics.put_total == 2
    assert lab.minute("BROKER_GET_NUMS", "DefaultCluster").sum == 4


def test_clock_set_back_gives_no_negative_rate(lab: Lab) -> None:
    lab.statistics.note_put("T", 10, 10)
    lab.advance(20 * SECOND)
    lab.clock.jump(-HOUR)
    lab.statistics.note_put("T", 10, 10)
    lab.statistics.tick(lab.clock.now_ms())
    assert lab.minute("TOPIC_PUT_NUMS", "T").tps >= 0
    lab.advance(2 * MINUTE)
    assert lab.minute("TOPIC_PUT_NUMS", "T") == StatsSnapshot()


# Slow consumers


def test_fall_behind_reports_the_worst_queue_of_each_group() -> None:
    behind = FallBehind()
    behind.note_size("G", "T", 0, 50)
    behind.note_size("G", "T", 1, 500)
    behind.note_size("H", "T", 0, 10)
    behind.note_time("G", "T", 1, 60_000)
    assert behind.groups_behind(40) == {"G": 500}
    behind.note_size("G", "T", 1, 0)
    assert behind.groups_behind(40) == {"G": 50}
    assert behind.times == {("T", 1, "G"): 60_000}


def test_group_too_far_behind_is_switched_off_when_the_option_says_so(tmp_path: pytest.TempPathFactory) -> None:
    options = BrokerOptions(consumer_fallbehind_threshold=1000)
    groups = GroupTable(options, ConfigFile(LocalFileSystem(), f"{tmp_path}/subscriptionGroup.json"), ManualClock())
    groups.load()
    for name in ("slow", "quick"):
        groups.find(name)
    behind = FallBehind()
    behind.note_size("slow", "T", 0, 1001)
    behind.note_size("quick", "T", 0, 1000)
    behind.note_size("gone", "T", 0, 10_000)
    protection = SlowConsumerProtection(options, behind, groups)
    assert protection.tick() == []
    options.change({"disableConsumeIfConsumerReadSlowly": "true"})
    assert protection.tick() == ["slow"]
    assert not groups.all()["slow"].consume_enable and groups.all()["quick"].consume_enable
    assert protection.tick() == []
    assert "gone" not in groups

"""The sampler and the lists over a cluster that is made up: ten thousand topics, old brokers, strange names."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from flaremq.clock import ManualClock
from flaremq.dashboard.data import table_steps
from flaremq.dashboard.data.broker_state import bytes_of
from flaremq.dashboard.data.files import file_of, log_files
from flaremq.dashboard.data.group_state import GroupState, Place, QueueKey
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.ring import Meter, Ring
from flaremq.dashboard.data.sampler import Sampler
from flaremq.dashboard.data.slice_steps import GROUPS_A_SLICE, TOPICS_A_SLICE
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.brokers import brokers_page
from flaremq.dashboard.views.groups import groups_page, queue_rows
from flaremq.dashboard.views.overview import overview_page
from flaremq.dashboard.views.topics import topics_page
from flaremq.errors import InvalidArgumentError
from flaremq.protocol.bodies.client import ProducerInfo
from tests.support.fake_reader import FakeReader


class Lab:
    """A sampler over a made-up cluster, whose time stands still."""

    def __init__(self, fake: FakeReader) -> None:
        self.fake = fake
        self.clock = ManualClock()
        self.state = ClusterState(name_servers=fake.name_servers)
        self.sampler = Sampler(self.state, cast(ClusterReader, fake), self.clock)

    def look(self, times: int = 1) -> None:
        async def run() -> None:
            for _ in range(times):
                self.clock.advance(1_000)
                await self.sampler.look()

        asyncio.run(run())

    def topics(self, **query: str) -> Any:
        return topics_page(self.state, query, self.clock.now_ms())[0]


TEN_THOUSAND = [f"topic-{number:05d}" for number in range(10_000)]


def test_ten_thousand_topics_are_paged_sorted_and_filtered_here() -> None:
    lab = Lab(FakeReader(TEN_THOUSAND, [f"group-{number:03d}" for number in range(200)]))
    lab.look()
    page = lab.topics(limit="100")
    assert page["total"] == 10_000 and len(page["items"]) == 100
    seen = [row["topic"] for row in page["items"]]
    while page["next"]:
        page = lab.topics(limit="500", cursor=page["next"])
        seen += [row["topic"] for row in page["items"]]
    assert seen == TEN_THOUSAND
    assert lab.topics(q="0999")["total"] == 11
    lagging = lab.topics(sort="-lag", limit="3")["items"]
    assert [row["lag"] for row in lagging] == [398, 396, 394]
    groups = groups_page(lab.state, {"sort": "-lag", "limit": "2"}, lab.clock.now_ms())
    assert [row["lag"] for row in groups["items"]] == [398, 396] and groups["total"] == 200
    assert overview_page(lab.state, lab.clock.now_ms())["totals"]["topics"] == 10_000


def test_a_page_asks_no_broker_and_a_look_asks_about_a_slice() -> None:
    lab = Lab(FakeReader(TEN_THOUSAND, [f"group-{number:03d}" for number in range(200)]))
    lab.look()
    before = lab.fake.calls.copy()
    assert before["ends_at"] == TOPICS_A_SLICE and before["members_at"] == GROUPS_A_SLICE
    for query in ({}, {"sort": "-messages"}, {"q": "1"}):
        lab.topics(**query)
    groups_page(lab.state, {}, lab.clock.now_ms())
    assert lab.fake.calls == before
    row = lab.topics(q="topic-09999")["items"][0]
    assert row["messages"] is None and row["missing"]["messages"] == "not_read_yet"


def test_what_is_looked_at_is_read_first_and_the_rest_takes_turns() -> None:
    lab = Lab(FakeReader(TEN_THOUSAND))
    lab.look()
    lab.sampler.slices.want_topics([lab.state.topics["topic-09999"]])
    lab.look()
    assert lab.topics(q="topic-09999")["items"][0]["messages"] == 1
    lab.look(20)
    assert sum(topic.is_known for topic in lab.state.topics.values()) > 20 * (TOPICS_A_SLICE - 1)


def test_rates_come_from_what_was_read_twice() -> None:
    lab = Lab(FakeReader(["orders"], queues=4))
    lab.look()
    assert lab.topics()["items"][0]["in_per_second"] is None
    for _ in range(4):
        lab.fake.sent += 25
        lab.look()
    assert lab.topics()["items"][0]["in_per_second"] == 100.0


def test_a_cursor_of_another_order_is_refused() -> None:
    lab = Lab(FakeReader(TEN_THOUSAND[:100]))
    lab.look()
    cursor = lab.topics(limit="10")["next"]
    for query in (
        {"cursor": cursor, "sort": "-lag"},
        {"cursor": "x"},
        {"cursor": "//"},
        {"sort": "bytes"},
        {"limit": "0"},
    ):
        with pytest.raises(InvalidArgumentError):
            lab.topics(**query)


def test_an_old_broker_leaves_holes_that_say_why() -> None:
    """An old release knows no list of producers and no latencies, and an account may be let see only a part."""
    told = {"brokerVersionDesc": "V4_9_4", "putTps": "12.5 11.0 10.0", "commitLogDiskRatio": "-1.0"}
    lab = Lab(FakeReader(["orders"], ["billing"], told=told, unknown=["all_producers"], denied=["progress_at"]))
    lab.look()
    (broker,) = brokers_page(lab.state, {}, lab.clock.now_ms())["items"]
    assert broker["in_per_second"] == 12.5 and broker["put_p99_ms"] is None and broker["disk_used_ratio"] is None
    assert broker["missing"] == {"put_p99_ms": "not_told"}
    page = groups_page(lab.state, {}, lab.clock.now_ms())
    assert page["items"][0]["lag"] is None and page["items"][0]["missing"]["lag"] == "denied"
    assert page["missing"]["progress"]["reason"] == "denied"
    assert lab.state.producers is None and lab.state.producers_failure == "not_told"
    assert overview_page(lab.state, lab.clock.now_ms())["totals"]["lag"] is None


def test_what_an_operator_should_look_at_is_said() -> None:
    told = {"commitLogDiskRatio": "0.93", "damagedLogRanges": "1", "damagedLogBytes": "22"}
    lab = Lab(FakeReader(["orders", "paid", "%DLQ%paying"], ["billing", "paying"], told=told))
    lab.fake.sent = 5
    heard = lab.clock.now_ms() - 80_000
    lab.fake.producers = {"p": (ProducerInfo(client_id="c", last_update_timestamp=heard),)}
    lab.look()
    found = {notice["code"]: notice for notice in overview_page(lab.state, lab.clock.now_ms())["notices"]}
    assert found["disk_filling"]["level"] == "critical" and found["disk_filling"]["args"]["ratio"] == 0.93
    assert found["damaged_log"]["args"] == {"broker": "broker-a", "ranges": 1, "bytes": 22}
    assert found["no_member"]["args"] == {"group": "paying", "lag": 2}
    assert found["dead_letters"]["args"] == {"group": "paying", "count": 11}
    assert found["silent_member"]["args"]["seconds"] == 81


def test_lag_that_grows_for_five_minutes_is_said_once_it_has() -> None:
    lab = Lab(FakeReader(["a", "orders"], ["b", "billing"]))
    for minute in range(7):
        lab.look()
        codes = {notice["code"] for notice in overview_page(lab.state, lab.clock.now_ms())["notices"]}
        assert ("lag_growing" in codes) is (minute >= 5), minute
        lab.fake.behind += 10
        lab.clock.advance(60_000)


def test_the_lag_of_each_queue_is_kept_for_a_quarter_of_an_hour() -> None:
    lab = Lab(FakeReader(["orders"], ["billing"]))
    lab.fake.behind = 0
    lab.look()
    (group,) = lab.state.groups.values()
    assert group.queue_lags == {}, "nothing lags, nothing is kept"
    told = []
    for behind in range(1, 71):
        lab.fake.behind = behind
        lab.clock.advance(14_000)  # and a second for the look
        lab.look()
        told.append([row["lag"] for row in queue_rows(lab.state, group, lab.clock.now_ms())])
    rows = queue_rows(lab.state, group, lab.clock.now_ms())
    assert [row["spark"] for row in rows] == [list(map(float, column))[-60:] for column in zip(*told, strict=True)]
    assert len(rows[0]["spark"]) == 60


def test_a_group_that_had_members_is_no_query_of_spark() -> None:
    def moved(group: GroupState, to: int, now_ms: int) -> int:
        group.take_places({QueueKey("orders", "a", 0): Place(100, to, to, 0)}, now_ms, now_ms / 1000)
        return group.moved_alone_ms

    group = GroupState("billing")
    group.note_online(False, 1_000)
    moved(group, 1, 100_000)
    assert moved(group, 2, 101_000) == 101_000 and group.kind == "spark"
    group.note_online(True, 102_000)  # members came, and were seen after their first commit
    assert group.kind == "unknown"
    assert moved(group, 3, 103_000) == 0
    group.note_online(False, 104_000)
    assert moved(group, 4, 105_000) == 0, "what they committed when they left"
    assert moved(group, 5, 200_000) == 200_000, "from then on a job may have taken over"


def test_queues_whose_lag_is_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_steps, "QUEUES_RINGED_MAX", 3)
    lab = Lab(FakeReader(["orders"], [f"group-{number}" for number in range(9)]))
    lab.fake.behind = 5
    for _ in range(3):
        lab.clock.advance(20_000)
        lab.look()
    assert 0 < sum(len(group.queue_lags) for group in lab.state.groups.values()) <= 3


def test_a_cluster_that_is_away_leaves_what_was_known() -> None:
    lab = Lab(FakeReader(["orders"], ["billing"], told={"brokerVersionDesc": "V5_5_0"}))
    lab.look()
    lab.fake.unknown |= {"topic_table", "progress_at", "runtime", "ends_at", "cluster_info"}
    lab.look(3)
    page = lab.topics()
    assert page["items"][0]["messages"] == 1 and page["age_ms"] >= 3_000
    assert not page["cluster"]["reachable"]
    codes = {notice["code"] for notice in overview_page(lab.state, lab.clock.now_ms())["notices"]}
    assert {"name_server_unreachable", "broker_down"} <= codes


def test_a_cluster_that_refuses_is_not_said_to_be_away(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(FakeReader(["orders"], ["billing"], denied=["cluster_info"]))

    async def run() -> None:
        await lab.sampler.start()
        await lab.sampler.stop()

    asyncio.run(run())
    page = overview_page(lab.state, lab.clock.now_ms())
    assert page["cluster"]["reachable"] and page["missing"]["brokers"]["reason"] == "denied"
    assert {notice["code"] for notice in page["notices"]} == {"access_denied"}
    assert "give it an account" in caplog.text


@pytest.mark.parametrize(
    "name", ["a/b", "../../etc/passwd", "<img src=x onerror=alert(1)>", "\u202egnp", "x\x00y", "%2F", "\ud800"]
)
def test_strange_names_are_rows_like_others(name: str) -> None:
    lab = Lab(FakeReader([name], [name]))
    lab.look()
    assert lab.topics()["items"][0]["topic"] == name


def test_a_ring_keeps_gaps_and_forgets_the_oldest() -> None:
    ring = Ring(1000, 4)
    for second, value in ((10, 1.0), (11, 2.0), (13, 4.0), (13, 5.0)):
        ring.note(second * 1000, value)
    assert ring.series() == {"step_ms": 1000, "from_ms": 10_000, "points": [1.0, 2.0, None, 5.0]}
    ring.note(14_500, None)
    assert ring.series()["points"] == [2.0, None, 5.0, None] and ring.ago(14_000, 3_000) == 2.0
    ring.note(1_000_000, 7.0)
    assert ring.series() == {"step_ms": 1000, "from_ms": 1_000_000, "points": [7.0]}


def test_a_meter_begins_anew_when_its_counter_goes_back() -> None:
    meter = Meter(10)
    meter.note(0, 100)
    meter.note(2, 120)
    assert meter.per_second == 10
    meter.note(3, 5)
    assert meter.per_second is None


def test_log_files_follow_from_offsets() -> None:
    rows, count = log_files(1_500, 3_200, 1_000)
    assert count == 3 and [row["name"] for row in rows] == [f"{at:020d}" for at in (3_000, 2_000, 1_000)]
    assert [row["used_bytes"] for row in rows] == [200, 1_000, 500] and rows[0]["current"]
    assert file_of(2_345, 1_000) == (f"{2_000:020d}", 345)


@pytest.mark.parametrize(("text", "size"), [("3.5 KiB", 3584), ("12 B", 12), ("1.0 TiB", 1 << 40), ("nothing", None)])
def test_sizes_are_read_as_brokers_write_them(text: str, size: int | None) -> None:
    assert bytes_of(text) == size

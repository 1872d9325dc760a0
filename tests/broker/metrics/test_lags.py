"""How far groups are behind, as metrics tell it: whose groups, what counts, and that a large walk goes in slices."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flaremq.broker.metrics import catalogue as told
from flaremq.broker.metrics.lags import Lags
from flaremq.metrics.family import Family
from flaremq.metrics.samples import Samples
from flaremq.metrics.turns import Turns
from flaremq.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import RequestCode
from flaremq.remoting.client import RemotingClient
from tests.support.broker_lab import BrokerLab, run

_ON: dict[str, Any] = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}


async def connect(
    lab: BrokerLab, group: str, topics: dict[str, str], kind: str = "CONSUME_PASSIVELY"
) -> RemotingClient:
    """A consumer that stays until its client is closed."""
    subscriptions = tuple(
        SubscriptionData(topic=topic, sub_string=tags, sub_version=1)
        for topic, tags in {**topics, f"%RETRY%{group}": "*"}.items()
    )
    data = ConsumerData(group_name=group, consume_type=kind, subscription_data_set=subscriptions)
    client = RemotingClient()
    body = HeartbeatData(client_id=group, consumer_data_set=(data,)).to_json()
    assert (await lab.ask(RequestCode.HEART_BEAT, None, body, client=client)).code == 0
    return client


async def lags(lab: BrokerLab, limit: int = 50_000) -> Samples:
    samples = Samples({}, limit=limit)
    await Lags(lab.broker.state).tell(samples)
    return samples


def values(samples: Samples, family: Family) -> dict[str, float]:
    """Values by labels as text."""
    column = samples.columns.get(family)
    pairs = [] if column is None else zip(column.labels, column.values, strict=True)
    return {labels: value for labels, value in pairs if isinstance(value, int | float)}


def text(group: str, topic: str, is_retry: str = "false") -> str:
    return f'consumer_group="{group}",is_retry="{is_retry}",is_system="false",topic="{topic}"'


def test_lag_splits_into_what_is_given_out_and_what_is_not() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        client = await connect(lab, "g", {"orders": "*"})
        for _ in range(10):
            await lab.sent("orders")
            await lab.ephemeral.advanced(1_000)
        lab.broker.state.offsets.commit("g", "orders", 0, 2)
        lab.broker.state.offsets.note_pulled("g", "orders", 0, 6)
        samples = await lags(lab)
        found = [next(iter(values(samples, family).values())) for family in told.LAG_FAMILIES]
        assert found == [8, 8_000, 4, 4_000, 4]
        await client.close()

    run(scenario, **_ON)


def test_without_a_committed_offset_there_is_no_lag() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        client = await connect(lab, "g", {"orders": "*"})
        await lab.sent("orders")
        assert values(await lags(lab), told.CONSUMER_LAG) == {text("g", "orders"): 0}
        await client.close()

    run(scenario, **_ON)


@pytest.mark.parametrize(
    ("option", "is_told"),
    [("metricsOfflineGroups", True), ("useStaticSubscription", True), ("estimateAccumulation", False)],
)
def test_an_offline_group_is_told_if_that_was_wished(option: str, is_told: bool) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        state = lab.broker.state
        state.groups.update(SubscriptionGroupConfig(group_name="g", subscription_data_set=[{"topic": "orders"}]))
        state.groups.update(SubscriptionGroupConfig(group_name="other"))
        await lab.sent("orders")
        state.offsets.commit("g", "orders", 0, 0)
        expected = {text("g", "orders"): 1} if is_told else {}
        assert values(await lags(lab), told.CONSUMER_LAG) == expected
        client = await connect(lab, "g", {"orders": "*"})
        assert values(await lags(lab), told.CONSUMER_LAG) == {text("g", "orders"): 1}, "once, not twice"
        await client.close()

    run(scenario, **_ON, **{option: True})


@pytest.mark.parametrize("estimated", [True, False])
def test_messages_that_a_groups_tags_do_not_want_do_not_count(estimated: bool) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        client = await connect(lab, "g", {"orders": "paid || sent"})
        for tag in ("paid", "lost", "sent", "lost", "lost"):
            await lab.sent("orders", properties=f"UNIQ_KEY\x01C0A8000100002A9F{ord(tag[0]):016X}\x02TAGS\x01{tag}\x02")
        lab.broker.state.offsets.commit("g", "orders", 0, 0)
        lab.broker.state.offsets.note_pulled("g", "orders", 0, 2)
        samples = await lags(lab)
        assert values(samples, told.CONSUMER_LAG) == {text("g", "orders"): 2 if estimated else 5}
        assert values(samples, told.CONSUMER_READY) == {text("g", "orders"): 1 if estimated else 3}
        await client.close()

    run(scenario, **_ON, estimateAccumulation=estimated)


def test_a_group_that_says_it_pops_is_told_with_its_retries() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        lab.topic("%RETRY%g_orders", 1)
        client = await connect(lab, "g", {"orders": "*"}, "CONSUME_POP")
        for topic in ("orders", "%RETRY%g_orders"):
            await lab.sent(topic)
            lab.broker.state.offsets.commit("g", topic, 0, 0)
        expected = {text("g", "orders"): 1, text("g", "orders", "true"): 1}
        assert values(await lags(lab), told.CONSUMER_LAG) == expected
        await client.close()

    run(scenario, **_ON)


def test_pairs_beyond_the_limit_are_counted_and_not_looked_at() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        clients = [await connect(lab, f"g{number}", {"orders": "*", "bills": "*"}) for number in range(4)]
        samples = await lags(lab, limit=3)
        assert len(values(samples, told.CONSUMER_LAG)) == 3
        assert {samples.cut[family] for family in told.LAG_FAMILIES} == {5}
        for client in clients:
            await client.close()

    run(scenario, **_ON)


def test_a_large_walk_lets_others_go_first_every_few_pairs() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        topics = {f"topic{number}": "*" for number in range(500)}
        client = await connect(lab, "g", topics)
        samples = Samples({})
        samples.turns = Turns(0.0)  # every look at the clock ends a slice
        turns = 0
        is_done = False

        async def others() -> None:
            nonlocal turns
            while not is_done:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(others())
        await Lags(lab.broker.state).tell(samples)
        is_done = True
        await running
        assert samples.turns.slices >= 500 // 64
        assert turns >= samples.turns.slices - 1
        await client.close()

    run(scenario, **_ON)


def test_times_of_messages_that_stay_first_are_read_once() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        client = await connect(lab, "g", {"orders": "*"})
        for _ in range(3):
            await lab.sent("orders")
        lab.broker.state.offsets.commit("g", "orders", 0, 1)
        inspector, asked = lab.broker.store.inspector, []
        usual = type(inspector).store_time

        class Counting(type(inspector)):  # type: ignore[misc]  # a class made on the spot
            def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
                asked.append(queue_offset)
                return usual(self, topic, queue_id, queue_offset)

        counting = object.__new__(Counting)
        for name in type(inspector).__slots__:
            setattr(counting, name, getattr(inspector, name))
        lab.broker.store.inspector = counting
        looks = Lags(lab.broker.state)
        for _ in range(3):
            await looks.tell(Samples({}))
        assert asked == [1]
        lab.broker.state.offsets.commit("g", "orders", 0, 2)
        await looks.tell(Samples({}))
        assert asked == [1, 2]
        await client.close()

    run(scenario, **_ON)

"""What counts as what, whichever way a message comes in, and what switches leave out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from flaremq.broker.metrics.catalogue import CATALOGUE
from flaremq.broker.options import BrokerOptions, load_options
from flaremq.errors import InvalidArgumentError
from flaremq.protocol.bodies.client import HeartbeatData, ProducerData
from flaremq.protocol.codes import RequestCode
from flaremq.testing import ephemeral_broker
from tests.support.broker_lab import UNIQUE, BrokerLab, run
from tests.support.metrics_load import text_of
from tests.support.wire import sends_compiled

_ON: dict[str, Any] = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}


async def samples(lab: BrokerLab, name: str) -> dict[str, float]:
    """Values by topic, or by the only label that differs."""
    page = await asyncio.to_thread(text_of, lab, f"/metrics?name[]={name}")
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == name:
                labels = {
                    key: value for key, value in sample.labels.items() if key not in ("cluster", "node_id", "node_type")
                }
                found[" ".join(labels.values())] = sample.value
    return found


@pytest.mark.parametrize("compiled", [True, False])
def test_sends_count_the_same_by_compiled_and_by_plain_code(compiled: bool) -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        records = [await lab.sent("orders", bytes(size)) for size in (1, 10, 1100, 5000)]
        assert await samples(lab, "rocketmq_messages_in_total") == {"false normal orders": 4}
        size = sum(record.size for record in records)
        assert await samples(lab, "rocketmq_throughput_in_total") == {"false normal orders": size}
        buckets = await samples(lab, "rocketmq_message_size_bucket")
        assert [buckets[f"false normal orders {bound}"] for bound in ("1024.0", "4096.0", "524288.0")] == [2, 3, 4]
        assert await samples(lab, "rocketmq_message_size_sum") == {"false normal orders": size}
        counts = await samples(lab, "rocketmq_rpc_latency_milliseconds_count")
        assert counts == {"false remoting send_message_v2 success success": 4}
        requests = await samples(lab, "flaremq_requests_total")
        assert requests == ({"compiled": 3, "plain": 1} if compiled else {"compiled": 0, "plain": 4})

    async def main() -> None:
        async with sends_compiled(compiled), BrokerLab(**_ON) as lab:
            await scenario(lab)

    asyncio.run(main())


def test_a_counter_outlives_its_topic_and_goes_on_where_it_was() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        await lab.sent("orders")
        assert (await lab.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})).code == 0
        assert await samples(lab, "rocketmq_messages_in_total") == {"false normal orders": 1}
        lab.topic("orders", 1)
        await lab.sent("orders")
        assert await samples(lab, "rocketmq_messages_in_total") == {"false normal orders": 2}

    run(scenario, **_ON)


def test_pulls_count_for_their_group_but_not_those_of_retries() -> None:
    async def scenario(lab: BrokerLab) -> None:
        for topic in ("orders", "%RETRY%readers"):
            lab.topic(topic, 1)
            await lab.sent(topic)
            assert (await lab.pull(topic)).code == 0
        assert await samples(lab, "rocketmq_messages_out_total") == {"readers false orders": 1}

    run(scenario, **_ON)


def test_a_pull_that_was_held_is_told_apart() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        waiting = asyncio.create_task(lab.pull("orders", sysFlag=6, suspendTimeoutMillis=15_000))
        while lab.broker.handlers._pull.holds.size == 0:
            await asyncio.sleep(0.001)
        await lab.sent("orders")
        assert (await waiting).code == 0
        counts = await samples(lab, "rocketmq_rpc_latency_milliseconds_count")
        assert counts["true remoting pull_message success success"] == 1

    run(scenario, **_ON)


def test_refusals_are_told_by_their_reason() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.broker.options.change({"autoCreateTopicEnable": "false"})
        assert (await lab.send("nowhere")).code == 17
        assert (await lab.ask(9_999)).code == 3
        refused = await samples(lab, "flaremq_refused_requests_total")
        assert refused == {"topic_not_exist": 1, "request_code_not_supported": 1, "connection": 0}

    run(scenario, **_ON)


def test_request_codes_that_nobody_knows_do_not_fill_memory() -> None:
    async def scenario(lab: BrokerLab) -> None:
        for code in range(5_000, 5_100):
            await lab.ask(code)
        counts = await samples(lab, "rocketmq_rpc_latency_milliseconds_count")
        assert len(counts) == 65
        assert counts["false remoting other request_code_not_supported success"] == 36

    run(scenario, **_ON)


def test_what_a_client_calls_itself_is_no_label() -> None:
    async def scenario(lab: BrokerLab) -> None:
        body = HeartbeatData(client_id="c", producer_data_set=(ProducerData(group_name="p"),)).to_json()
        await lab.ask(RequestCode.HEART_BEAT, None, body, language='x"} 1\nevil 2', version=2**31 - 1)
        assert await samples(lab, "rocketmq_producer_connections") == {"other remoting higher_version": 1}

    run(scenario, **_ON)


def test_topics_beyond_the_limit_are_counted_together() -> None:
    async def scenario(lab: BrokerLab) -> None:
        for number in range(6):
            lab.topic(f"topic{number}", 1)
            await lab.sent(f"topic{number}")
        found = await samples(lab, "rocketmq_messages_in_total")
        assert found == {"false normal topic0": 1, "false normal topic1": 1, "false normal topic2": 1, "true": 3}
        page = await asyncio.to_thread(text_of, lab)
        assert 'flaremq_series_cut{cluster="DefaultCluster",metric="rocketmq_messages_in"' in page

    run(scenario, **_ON, metricsOtelCardinalityLimit=4)


@pytest.mark.parametrize("switch", sorted({family.switch for family in CATALOGUE if family.switch}))
def test_a_switch_leaves_its_families_out_and_can_be_set_while_the_broker_runs(switch: str) -> None:
    off = {name for family in CATALOGUE if family.switch == switch for name in family.told_names(family.name)}

    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        await lab.sent("orders")
        with_it = await asyncio.to_thread(text_of, lab)
        lab.broker.options.change({switch: "false"})
        without = await asyncio.to_thread(text_of, lab)

        def names(page: str) -> set[str]:
            units = ("_milliseconds", "_seconds", "_bytes")
            found = (family.name for family in text_string_to_metric_families(page))
            return {name for one in found for name in (one, *(one.removesuffix(unit) for unit in units))}

        assert names(without) & off == set()
        assert (names(with_it) & off != set()) == (
            switch not in ("enableTransactionMetrics", "enableConnectionMetrics", "enableLagAndDlqMetrics")
        )

    run(scenario, **_ON)


def test_the_page_is_open_metrics_for_who_accepts_it() -> None:
    async def scenario(lab: BrokerLab) -> None:
        lab.topic("orders", 1)
        await lab.sent("orders")
        page = await asyncio.to_thread(text_of, lab, "/metrics", "application/openmetrics-text;version=1.0.0")
        assert {family.name for family in open_metrics_families(page)} >= {"rocketmq_messages_in", "flaremq_build_info"}

    run(scenario, **_ON)


def test_nothing_listens_unless_it_was_switched_on() -> None:
    async def scenario(lab: BrokerLab) -> None:
        assert lab.broker.monitor is None

    run(scenario)


def test_options_come_from_broker_conf_under_rocketmqs_names() -> None:
    settings = {"metricsExporterType": "2", "metricsPromExporterPort": "0", "metricsLabel": "env:test"}
    broker = load_options(None, settings)[0]
    assert (broker.metrics.metrics_exporter_type, broker.metrics.metrics_label) == ("2", "env:test")
    assert not any("metrics" in warning for warning in broker.warnings)
    ignored = load_options(None, {"metricsGrpcExporterTarget": "x"})[0]
    assert "metricsGrpcExporterTarget is ignored" in ignored.warnings[0]


def test_other_machines_read_metrics_only_if_that_was_said_with_access_control_too() -> None:
    settings = {"metricsExporterType": "PROM", "metricsPromExporterHost": "0.0.0.0", "aclEnable": "true"}
    with pytest.raises(InvalidArgumentError, match="metricsInsecureBindEnable"):
        BrokerOptions.from_properties(settings)
    BrokerOptions.from_properties({**settings, "metricsInsecureBindEnable": "true"})


def test_every_family_has_its_labels_in_order_and_a_sentence() -> None:
    for family in CATALOGUE:
        assert list(family.labels) == sorted(family.labels), family.name
        assert family.help.endswith("."), family.name
    assert len({family.name for family in CATALOGUE}) == len(CATALOGUE)


def test_timers_that_wait_are_known_by_topic_after_a_restart(tmp_path: Any) -> None:
    async def main() -> None:
        for _ in range(2):
            async with ephemeral_broker(path=str(tmp_path), **_ON) as broker:
                figures = broker.broker.state.timer.figures
                if not figures.waiting:
                    lab = BrokerLab()
                    lab.ephemeral = broker
                    await lab.send("later", properties=f"{UNIQUE}TIMER_DELAY_SEC\x013600\x02")
                    await lab.client.close()
                    await broker.advanced(1_000)
                assert {topic: count.value for topic, count in figures.waiting.items()} == {"later": 1}

    asyncio.run(main())

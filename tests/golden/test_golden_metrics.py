"""The load behind the text of a real 5.5.0 broker, done again against ours: families, types, labels and values.

Beside what differs stands why. Nothing else may differ.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_lab import BrokerLab
from tests.support.metrics_load import MetricsLoad, text_of

FOLDER = Path(__file__).parent / "metrics"
_OPTIONS: dict[str, Any] = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}
Labels = frozenset[tuple[str, str]]

# Of RocketMQ's text, not in ours.
ABSENT_FAMILIES: Final = {
    "target_info": "says nothing but that there is a target",
    # RocketMQ sends the records of POP through its timer, and reads them back from the topic; here each is known.
    "rocketmq_pop_revive_in_message": "written only if it is not settled within ten seconds, which all of this load is",
    "rocketmq_pop_revive_out_message": "what this broker has written it need not read",
}
ABSENT_TOPIC: Final = "rmq_sys_REVIVE_LOG_DefaultCluster"  # as a topic of timers, and as read: see above
# Requests of the real clients that this load has no use for, and clients that poll.
ABSENT_REQUESTS: Final = {
    "change_message_invisibletime",
    "get_consumer_list_by_group",
    "lock_batch_mq",
    "query_assignment",
    "query_consumer_offset",
    "set_message_request_mode",
}
# Here transactions are not read to be checked before they are old enough.
ABSENT_GROUPS: Final = {"CID_RMQ_SYS_TRANS"}
# Ours beside RocketMQ's.
MORE: Final = {"rocketmq_finish_message_latency_seconds": "the same under the right unit"}

# Where the number is determined by what was done. Sizes are not: keys and hosts of the real clients are longer.
DETERMINED: Final = (
    "rocketmq_broker_permission",
    "rocketmq_commit_messages_total",
    "rocketmq_consumer_connections",
    "rocketmq_consumer_group_create_execution_time_milliseconds_count",
    "rocketmq_consumer_group_number",
    "rocketmq_consumer_inflight_messages",
    "rocketmq_consumer_lag_messages",
    "rocketmq_consumer_ready_messages",
    "rocketmq_delay_message_latency_seconds_count",
    "rocketmq_delay_message_latency_seconds_bucket",
    "rocketmq_finish_message_latency_milliseconds_bucket",
    "rocketmq_finish_message_latency_milliseconds_count",
    "rocketmq_half_messages",
    "rocketmq_message_size_bucket",
    "rocketmq_message_size_count",
    "rocketmq_messages_in_total",
    "rocketmq_messages_out_total",
    "rocketmq_pop_checkpoint_buffer_size",
    "rocketmq_pop_offset_buffer_size",
    "rocketmq_pop_revive_retry_messages_total",
    "rocketmq_rollback_messages_total",
    "rocketmq_send_to_dlq_messages_total",
    "rocketmq_timer_dequeue_total",
    "rocketmq_timer_enqueue_total",
    "rocketmq_timer_dequeue_lag",
    "rocketmq_timer_enqueue_lag",
    "rocketmq_timer_message_snapshot",
    "rocketmq_timing_messages",
    "rocketmq_topic_create_execution_time_milliseconds_count",
)


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """Our text after the load, in each fashion of names."""
    found = {}

    async def tell(names: str) -> None:
        async with BrokerLab(metricsNames=names, **_OPTIONS) as lab:
            load = MetricsLoad(lab)
            await load.run()
            found[names] = await asyncio.to_thread(text_of, lab)
            await load.close()

    for names in ("5.5", "5.3", "both"):
        asyncio.run(tell(names))
    return found


def _families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def _is_absent(labels: Labels) -> bool:
    pairs = dict(labels)
    return (
        pairs.get("topic") == ABSENT_TOPIC
        or pairs.get("consumer_group") in ABSENT_GROUPS
        or pairs.get("request_code") in ABSENT_REQUESTS
        # Nobody waited for messages here, or ended a transaction or noted an offset without an answer.
        or pairs.get("is_long_polling") == "true"
        or pairs.get("result") == "oneway"
        or pairs.get("response_code") == "pull_retry_immediately"
    )


def _samples(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset((name, value) for name, value in sample.labels.items() if name != "otel_scope_name")
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_every_family_of_5_5_is_told_with_its_type_and_none_is_invented(told: dict[str, str]) -> None:
    theirs, ours = _families((FOLDER / "rmq55.txt").read_text()), _families(told["5.5"])
    wanted = {name: family.type for name, family in theirs.items() if name not in ABSENT_FAMILIES}
    assert {name: ours[name].type for name in wanted if name in ours} == wanted
    assert {name for name in ours if name.startswith("rocketmq_")} - wanted.keys() == MORE.keys()


def test_families_come_in_alphabetical_order(told: dict[str, str]) -> None:
    names = [line.split()[2].removesuffix("_total") for line in told["5.5"].splitlines() if line.startswith("# TYPE")]
    assert names == sorted(names)


def test_samples_have_the_same_labels_and_values(told: dict[str, str]) -> None:
    theirs, ours = _samples((FOLDER / "rmq55.txt").read_text()), _samples(told["5.5"])
    wrong = []
    for name, series in theirs.items():
        if any(name.startswith(absent) for absent in ABSENT_FAMILIES):
            continue
        mine = ours.get(name, {})
        for labels, value in series.items():
            if _is_absent(labels):
                continue
            if labels not in mine:
                wrong.append(f"{name} {dict(labels)} is missing")
            elif name in DETERMINED and mine[labels] != value:
                wrong.append(f"{name} {dict(labels)} is {mine[labels]}, not {value}")
    assert wrong == []


def test_no_sample_has_labels_that_theirs_have_not(told: dict[str, str]) -> None:
    theirs, ours = _samples((FOLDER / "rmq55.txt").read_text()), _samples(told["5.5"])
    names = {name: {frozenset(pair[0] for pair in labels) for labels in series} for name, series in theirs.items()}
    wrong = {
        f"{name} {sorted(pair[0] for pair in labels)}"
        for name, series in ours.items()
        for labels in series
        if name in names and frozenset(pair[0] for pair in labels) not in names[name]
    }
    assert wrong == set()


def test_labels_stand_in_alphabetical_order_and_numbers_have_a_point(told: dict[str, str]) -> None:
    for line in told["5.5"].splitlines():
        if line.startswith("#"):
            continue
        inside = line[line.index("{") + 1 : line.rindex("}")]
        names = [part.partition("=")[0] for part in inside.split('",') if part.partition("=")[0] != "le"]
        assert names == sorted(names), line
        value = line.rsplit(" ", 1)[1]
        is_count = line.split("{")[0].endswith(("_bucket", "_count"))
        assert value.isdigit() if is_count else "." in value or value in ("+Inf", "NaN"), line


def test_bare_names_are_those_of_5_3s_type_lines_whose_samples_have_units(told: dict[str, str]) -> None:
    """The real 5.3.3 names its samples with units too; only its ``# TYPE`` lines have the bare names."""
    lines = (FOLDER / "rmq53.txt").read_text().splitlines()
    types = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    # A family that was named with its unit already there, and what has no samples in ours at this moment.
    wanted = {name: kind for name, kind in types.items() if kind != "info"}
    bare = {name.removesuffix("_bytes") if "behind" in name else name: kind for name, kind in wanted.items()}
    ours = {
        line.split()[2]: line.split()[3] for line in told["5.3"].splitlines() if line.startswith("# TYPE rocketmq_")
    }
    assert {name: ours.get(name) for name in bare} == bare
    with_unit = {line.split("{")[0] for line in lines if not line.startswith("#")} - {"otel_scope_info", "target_info"}
    assert with_unit <= _samples(told["5.5"]).keys()


def test_both_fashions_of_names_say_the_same(told: dict[str, str]) -> None:
    both = _samples(told["both"])
    assert _samples(told["5.5"]).keys() | _samples(told["5.3"]).keys() == both.keys()
    for name in ("rocketmq_consumer_lag_latency", "rocketmq_rpc_latency_count", "rocketmq_delay_message_latency_sum"):
        unit = "_seconds" if "delay" in name else "_milliseconds"
        head, _, tail = name.rpartition("_") if name.endswith(("_count", "_sum")) else (name, "", "")
        assert both[name] == both[f"{head}{unit}{'_' if tail else ''}{tail}"]

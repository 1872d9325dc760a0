"""The report as a job: against recounts of stores whose content is known, ours and RocketMQ's."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.message.topics import is_system_topic
from flaremq.pipeline.jobs.report.job import report
from flaremq.storage.message_store import MessageStore
from tests.pipeline.conftest import FilledStore
from tests.support.golden import GoldenStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_MS = 1_800_000_000_000


def is_application(topic: str) -> bool:
    return not (is_system_topic(topic) or topic.startswith(("%RETRY%", "%DLQ%")))


@pytest.fixture(scope="module")
def golden_report(spark: SparkSession, golden_55: GoldenStore) -> dict[str, Any]:
    options = {"path": f"gold={golden_55.root}", "maxHashSlotNum": "200", "maxIndexNum": "800"}
    return report(spark, options, top=1000, now_ms=NOW_MS).to_json()


def test_traffic_of_a_golden_store_equals_its_manifest(golden_report: dict[str, Any], golden_55: GoldenStore) -> None:
    messages = Counter(m["topic"] for m in golden_55.messages)
    sizes = Counter[str]()
    for message in golden_55.messages:
        sizes[message["topic"]] += message["size"]
    rows = [*golden_report["traffic"]["topics"], *golden_report["systemTopics"]]
    assert {row["topic"]: row["messages"] for row in rows} == {
        topic: count for topic, count in messages.items() if not topic.startswith(("%RETRY%", "%DLQ%"))
    }
    assert {row["topic"]: row["bytes"] for row in rows} == {row["topic"]: sizes[row["topic"]] for row in rows}
    assert golden_report["summary"]["allMessages"] == len(golden_55.messages)
    by_hour = Counter[str]()
    for hour in golden_report["traffic"]["hours"]["rows"]:
        by_hour.update({topic: cell[0] for topic, cell in hour["topics"].items()})
    assert by_hour == messages


def test_tags_keys_and_duplicates_of_a_golden_store_equal_a_recount(
    golden_report: dict[str, Any], golden_55: GoldenStore
) -> None:
    own = [m for m in golden_55.messages if is_application(m["topic"])]
    tags = Counter((m["topic"], m["tags"]) for m in own if m["tags"])
    keys = Counter((m["topic"], key) for m in own for key in (m["keys"] or "").split(" ") if key)
    assert {(r["topic"], r["tag"]): r["messages"] for r in golden_report["tags"]["top"]} == tags
    assert {(r["topic"], r["key"]): r["messages"] for r in golden_report["keys"]["top"]} == dict(keys.most_common(1000))
    assert golden_report["keys"]["repeatedKeys"] == sum(count > 1 for count in keys.values())
    assert golden_report["keys"]["surplusMessages"] == sum(count - 1 for count in keys.values())


def test_retries_dead_letters_and_delays_of_a_golden_store_equal_a_recount(
    golden_report: dict[str, Any], golden_55: GoldenStore
) -> None:
    for section, prefix in (("retries", "%RETRY%"), ("deadLetters", "%DLQ%")):
        own = [m for m in golden_55.messages if m["topic"].startswith(prefix)]
        found = {
            (row["group"], int(times)): count
            for row in golden_report[section]["groups"]
            for times, count in row["attempts"].items()
        }
        assert found == Counter((m["topic"].removeprefix(prefix), m["reconsumeTimes"]) for m in own)
        assert golden_report[section]["messages"] == len(own)
    delayed = Counter(m["queueId"] + 1 for m in golden_55.messages if m["topic"] == "SCHEDULE_TOPIC_XXXX")
    levels = golden_report["delays"]["levels"]
    assert {row["level"]: row["messages"] for row in levels} == delayed
    assert {row["level"]: row["waiting"] for row in levels if row["waiting"]} == {16: 1, 18: 2}
    timers = [m for m in golden_55.messages if m["topic"] == "rmq_sys_wheel_timer"]
    assert golden_report["delays"]["timers"] == {"messages": len(timers), "waiting": 0}


def test_transactions_of_a_golden_store_have_the_outcomes_they_had(
    golden_report: dict[str, Any], golden_55: GoldenStore
) -> None:
    halves = [m for m in golden_55.messages if m["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"]
    transactions = golden_report["transactions"]
    assert transactions["halfMessages"] == len(halves)
    assert transactions["transactions"] == len({m["properties"]["UNIQ_KEY"] for m in halves})
    assert transactions["committed"] == sum(
        m["sysFlag"] & 12 == 8 for m in golden_55.messages if is_application(m["topic"])
    )
    outcomes = [transactions[name] for name in ("committed", "rolledBack", "givenUp", "pending")]
    assert outcomes == [3, 2, 1, 0] and sum(outcomes) == transactions["transactions"]


def test_latency_and_lag_of_a_golden_store_equal_a_recount(
    golden_report: dict[str, Any], golden_55: GoldenStore
) -> None:
    waits = [max(m["storeTimestamp"] - m["bornTimestamp"], 0) for m in golden_55.messages if is_application(m["topic"])]
    latency = golden_report["latencyMs"]["all"]
    assert (latency["count"], latency["max"]) == (len(waits), max(waits))
    assert latency["p50"] == pytest.approx(sorted(waits)[(len(waits) - 1) // 2], rel=0.01, abs=1)
    assert sum(bar["count"] for bar in golden_report["latencyMs"]["histogram"]) == len(waits)
    offsets = {
        (name.partition("@")[2], name.partition("@")[0]): sum(queues.values())
        for name, queues in _consumer_offsets(golden_55).items()
        if not is_system_topic(name.partition("@")[0])
    }
    ends = Counter[str]()
    for name, queue in golden_55.manifest["queues"].items():
        ends[name.rpartition("@")[0]] += queue["max"]
    rows = {(row["group"], row["topic"]): row for row in golden_report["groups"]["rows"]}
    assert rows.keys() == offsets.keys()
    assert rows["CG_LITE", "GoldB"]["lag"] == ends["GoldB"] - offsets["CG_LITE", "GoldB"]


def _consumer_offsets(golden: GoldenStore) -> dict[str, dict[str, int]]:
    from flaremq.java_json import parse_java_json

    table: dict[str, dict[str, int]] = parse_java_json(golden.manifest["config"]["consumerOffset.json"])["offsetTable"]
    return table


def test_a_report_of_chosen_topics_and_times_counts_those_alone(spark: SparkSession, orders_store: FilledStore) -> None:
    times = sorted(row["storeTimestamp"] for row in orders_store.rows)
    start, end = times[100], times[400]
    given = {"topic": "orders", "startingTimestamp": str(start), "endingTimestamp": str(end)}
    done: list[tuple[str, int, int]] = []
    result = report(
        spark, orders_store.options | given, now_ms=NOW_MS, on_progress=lambda *progress: done.append(progress)
    ).to_json()
    own = [r for r in orders_store.rows if r["topic"] == "orders" and start <= r["storeTimestamp"] < end]
    assert result["summary"]["messages"] == result["summary"]["allMessages"] == len(own)
    queues = Counter(row["queueId"] for row in own)
    assert {row["queueId"]: row["messages"] for row in result["traffic"]["queues"]} == queues
    assert {row["tag"]: row["messages"] for row in result["tags"]["top"]} == Counter(
        r["tags"] for r in own if r["tags"]
    )
    assert [disk["growth"] for disk in result["disk"]] == [None]  # some topics do not tell how the whole grows
    assert done[0][1] == 0 and done[-1][1] == done[-1][2]


def test_the_page_is_written_whole_and_the_result_says_where(
    spark: SparkSession, orders_store: FilledStore, tmp_path: Path
) -> None:
    result = report(spark, orders_store.options, out=tmp_path / "new" / "report.html", title="A <b>title</b>")
    page = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert "A &lt;b&gt;title&lt;/b&gt;" in page and page.endswith("</html>\n")
    assert page == result.to_html()
    assert json.loads(json.dumps(result.to_json()))["out"] == str(tmp_path / "new" / "report.html")
    growth = result.to_json()["disk"][0]["growth"]
    assert growth["logBytes"] == result.to_json()["summary"]["allBytes"] and growth["isExtrapolated"]


def test_an_empty_store_makes_an_empty_report(spark: SparkSession, tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store"):
        pass
    result = report(spark, {"path": str(tmp_path / "store")})
    assert result.to_json()["summary"]["messages"] == 0
    assert "No messages in this range." in result.to_html()


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({}, InvalidArgumentError, "neither path nor nameServer"),
        ({"path": "/nowhere"}, NotFoundError, "/nowhere does not exist"),
        ({"path": ".", "columns": "topic"}, InvalidArgumentError, "takes no columns"),
        ({"path": ".", "topik": "x"}, InvalidArgumentError, "did you mean topic"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    options: dict[str, str], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        report(None, options)  # type: ignore[arg-type]  # never used


def test_an_absent_topic_is_named(spark: SparkSession, orders_store: FilledStore) -> None:
    with pytest.raises(NotFoundError, match="nothing-here"):
        report(spark, orders_store.options | {"topic": "nothing-here"})

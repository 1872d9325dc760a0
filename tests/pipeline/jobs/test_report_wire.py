"""Report and groups over the wire: what was sent through a broker is what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from flaremq.message.message import Message
from flaremq.pipeline.jobs.group_lag import group_lags
from flaremq.pipeline.jobs.report.job import report
from flaremq.pipeline.jobs.sql.job import run_sql
from flaremq.pipeline.model.source import SourceSpec
from flaremq.sync import Admin, Producer
from flaremq.testing import EphemeralBroker, ephemeral_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker() -> Iterator[EphemeralBroker]:
    """30 orders in 4 queues, 3 delayed ones that wait, a group that has consumed two of the first queue."""
    with ephemeral_broker() as started:
        with Admin(started.name_server) as admin, Producer(started.name_server, group="shop") as producer:
            admin.create_topic("orders", read_queues=4, write_queues=4)
            admin.create_group("billing")
            for at in range(30):
                producer.send(Message("orders", b"x", tags="paid" if at % 3 else "new", keys=[f"o-{at % 10}"]))
            for _ in range(3):
                producer.send_delayed(Message("orders", b"later"), level=5)
            queue = admin.queues("orders")[0]
            admin.commit_offset("billing", queue, 2)
        yield started


def test_lag_of_a_group_comes_from_the_brokers(broker: EphemeralBroker) -> None:
    lags = group_lags(SourceSpec(name_server=broker.name_server), [])
    with Admin(broker.name_server) as admin:
        ends = {queue.queue_id: admin.max_offset(queue) for queue in admin.queues("orders")}
    committed = [lag for lag in lags if lag.group == "billing" and lag.committed_offset > 0]
    assert [(lag.topic, lag.committed_offset, lag.lag) for lag in committed] == [
        ("orders", 2, ends[committed[0].queue_id] - 2)
    ]


def test_a_report_over_the_wire_counts_what_was_sent(spark: SparkSession, broker: EphemeralBroker) -> None:
    result = report(spark, {"nameServer": broker.name_server}).to_json()
    assert result["source"]["kind"] == "cluster" and result["disk"] == []
    assert {row["topic"]: row["messages"] for row in result["traffic"]["topics"]} == {"orders": 30}
    assert {row["tag"]: row["messages"] for row in result["tags"]["top"]} == {"paid": 20, "new": 10}
    assert (result["keys"]["repeatedKeys"], result["keys"]["surplusMessages"]) == (10, 20)
    assert result["delays"]["messages"] == 3 and result["delays"]["levels"][0]["level"] == 5
    assert [row["group"] for row in result["groups"]["rows"]] == ["billing"]


def test_sql_over_the_wire_knows_groups_and_messages(spark: SparkSession, broker: EphemeralBroker) -> None:
    options = {"nameServer": broker.name_server, "topic": "orders"}
    query = (
        "SELECT (SELECT count(*) FROM messages) AS n, max(committedOffset) AS c FROM groups WHERE `group` = 'billing'"
    )
    assert [tuple(row) for row in run_sql(spark, query, options).collect()] == [(30, 2)]

"""Documents of reports, made from counted messages without Spark."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa

from flaremq.pipeline.jobs.group_lag import GroupLag
from flaremq.pipeline.jobs.report import sections
from flaremq.pipeline.jobs.report.disk import DAY_MS, FolderUse, StoreDisk, disk_json, forecast
from flaremq.pipeline.jobs.report.notices import notices_of
from flaremq.pipeline.jobs.report.partial import COUNTED_COLUMNS
from flaremq.pipeline.jobs.report.scan import Findings, add_up
from flaremq.pipeline.jobs.report.texts import TextCounter
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.spans import QueueExtent, QueueRef

HOSTILE = (
    "<script>alert(1)</script>",
    '"><svg onload="alert(1)">',
    "']]></style><!--",
    "&amp;&lt;",
    "\u202egnp.exe",
    "nul\x00l\x1b[31m",
    "x" * 5000,
    "https://example.org/",
    "订单",
)
NOW_MS = 1_700_000_400_000


def document_of(findings: Findings, lags: list[GroupLag], disks: list[dict[str, Any]]) -> dict[str, Any]:
    extents = [QueueExtent(QueueRef(*queue), 0, count.messages) for queue, count in findings.counts.queues.items()]
    source = {"kind": "store", "place": "/store", "archive": None, "topic": None, "subscribePattern": None}
    document: dict[str, Any] = {
        "title": "Messages of /store",
        "generatedMs": NOW_MS,
        "source": source | {"tags": [], "brokers": ["a"], "fromMs": None, "untilMs": None, "isWhole": True},
        "summary": sections.summary_of(findings, lags),
        "traffic": sections.traffic_of(findings),
        "sizes": sections.sizes_of(findings.counts),
        "latencyMs": sections.latency_of(findings.counts),
        "tags": sections.tags_of(findings),
        "keys": sections.keys_of(findings),
        "retries": sections.retries_of(findings.counts),
        "deadLetters": sections.dead_letters_of(findings.counts),
        "delays": sections.delays_of(findings, extents, {("a", 3): 1}),
        "transactions": sections.transactions_of(findings),
        "groups": sections.groups_of(lags, extents),
        "disk": disks,
        "systemTopics": sections.system_of(findings),
    }
    return document | {"notices": notices_of(document)}


def empty_document() -> dict[str, Any]:
    return document_of(Findings(), [], [])


def full_document(name: str = "orders") -> dict[str, Any]:
    """A report with something in every section, where topic, tag, key and group are ``name``."""
    topics = [name, name, "users", f"%RETRY%{name}", f"%DLQ%{name}", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"]
    rows = []
    for at in range(700):
        topic = topics[at % len(topics)]
        stored = NOW_MS - 400_000 + at * 500
        row: dict[str, Any] = {"topic": topic, "brokerName": "a", "queueId": 2 if topic.startswith("S") else at % 3}
        row |= {"storeSize": 100 + at * 7 % 3000, "tags": name, "keys": name.replace(" ", "") if at % 2 else f"k{at}"}
        row |= {"sysFlag": 8 if at % 50 == 1 else 0, "reconsumeTimes": at % 4}
        rows.append(row | {"storeTimestamp": stored * 1000, "bornTimestamp": (stored - at % 300 + 1) * 1000})
    schema = schema_of(COUNTED_COLUMNS)
    batch = pa.RecordBatch.from_arrays([pa.array([r[f.name] for r in rows], f.type) for f in schema], schema=schema)
    findings = Findings()
    findings.counts.count(batch)
    counter = TextCounter(1)
    pieces = [piece for _, piece in (*counter.count(batch), *counter.flush())]
    findings.add(pickle.loads(next(add_up(False, pieces, 20))), 20)
    findings.transactions.asked, findings.timers_waiting = 3, 2
    lags = [GroupLag(name, name, "a", at, 5 * at, 100 - at) for at in range(3)]
    folders = (FolderUse("commitlog", 2, 2**30, 2**30), FolderUse("consumequeue", 5, 2**20, 2**20))
    disk = StoreDisk(name, "/store", (*folders, FolderUse("index", 1, 2**20, 2**20)), 2**40, 2**38, NOW_MS - DAY_MS)
    growth = forecast(disk, log_bytes=2**36, span_ms=DAY_MS, reserved_hours=72)
    assert growth is not None
    return document_of(findings, lags, [disk_json(disk) | {"growth": growth.to_json()}])

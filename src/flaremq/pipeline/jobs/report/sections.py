"""From counts to the sections of a report: plain values with the names they have in its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flaremq.message.delay import DEFAULT_DELAY_LEVELS, level_of_queue_id, parse_delay_levels
from flaremq.message.topics import (
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)
from flaremq.pipeline.jobs.group_lag import GroupLag
from flaremq.pipeline.jobs.report.histogram import Histogram
from flaremq.pipeline.jobs.report.partial import Partial, is_application_topic
from flaremq.pipeline.jobs.report.scan import Findings
from flaremq.pipeline.jobs.report.series import HOUR_S, Series
from flaremq.pipeline.jobs.report.texts import TextCount
from flaremq.pipeline.model.spans import QueueExtent, QueueRef

Section = dict[str, Any]
STEP_TOPICS = 5  # topics that the finest steps tell apart; the others are the rest


def summary_of(findings: Findings, lags: Iterable[GroupLag]) -> Section:
    """The headline numbers; of application topics unless they say otherwise."""
    counts = findings.counts
    own = {queue: count for queue, count in counts.queues.items() if is_application_topic(queue[0])}
    own_lags = [lag for lag in lags if not is_system_topic(lag.topic)]
    return {
        "messages": sum(count.messages for count in own.values()),
        "bytes": sum(count.size_bytes for count in own.values()),
        "allMessages": sum(count.messages for count in counts.queues.values()),
        "allBytes": sum(count.size_bytes for count in counts.queues.values()),
        "topics": len({topic for topic, _, _ in own}),
        "queues": len(own),
        "brokers": len({broker for _, broker, _ in counts.queues}),
        "firstMs": min((count.first_ms for count in counts.queues.values()), default=None),
        "lastMs": max((count.last_ms for count in counts.queues.values()), default=None),
        "groups": len({lag.group for lag in own_lags}),
        "lag": sum(lag.lag for lag in own_lags),
    }


def traffic_of(findings: Findings) -> Section:
    """Messages and bytes by topic, queue and time."""
    counts = findings.counts
    topics = _topics(findings, is_application_topic)
    shown = [row["topic"] for row in topics[:STEP_TOPICS]]
    steps = []
    for start, by_topic in sorted(counts.series.cells.items()):
        own = [cell for topic, cell in by_topic.items() if is_application_topic(topic)]
        if own:
            messages, size = (sum(part) for part in zip(*own, strict=True))
            named = {topic: by_topic[topic][0] for topic in shown if topic in by_topic}
            steps.append({"startMs": start * 1000, "messages": messages, "bytes": size, "topics": named})
    peak = max(steps, key=lambda step: step["messages"], default=None)
    return {
        "stepSeconds": counts.series.step_s,
        "steps": steps,
        "peak": None
        if peak is None
        else {"startMs": peak["startMs"], "messagesPerSecond": round(peak["messages"] / counts.series.step_s, 1)},
        "topics": topics,
        "stepTopics": shown,
        "queues": [
            {"topic": topic, "brokerName": broker, "queueId": queue_id, "messages": count.messages}
            | {"bytes": count.size_bytes, "firstMs": count.first_ms, "lastMs": count.last_ms}
            for (topic, broker, queue_id), count in sorted(counts.queues.items())
            if is_application_topic(topic)
        ],
        "hours": hours_of(counts.series),
    }


def hours_of(series: Series) -> Section:
    """Each topic's messages and bytes by hour, by day where the range is too long for hours."""
    hourly = series.at_step(HOUR_S)
    rows = [
        {"startMs": start * 1000, "topics": {topic: list(cell) for topic, cell in sorted(by_topic.items())}}
        for start, by_topic in sorted(hourly.cells.items())
    ]
    return {"stepSeconds": hourly.step_s, "rows": rows}


def sizes_of(counts: Partial) -> Section:
    return _distribution(counts.sizes)


def latency_of(counts: Partial) -> Section:
    """From birth to store. A delayed or transactional message was born when it was sent, so its wait is in it."""
    skewed = sum(count for topic, count in counts.clock_skew.items() if is_application_topic(topic))
    return _distribution(counts.latencies) | {"storedBeforeBorn": skewed}


def tags_of(findings: Findings) -> Section:
    texts = findings.texts
    return {
        "distinct": sum(texts.tags.values()),
        "topics": dict(sorted(texts.tags.items())),
        "top": _texts(texts.top_tags, "tag"),
    }


def keys_of(findings: Findings) -> Section:
    texts = findings.texts
    by_topic = {
        topic: {"keys": totals.keys, "repeatedKeys": totals.repeated, "surplusMessages": totals.surplus}
        for topic, totals in sorted(texts.keys.items())
    }
    return {
        "distinct": sum(totals.keys for totals in texts.keys.values()),
        "repeatedKeys": sum(totals.repeated for totals in texts.keys.values()),
        "surplusMessages": sum(totals.surplus for totals in texts.keys.values()),
        "topics": by_topic,
        "top": _texts(texts.top_keys, "key"),
    }


def retries_of(counts: Partial) -> Section:
    return _of_groups(counts, is_retry_topic, RETRY_PREFIX)


def dead_letters_of(counts: Partial) -> Section:
    return _of_groups(counts, is_dlq_topic, DLQ_PREFIX)


def delays_of(
    findings: Findings,
    extents: Iterable[QueueExtent],
    delivered: Mapping[tuple[str, int], int],
    levels: str | None = None,
) -> Section:
    """Messages by delay level, and how many of them still wait where the store says so."""
    delays = parse_delay_levels(levels or DEFAULT_DELAY_LEVELS)
    queues = {extent.queue: extent for extent in extents if extent.queue.topic == SCHEDULE_TOPIC}
    known = {broker for broker, _ in delivered}  # a level of theirs that is not named has delivered nothing yet
    rows: dict[int, Section] = {}
    for (topic, broker, queue_id), count in sorted(findings.counts.queues.items()):
        if topic == SCHEDULE_TOPIC:
            level = level_of_queue_id(queue_id)
            row = rows.setdefault(
                level, {"level": level, "delayMs": delays.delay_ms(level), "messages": 0, "waiting": None}
            )
            row["messages"] += count.messages
            extent = queues.get(QueueRef(topic, broker, queue_id))
            if extent is not None and broker in known:
                next_offset = max(delivered.get((broker, level), 0), extent.min_offset)
                row["waiting"] = (row["waiting"] or 0) + max(extent.max_offset - next_offset, 0)
    timers = sum(count.messages for queue, count in findings.counts.queues.items() if queue[0] == TIMER_TOPIC)
    return {
        "messages": sum(row["messages"] for row in rows.values()),
        "levels": list(rows.values()),
        "timers": {"messages": timers, "waiting": findings.timers_waiting},
    }


def transactions_of(findings: Findings) -> Section:
    counts = findings.counts
    given_up = sum(count.messages for queue, count in counts.queues.items() if queue[0] == CHECK_MAX_TIME_TOPIC)
    committed = {topic: count for topic, count in sorted(counts.committed.items()) if is_application_topic(topic)}
    outcome = findings.transactions.outcome(committed=sum(committed.values()), given_up=given_up)
    return outcome | {"committedByTopic": committed}


def groups_of(lags: Iterable[GroupLag], extents: Iterable[QueueExtent]) -> Section:
    """Lag by group and topic; ``lost`` are messages that were deleted before the group came to them."""
    starts = {extent.queue: extent.min_offset for extent in extents}
    rows: dict[tuple[str, str], Section] = {}
    for lag in lags:
        if is_system_topic(lag.topic):
            continue
        row = rows.setdefault(
            (lag.group, lag.topic),
            {"group": lag.group, "topic": lag.topic, "queues": 0, "lag": 0, "lagMax": 0, "lost": 0},
        )
        row["queues"] += 1
        row["lag"] += lag.lag
        row["lagMax"] = max(row["lagMax"], lag.lag)
        start = starts.get(QueueRef(lag.topic, lag.broker, lag.queue_id), 0)
        row["lost"] += max(start - lag.committed_offset, 0)
    return {"lag": sum(row["lag"] for row in rows.values()), "rows": [rows[key] for key in sorted(rows)]}


def system_of(findings: Findings) -> list[Section]:
    return _topics(findings, is_system_topic)


def _topics(findings: Findings, wanted: Callable[[str], bool]) -> list[Section]:
    rows: dict[str, Section] = {}
    for (topic, _, _), count in sorted(findings.counts.queues.items()):
        if not wanted(topic):
            continue
        new = {
            "topic": topic,
            "messages": 0,
            "bytes": 0,
            "queues": 0,
            "firstMs": count.first_ms,
            "lastMs": count.last_ms,
        }
        row = rows.setdefault(topic, new)
        row["messages"] += count.messages
        row["bytes"] += count.size_bytes
        row["queues"] += 1
        row["firstMs"] = min(row.get("firstMs", count.first_ms), count.first_ms)
        row["lastMs"] = max(row.get("lastMs", count.last_ms), count.last_ms)
    return sorted(rows.values(), key=lambda row: (-row["messages"], row["topic"]))


def _distribution(table: Mapping[str, Histogram]) -> Section:
    whole = Histogram()
    topics = {}
    for topic, histogram in sorted(table.items()):
        if is_application_topic(topic):
            whole.add(histogram)
            topics[topic] = histogram.summary()
    return {
        "all": whole.summary(),
        "histogram": [{"from": low, "to": high, "count": count} for low, high, count in whole.powers()],
        "topics": topics,
    }


def _of_groups(counts: Partial, wanted: Callable[[str], bool], prefix: str) -> Section:
    rows: dict[str, Section] = {}
    for (topic, _, _), count in sorted(counts.queues.items()):
        if wanted(topic):
            row = rows.setdefault(
                topic, {"group": topic.removeprefix(prefix), "messages": 0, "bytes": 0, "attempts": {}}
            )
            row["messages"] += count.messages
            row["bytes"] += count.size_bytes
    for (topic, times), messages in sorted(counts.consumed_again.items()):
        if topic in rows:
            rows[topic]["attempts"][str(times)] = messages
    ordered = sorted(rows.values(), key=lambda row: (-row["messages"], row["group"]))
    return {"messages": sum(row["messages"] for row in ordered), "groups": ordered}


def _texts(top: Iterable[TextCount], name: str) -> list[Section]:
    return [{"topic": t.topic, name: t.text, "messages": t.count, "bytes": t.size_bytes} for t in top]

"""The report as one page: no script, nothing loaded from anywhere, every text escaped.

The markup is XML as well as HTML (all elements closed, all attributes quoted), so any parser can check it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flaremq.look.charts import Column, column_chart, time_chart
from flaremq.look.format import byte_size, compact, duration, escaped, moment, number, percent
from flaremq.pipeline.jobs.report.page_tables import (
    delays_section,
    disk_section,
    groups_section,
    keys_section,
    queue_table,
    retries_section,
    step_table,
    system_section,
    tags_section,
    topic_table,
    transactions_section,
)
from flaremq.pipeline.jobs.report.style import STYLE, style_policy
from flaremq.pipeline.jobs.report.tables import Name, folded, row_table, section

_SECTIONS = (
    ("traffic", "Traffic"),
    ("sizes", "Sizes"),
    ("latency", "Latency"),
    ("tags", "Tags"),
    ("keys", "Keys"),
    ("groups", "Consumer lag"),
    ("retries", "Retries"),
    ("delays", "Delays"),
    ("transactions", "Transactions"),
    ("disk", "Disk"),
    ("system", "System topics"),
)
_SIZES = "Size of a stored record: header, properties and body."
_LATENCY = (
    "From the producer's clock to the broker's. Delayed and transactional messages count from when they were sent, so "
    "their wait is part of it. Percentiles are exact to 1%."
)
_PERCENTILES = (("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max"))


def render_page(document: Mapping[str, Any]) -> str:
    """The page of a report's document."""
    policy = f"default-src 'none'; style-src {style_policy()}; base-uri 'none'; form-action 'none'"
    title = escaped(document["title"])
    links = "".join(f'<a href="#{anchor}">{escaped(name)}</a>' for anchor, name in _SECTIONS)
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}"/>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
        '<meta name="referrer" content="no-referrer"/>',
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
        f'<header><h1>{title}</h1><p class="soft where">{escaped(_where(document))}</p><nav>{links}</nav></header>',
        _notices(document),
        _numbers(document),
        _traffic(document["traffic"]),
        _distribution("sizes", "Sizes", _SIZES, document["sizes"], byte_size),
        _distribution("latency", "Latency, born → stored", _LATENCY, document["latencyMs"], duration),
        tags_section(document["tags"]),
        keys_section(document["keys"]),
        groups_section(document["groups"]),
        retries_section(document["retries"], document["deadLetters"]),
        delays_section(document["delays"]),
        transactions_section(document["transactions"]),
        disk_section(document["disk"], document["source"]),
        system_section(document["systemTopics"]),
        f"<footer>Made by flaremq at {escaped(moment(document['generatedMs']))} UTC. Bodies were not read.</footer>",
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _where(document: Mapping[str, Any]) -> str:
    source, summary = document["source"], document["summary"]
    kinds = {"store": "Store", "cluster": "Cluster behind", "archive": "Archive"}
    parts = [f"{kinds[source['kind']]} {source['place']}"]
    if source["archive"] and source["kind"] != "archive":
        parts.append(f"with archive {source['archive']}")
    if source["topic"] or source["subscribePattern"]:
        parts.append(f"topics {source['topic'] or source['subscribePattern']}")
    if source["tags"]:
        parts.append(f"tags {' || '.join(source['tags'])}")
    if summary["firstMs"] is not None:
        parts.append(f"{moment(summary['firstMs'])} to {moment(summary['lastMs'])} UTC")
    return " · ".join(parts)


def _notices(document: Mapping[str, Any]) -> str:
    items = "".join(
        f'<li class="{escaped(notice["severity"])}"><b>{escaped(notice["severity"])}</b>{escaped(notice["text"])}</li>'
        for notice in document["notices"]
    )
    return f'<ul class="notices">{items}</ul>' if items else ""


def _numbers(document: Mapping[str, Any]) -> str:
    summary, peak = document["summary"], document["traffic"]["peak"]
    cards = [
        (number(summary["messages"]), "messages"),
        (byte_size(summary["bytes"]), "stored records"),
        (f"{number(summary['topics'])} / {number(summary['queues'])}", "topics / queues"),
        (f"{compact(peak['messagesPerSecond'])}/s" if peak else "–", "peak rate"),
        (duration(document["latencyMs"]["all"]["p99"]) if summary["messages"] else "–", "born → stored, p99"),
        (number(summary["lag"]), f"lag of {number(summary['groups'])} group{'' if summary['groups'] == 1 else 's'}"),
        (number(document["deadLetters"]["messages"]), "dead letters"),
        (duration(summary["lastMs"] - summary["firstMs"]) if summary["firstMs"] is not None else "–", "time covered"),
    ]
    inner = "".join(f"<div><b>{escaped(value)}</b><span>{escaped(name)}</span></div>" for value, name in cards)
    return f'<div class="numbers">{inner}</div>'


def _traffic(traffic: Mapping[str, Any]) -> str:
    topics, steps = traffic["topics"], traffic["steps"]
    chart = ""
    if steps:
        shown = list(traffic["stepTopics"])
        has_rest = len(topics) > len(shown)
        rows = []
        for step in steps:
            parts = [step["topics"].get(topic, 0) for topic in shown]
            rows.append((step["startMs"], (*parts, step["messages"] - sum(parts)) if has_rest else tuple(parts)))
        names = [*shown, "other topics"] if has_rest else shown
        chart = time_chart(rows, step_s=traffic["stepSeconds"], names=names, what="messages")
    return section(
        "traffic",
        "Traffic",
        "Messages of application topics; retries, dead letters and system topics have their own sections.",
        chart,
        topic_table(topics, with_bar=True),
        folded("By queue", queue_table(traffic["queues"])),
        folded("By hour" if traffic["hours"]["stepSeconds"] == 3600 else "By day", _hours(traffic)),
        none="No messages in this range.",
    )


def _hours(traffic: Mapping[str, Any]) -> str:
    own = {row["topic"] for row in traffic["topics"]}
    rows = []
    for hour in traffic["hours"]["rows"]:
        cells = [cell for topic, cell in hour["topics"].items() if topic in own]
        if cells:
            messages, size = (sum(part) for part in zip(*cells, strict=True))
            rows.append({"startMs": hour["startMs"], "messages": messages, "bytes": size, "topics": len(cells)})
    return step_table(rows)


def _distribution(anchor: str, title: str, about: str, data: Mapping[str, Any], shown: Any) -> str:
    if not data["all"]["count"]:
        return section(anchor, title, about, none="No messages in this range.")
    total = data["all"]["count"]
    columns = [
        Column(
            shown(bar["from"]),
            (bar["count"],),
            f"{shown(bar['from'])} to {shown(bar['to'])}: "
            f"{number(bar['count'])} messages, {percent(bar['count'] / total)}",
        )
        for bar in data["histogram"]
    ]
    chart = column_chart(
        columns, names=("messages",), caption="Messages by powers of two; each bar from the value below it"
    )
    by_count = sorted(data["topics"].items(), key=lambda item: (-item[1]["count"], item[0]))
    body = row_table(
        (
            ("topic", "topic", Name),
            ("messages", "count", number),
            ("mean", "mean", shown),
            *((label, key, shown) for key, label in _PERCENTILES),
        ),
        [row | {"topic": topic} for topic, row in (("all topics", data["all"]), *by_count)],
        unit="topics",
    )
    return section(anchor, title, about, chart, body)

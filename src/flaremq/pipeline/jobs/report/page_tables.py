"""Sections of the report page that are mostly tables: from tags to system topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flaremq.look.charts import gauge
from flaremq.look.format import byte_size, duration, escaped, moment, number
from flaremq.pipeline.jobs.report.disk import MARKS
from flaremq.pipeline.jobs.report.tables import Name, Share, folded, headline, row_table, section, table

_TRAFFIC = (("", "messages", Share), ("messages", "messages", number), ("bytes", "bytes", byte_size))


def tags_section(tags: Mapping[str, Any]) -> str:
    body = row_table((("tag", "tag", Name), ("topic", "topic", Name), *_TRAFFIC), tags["top"])
    about = f"The most frequent of {number(tags['distinct'])} tags, counted exactly."
    return section("tags", "Tags", about, body, none="No message has a tag.")


def keys_section(keys: Mapping[str, Any]) -> str:
    top = row_table(
        (("key", "key", Name), ("topic", "topic", Name), *_TRAFFIC),
        [row for row in keys["top"] if row["messages"] > 1],
    )
    by_topic = row_table(
        (
            ("topic", "topic", Name),
            ("keys", "keys", number),
            ("repeated keys", "repeatedKeys", number),
            ("messages beyond the first", "surplusMessages", number),
        ),
        [row | {"topic": topic} for topic, row in keys["topics"].items()],
        unit="topics",
    )
    about = (
        f"{number(keys['distinct'])} different keys; {number(keys['repeatedKeys'])} of them occur more than once in "
        f"their topic ({number(keys['surplusMessages'])} messages beyond the first). Repetition may be meant, or be a "
        "producer that sent twice."
    )
    content = (headline("Most frequent") + top if top else "") + (headline("By topic") + by_topic if by_topic else "")
    return section("keys", "Keys and duplicates", about, content, none="No message has a key.")


def groups_section(groups: Mapping[str, Any]) -> str:
    body = row_table(
        (
            ("group", "group", Name),
            ("topic", "topic", Name),
            ("", "lag", Share),
            ("lag", "lag", number),
            ("largest of a queue", "lagMax", number),
            ("queues", "queues", number),
            ("deleted unread", "lost", number),
        ),
        sorted(groups["rows"], key=lambda row: (-row["lag"], row["group"], row["topic"])),
        unit="groups",
    )
    about = "Messages between what a group has committed and the end of its queues."
    return section("groups", "Consumer lag", about, body, none="No consumer group has committed anything here.")


def retries_section(retries: Mapping[str, Any], dead: Mapping[str, Any]) -> str:
    content = []
    for title, data in (("Retries", retries), ("Dead letters", dead)):
        body = row_table(
            (("group", "group", Name), *_TRAFFIC, ("by consumptions so far", "attempts", _attempts)),
            data["groups"],
            unit="groups",
        )
        content.append(headline(title) + body if body else "")
    about = (
        "Messages that consumers sent back (%RETRY% topics), and those given up after the last attempt (%DLQ% topics)."
    )
    return section("retries", "Retries and dead letters", about, *content, none="Nothing was retried or given up.")


def delays_section(delays: Mapping[str, Any]) -> str:
    body = row_table(
        (
            ("level", "level", str),
            ("delay", "delayMs", duration),
            ("", "messages", Share),
            ("messages", "messages", number),
            ("still waiting", "waiting", number),
        ),
        delays["levels"],
    )
    timers = delays["timers"]
    if timers["messages"]:
        columns = (("messages", "messages", number), ("not due yet", "waiting", number))
        body += headline("Timers") + row_table(columns, [timers])
    about = "Messages that waited in the schedule topic, by delay level; consumers' retries wait there too."
    return section("delays", "Delays", about, body, none="No message was delayed.")


def transactions_section(data: Mapping[str, Any]) -> str:
    body = ""
    if data["halfMessages"] or data["committed"]:
        names = {"committed": "committed", "rolledBack": "rolled back", "pending": "pending", "givenUp": "given up"}
        body = row_table(
            (("outcome", "name", Name), ("", "count", Share), ("transactions", "count", number)),
            [{"name": name, "count": data[key]} for key, name in names.items()],
        )
        body += f'<p class="more">{number(data["checks"])} times a producer was asked for the outcome.</p>'
        halves = [(Name(topic), number(count)) for topic, count in data["topics"].items()]
        body += folded("By topic", table(("topic", "half messages"), halves))
    about = "Half messages against the records that end them."
    return section("transactions", "Transactions", about, body, none="No transactional messages.")


def disk_section(stores: list[dict[str, Any]], source: Mapping[str, Any]) -> str:
    content = []
    for store in stores:
        total = store["diskTotalBytes"] or 1
        own = sum(folder["allocatedBytes"] for folder in store["folders"])
        other = max(total - store["diskFreeBytes"] - own, 0)
        marks = ", ".join(f"{mark:.0%}" for mark, _ in MARKS)
        caption = (
            f"{store['brokerName']}: {byte_size(own)} of {byte_size(total)} by this store, {byte_size(other)} by "
            f"others, {byte_size(store['diskFreeBytes'])} free; marks at {marks}"
        )
        content.append(gauge(((own / total, 0), (other / total, 5)), [mark for mark, _ in MARKS], caption))
        columns = (
            ("part", "name", Name),
            ("files", "files", number),
            ("size", "bytes", byte_size),
            ("on disk", "allocatedBytes", byte_size),
        )
        content.append(row_table(columns, store["folders"]))
        content.append(_growth(store["growth"]))
    none = "A disk is known for stores read from this machine only."
    if source["kind"] == "store":
        none = "Nothing is known of the disk."
    about = "Room and growth. Growth is what was stored, over the time it was stored in, with queues and index on top."
    return section("disk", "Disk and capacity", about, *content, none=none)


def _growth(growth: Mapping[str, Any] | None) -> str:
    if growth is None:
        return '<p class="more">Growth needs all topics and messages of more than one moment.</p>'
    rows = []
    meanings = {f"{mark:.0%}": meaning for mark, meaning in MARKS} | {"100%": "the disk is full"}
    for mark, days in growth["daysUntil"].items():
        rows.append((Name(f"{mark}: {meanings[mark]}"), "never" if days is None else f"{days:,.1f}"))
    hours = growth["fileReservedTimeHours"]
    text = (
        f"{byte_size(growth['bytesPerDay'])} a day, measured over {duration(growth['spanMs'])}. With files kept "
        f"for {hours} hours the store comes to {byte_size(growth['steadyBytes'])}."
    )
    if growth["isExtrapolated"]:
        text += " That is less than an hour: the figures are an extrapolation."
    return headline("Growth") + f"<p>{escaped(text)}</p>" + table(("disk is used by", "in days"), rows)


def system_section(topics: list[dict[str, Any]]) -> str:
    body = topic_table(topics)
    about = "What brokers keep for themselves: schedules, half messages, traces, POP state."
    return section("system", "System topics", about, body, none="No system topic holds messages.")


def topic_table(topics: list[dict[str, Any]], *, with_bar: bool = False) -> str:
    return row_table(
        (
            ("topic", "topic", Name),
            *(_TRAFFIC if with_bar else _TRAFFIC[1:]),
            ("queues", "queues", number),
            ("first (UTC)", "firstMs", moment),
            ("last (UTC)", "lastMs", moment),
        ),
        topics,
        unit="topics",
    )


def queue_table(queues: list[dict[str, Any]]) -> str:
    columns = (("topic", "topic", Name), ("broker", "brokerName", Name), ("queue", "queueId", str), *_TRAFFIC)
    return row_table(columns, sorted(queues, key=lambda row: -row["messages"]), unit="queues")


def step_table(steps: list[dict[str, Any]]) -> str:
    columns = (("from (UTC)", "startMs", lambda at: moment(at, seconds=False)), *_TRAFFIC, ("topics", "topics", number))
    return row_table(columns, steps, rows_max=168, unit="steps")


def _attempts(by_times: Mapping[str, int]) -> str:
    return ", ".join(f"{times}: {number(count)}" for times, count in list(by_times.items())[:8])

"""What a reader of a report should look at first: a few rules over its sections, worst first."""

from __future__ import annotations

from typing import Any

_SEVERITIES = ("critical", "warning", "note")
_LOG_FILES_MANY = 100


def notices_of(document: dict[str, Any]) -> list[dict[str, str]]:
    """Sentences with a severity, for the top of the page."""
    found: list[tuple[str, str]] = []
    for store in document["disk"]:
        found += _of_disk(store, document["generatedMs"])
    for row in document["groups"]["rows"]:
        where = f"group {row['group']} in topic {row['topic']}"
        if row["lost"]:
            found.append(("critical", f"{where}: {_many(row['lost'], 'message')} deleted before being consumed"))
    dead = document["deadLetters"]["messages"]
    if dead:
        found.append(("warning", f"{_many(dead, 'message')} in dead-letter topics"))
    transactions = document["transactions"]
    if transactions["pending"]:
        found.append(("warning", f"{_many(transactions['pending'], 'transaction')} without an outcome yet"))
    if transactions["givenUp"]:
        found.append(("warning", f"{_many(transactions['givenUp'], 'transaction')} given up: nobody told the outcome"))
    surplus = document["keys"]["surplusMessages"]
    if surplus:
        keys = document["keys"]["repeatedKeys"]
        found.append(
            (
                "note",
                f"{_many(keys, 'key')} more than once in the same topic, {_many(surplus, 'message')} beyond the first",
            )
        )
    skewed = document["latencyMs"]["storedBeforeBorn"]
    if skewed:
        found.append(("note", f"{_many(skewed, 'message')} stored before being born: clocks of producers run ahead"))
    found.sort(key=lambda notice: _SEVERITIES.index(notice[0]))
    return [{"severity": severity, "text": text} for severity, text in found]


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _of_disk(store: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    used, name = store["diskUsedRatio"], store["brokerName"]
    if used > 0.90:
        found.append(("critical", f"{name}: the disk is {used:.0%} full; brokers refuse writes above 90%"))
    elif used > 0.85:
        found.append(("critical", f"{name}: the disk is {used:.0%} full; files are deleted regardless of their age"))
    elif used > 0.70:
        found.append(("warning", f"{name}: the disk is {used:.0%} full; above 75% files are deleted early"))
    growth = store["growth"]
    if growth is not None:
        days = growth["daysUntil"]["90%"]
        if days is not None and not growth["isExtrapolated"] and days < 14:
            found.append(("warning", f"{name}: at this rate writes are refused in {days:.1f} days"))
        oldest, hours = store["oldestLogFileMs"], growth["fileReservedTimeHours"]
        if oldest is not None and now_ms - oldest > (hours + 24) * 3_600_000:
            age = (now_ms - oldest) // 3_600_000
            found.append(("note", f"{name}: the oldest log file is {age:,} hours old, kept are {hours}"))
    log_files = next((folder["files"] for folder in store["folders"] if folder["name"] == "commitlog"), 0)
    if log_files > _LOG_FILES_MANY:
        found.append(("note", f"{name}: the log has {_many(log_files, 'file')}"))
    return found

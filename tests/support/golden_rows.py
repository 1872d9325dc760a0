"""What Java read of a golden store, as rows of the table that the pipeline makes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flaremq.message.topics import is_system_topic
from tests.support.golden import GoldenStore


def golden_rows(golden: GoldenStore, *, broker: str) -> list[dict[str, Any]]:
    """The messages that lie in queues of topics that are not RocketMQ's own, in the order of the log; a body as the
    SHA-256 of what was sent."""
    queues: dict[str, Any] = golden.manifest["queues"]
    held = {name: (queue["min"], queue["max"]) for name, queue in queues.items()}
    rows = []
    for message in sorted(golden.messages, key=lambda message: message["physicalOffset"]):
        low, high = held.get(f"{message['topic']}@{message['queueId']}", (0, 0))
        if not is_system_topic(message["topic"]) and low <= message["queueOffset"] < high:
            rows.append(_row(message, broker))
    return rows


def _row(message: dict[str, Any], broker: str) -> dict[str, Any]:
    properties = message["properties"]
    return {
        "topic": message["topic"],
        "brokerName": broker,
        "queueId": message["queueId"],
        "queueOffset": message["queueOffset"],
        "physicalOffset": message["physicalOffset"],
        "storeSize": message["size"],
        "msgId": message["msgId"],
        "tags": message.get("tags"),
        "keys": message.get("keys"),
        "body": message.get("inflatedSha256", message["bodySha256"]),
        "properties": properties,
        "flag": message["flag"],
        "sysFlag": message["sysFlag"],
        "bornTimestamp": _time(message["bornTimestamp"]),
        "bornHost": message["bornHost"],
        "storeTimestamp": _time(message["storeTimestamp"]),
        "storeHost": message["storeHost"],
        "reconsumeTimes": message["reconsumeTimes"],
        "transactionId": properties.get("__transactionId__"),
    }


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)

"""What waits: delay levels, timed messages, half messages of transactions.

Counts come from what brokers tell about themselves; what waits is read from the topics it waits in, the newest so many.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Final

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.broker_state import BrokerState
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.reasons import reason_of
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.messages import message_row, number_property
from flaremq.dashboard.views.page import Missing, Page, page, why
from flaremq.digits import whole_number
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError
from flaremq.message import properties as names
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from flaremq.message.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from flaremq.protocol.bodies.queue import MessageQueue

_TIMERS_READ: Final = 256
_HALVES_READ: Final = 128
_OPERATIONS_READ: Final = 256
_LEVELS_MAX: Final = 64
_OFFSET_KEY: Final = "scheduleMessageOffset_"
_OUT, _DELIVER, _DELETE = "TIMER_OUT_MS", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY"
Row = dict[str, Any]


async def waiting_page(state: ClusterState, reader: ClusterReader, now_ms: int) -> Page:
    missing: Missing = {}
    masters = [broker for broker in state.masters if broker.is_up]
    levels, timers, halves = await asyncio.gather(
        _levels(reader, masters, now_ms),
        _timers(state, reader, masters, now_ms, missing),
        _halves(state, reader, masters, now_ms, missing),
    )
    return page(state, now_ms, missing=missing) | {"levels": levels, "timers": timers, "halves": halves}


# Delay levels


async def _levels(reader: ClusterReader, masters: list[BrokerState], now_ms: int) -> list[Row]:
    rows: list[Row] = []
    for broker in masters:
        delays = _delays(broker)
        for key, value in broker.told.items():
            level, places = whole_number(key.removeprefix(_OFFSET_KEY)), [*map(whole_number, value.split(","))]
            if not key.startswith(_OFFSET_KEY) or level is None or len(rows) >= _LEVELS_MAX:
                continue
            if len(places) == 2 and places[0] is not None and places[1] is not None:
                rows.append(_level(broker, level, places[0], places[1], delays))
    due = await asyncio.gather(*(_due(reader, row) for row in rows))
    for row, due_ms in zip(rows, due, strict=True):
        row["next_due_ms"] = due_ms
        row["late_ms"] = None if due_ms is None else max(0, now_ms - due_ms)
        del row["_address"]
    return sorted(rows, key=lambda row: (row["broker"], row["level"]))


def _delays(broker: BrokerState) -> tuple[int, ...]:
    try:
        return parse_delay_levels((broker.config or {}).get("messageDelayLevel", DEFAULT_DELAY_LEVELS)).delays_ms
    except InvalidArgumentError:
        return ()


def _level(broker: BrokerState, level: int, at: int, end: int, delays: tuple[int, ...]) -> Row:
    return {
        "id": f"{broker.name}/{level}",
        "broker": broker.name,
        "level": level,
        "delay_ms": delays[level - 1] if 0 < level <= len(delays) else None,
        "waiting": max(0, end - at),
        "delivered_offset": at,
        "max_offset": end,
        "_address": broker.address,
    }


async def _due(reader: ClusterReader, row: Row) -> int | None:
    """The unit of the next message carries the time it is due."""
    if not row["waiting"]:
        return None
    try:
        found = await reader.units_at(
            row["_address"], SCHEDULE_TOPIC, row["level"] - 1, index=row["delivered_offset"], count=1
        )
    except FlareMQError:
        return None
    return found.queue_data[0].tags_code if found.queue_data else None


# Timed messages


async def _timers(
    state: ClusterState, reader: ClusterReader, masters: list[BrokerState], now_ms: int, missing: Missing
) -> Row:
    counts = [count for broker in masters if (count := broker.whole("timerCongestNum")) is not None]
    behind = [count for broker in masters if (count := broker.whole("timerReadBehind")) is not None]
    found: Row = {
        "supported": TIMER_TOPIC in state.topics if state.tables_ms else None,
        "waiting": sum(counts) if counts else None,
        "behind_ms": max(behind) * 1000 if behind else None,
        "items": [],
        "scanned": 0,
        "complete": True,
    }
    items: dict[str, Row] = {}
    taken_back: set[str] = set()
    for broker in masters:
        queue = MessageQueue(topic=TIMER_TOPIC, broker_name=broker.name, queue_id=0)
        try:
            messages, is_complete = await _newest(reader, queue, _TIMERS_READ)
        except NotFoundError:
            continue
        except FlareMQError as error:
            missing["timers"] = why(reason_of(error))
            continue
        found["scanned"] += len(messages)
        found["complete"] = found["complete"] and is_complete
        for message in messages:
            if (key := message.properties.get(_DELETE)) is not None:
                taken_back.add(key)
            elif (row := _timer(message, broker.name, now_ms)) is not None:
                items[f"{row['topic']}+{row['message_id']}"] = row  # one that waits on is written again
    rows = [row for key, row in items.items() if key not in taken_back]
    found["items"] = sorted(rows, key=lambda row: (row["due_ms"], row["id"]))
    return found


def _timer(message: ReceivedMessage, broker: str, now_ms: int) -> Row | None:
    out = number_property(message, _OUT)
    due = number_property(message, _DELIVER) or out
    topic = message.properties.get(names.REAL_TOPIC)
    if due is None or due <= now_ms or topic is None:
        return None
    row = message_row(message)
    return {
        "id": message.offset_message_id,
        "message_id": message.message_id,
        "topic": topic,
        "broker": broker,
        "due_ms": due,
        "stored_ms": message.store_timestamp,
        "keys": message.keys,
        "tags": message.tags,
        "preview": row["preview"],
        "recall": _handle(topic, broker, out, message.uniq_key),
    }


def _handle(topic: str, broker: str, out: int | None, key: str | None) -> str | None:
    """What its sender got to take it back with."""
    if out is None or not key:
        return None
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {out + 1} {key}".encode()).decode()


# Half messages


async def _halves(
    state: ClusterState, reader: ClusterReader, masters: list[BrokerState], now_ms: int, missing: Missing
) -> Row:
    found: Row = {"waiting": 0, "items": [], "scanned": 0, "complete": True}
    for broker in masters:
        queue = MessageQueue(topic=HALF_TOPIC, broker_name=broker.name, queue_id=0)
        try:
            messages, is_complete = await _newest(reader, queue, _HALVES_READ)
            ended = await _ended(reader, broker.name) if messages else set()
        except NotFoundError:
            continue
        except FlareMQError as error:
            missing["halves"] = why(reason_of(error))
            found["waiting"] = None
            continue
        found["scanned"] += len(messages)
        found["complete"] = found["complete"] and is_complete
        # What was asked about is stored again, here or among those given up: only the last copy counts.
        copies = [message for message in messages if message.queue_offset not in ended]
        copies += await _given_up(reader, broker.name)
        last = {copy.message_id: copy for copy in sorted(copies, key=lambda copy: copy.physical_offset)}
        found["items"] += [_half(message, broker.name, now_ms) for message in last.values()]
    if not found["complete"]:
        found["waiting"] = None
    elif found["waiting"] is not None:
        found["waiting"] = sum(not row["given_up"] for row in found["items"])
    found["items"].sort(key=lambda row: (row["stored_ms"], row["id"]))
    return found


async def _given_up(reader: ClusterReader, broker: str) -> list[ReceivedMessage]:
    """Half messages that nobody is asked about any more; an administrator may have it begin again."""
    queue = MessageQueue(topic=CHECK_MAX_TIME_TOPIC, broker_name=broker, queue_id=0)
    try:
        return (await _newest(reader, queue, _HALVES_READ))[0]
    except FlareMQError:  # most brokers never had one, and no topic for it
        return []


async def _ended(reader: ClusterReader, broker: str) -> set[int]:
    """Offsets of half messages whose outcome is known."""
    queue = MessageQueue(topic=OP_HALF_TOPIC, broker_name=broker, queue_id=0)
    try:
        operations, _ = await _newest(reader, queue, _OPERATIONS_READ)
    except NotFoundError:
        return set()
    return {
        offset
        for message in operations
        for text in message.body.split(b",")
        if (offset := whole_number(text)) is not None
    }


def _half(message: ReceivedMessage, broker: str, now_ms: int) -> Row:
    return {
        "id": message.offset_message_id,
        "message_id": message.message_id,
        "topic": message.properties.get(names.REAL_TOPIC),
        "broker": broker,
        "stored_ms": message.store_timestamp,
        "age_ms": max(0, now_ms - message.store_timestamp),
        "checks": number_property(message, names.TRANSACTION_CHECK_TIMES) or 0,
        "group": message.properties.get(names.PRODUCER_GROUP),
        "queue_offset": message.queue_offset,
        "given_up": message.topic == CHECK_MAX_TIME_TOPIC,
    }


async def _newest(reader: ClusterReader, queue: MessageQueue, count: int) -> tuple[list[ReceivedMessage], bool]:
    """The last messages of a queue, and whether these are all."""
    messages = await reader.newest(queue, count)
    return messages, len(messages) < count

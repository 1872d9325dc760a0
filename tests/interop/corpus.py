"""The messages our side writes. Each is made from its number, so any process knows what another one wrote.

Every kind the format has is in it: tags, several keys, Unicode, user properties, flags, reconsume counts,
batches, delay levels, half and committed messages, IPv6 producers, bodies compressed in all four ways, bodies
of one byte and of many kilobytes, and, if asked for, retry topics too long for the old record version. Delays
are of an hour and more: a broker's store that starts on such a store must not deliver them while a test
looks.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from flaremq.message.compression import compress
from flaremq.message.message import Message
from flaremq.message.sys_flag import CompressionType
from flaremq.storage.message_store import MessageStore
from flaremq.storage.status import PutMessageStatus

TOPICS = ("InteropA", "InteropB")
LONG_TOPIC = "%RETRY%" + "interop-group-" * 10 + "_InteropA"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TAGS = ("TagA", "TagB", "订单")
LEVELS = (17, 18)
BORN_MS = 1_700_000_000_000

COMPRESSED = 0x1
PREPARED = 0x4
COMMITTED = 0x8
BORN_HOST_V6 = 0x10


@dataclass(frozen=True, slots=True)
class Item:
    """What is put under one number: one message, or a batch."""

    messages: tuple[Message, ...]
    queue_id: int
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def is_batch(self) -> bool:
        return len(self.messages) > 1


@dataclass(frozen=True, slots=True)
class Ack:
    """What the store acknowledged for one number."""

    number: int
    queue_offset: int
    store_timestamp: int
    message_ids: tuple[str, ...]

    @property
    def physical_offsets(self) -> list[int]:
        """An offset id ends with the physical offset, as 16 hex digits."""
        return [int(message_id[-16:], 16) for message_id in self.message_ids]


def item(number: int, *, long_topics: bool = False) -> Item:
    if number % 13 == 12:
        count = 2 + number % 4
        batch = (
            Message("InteropA", _body(number + i, 40), tags="TagC", keys=f"batch-{number}-{i}") for i in range(count)
        )
        return Item(tuple(batch), number % 4)
    topic = TOPICS[number % 3 == 2]
    arguments: dict[str, Any] = {
        "born_timestamp": BORN_MS + number,
        "born_host": "[fd00::2]:40000" if number % 17 == 5 else "192.168.7.9:40000",
        "reconsume_times": number % 5,
    }
    body = _body(number, 7000 if number % 29 == 7 else 1 + number * 37 % 300)
    sys_flag = 0
    delay_level = 0
    if number % 23 == 11:
        kind = list(CompressionType)[number // 23 % len(CompressionType)]
        body = compress(_body(number, 5000), kind)
        sys_flag = COMPRESSED | int(kind) << 8
    if number % 31 == 19:
        sys_flag |= PREPARED
    elif number % 31 == 20:
        sys_flag |= COMMITTED
        arguments["prepared_transaction_offset"] = number
    elif number % 19 == 9:
        delay_level = LEVELS[number % 2]
    elif long_topics and number % 11 == 3:
        topic = LONG_TOPIC
    message = Message(
        topic,
        body,
        tags=TAGS[number % 3] if number % 4 else None,
        keys=_keys(number),
        properties={"UNIQ_KEY": f"{number:032X}", "note": f"\U0001f600 value={number}", "a-1": "x y"},
        flag=number - 5,
        delay_level=delay_level,
        wait_store_msg_ok=number % 7 != 6,
    )
    return Item((message,), number % (2 if topic == "InteropB" else 4), {**arguments, "sys_flag": sys_flag})


def put(store: MessageStore, number: int, *, long_topics: bool = False) -> Ack:
    """Put the item of this number; anything but success is an error of the test."""
    what = item(number, long_topics=long_topics)
    if what.is_batch:
        result = store.put_batch(list(what.messages), what.queue_id)
        message_ids = tuple(result.message_ids)
    else:
        result = store.put(what.messages[0], what.queue_id, **what.arguments)
        message_ids = (result.message_id,)
    assert result.status is PutMessageStatus.PUT_OK, (number, result)
    return Ack(number, result.queue_offset, result.store_timestamp, message_ids)


def expected(ack: Ack, *, long_topics: bool = False) -> list[dict[str, Any]]:
    """The fields of the acknowledged records, as far as the writer decides them, in manifest form."""
    what = item(ack.number, long_topics=long_topics)
    rows = []
    for i, message in enumerate(what.messages):
        row: dict[str, Any] = {
            "physicalOffset": ack.physical_offsets[i],
            "msgId": ack.message_ids[i],
            "storeTimestamp": ack.store_timestamp,
            "queueOffset": ack.queue_offset + i,
            "topic": message.topic,
            "queueId": what.queue_id,
            "flag": message.flag,
            "bodyLength": len(message.body),
            "bodySha256": hashlib.sha256(message.body).hexdigest(),
            "tags": message.tags,
            "keys": message.key_text,
            "properties": message.stored_properties(),
            "magic": "daa320ab" if len(message.topic) > 127 else "daa320a7",
        }
        if not what.is_batch:
            row |= _given(what.arguments)
        if message.delay_level:
            row |= {"topic": SCHEDULE_TOPIC, "queueId": message.delay_level - 1}
            row["properties"] |= {"REAL_TOPIC": message.topic, "REAL_QID": str(what.queue_id)}
        rows.append(row)
    return rows


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    is_v6 = arguments["born_host"].startswith("[")
    return {
        "bornTimestamp": arguments["born_timestamp"],
        "bornHost": "[fd00:0:0:0:0:0:0:2]:40000" if is_v6 else arguments["born_host"],
        "reconsumeTimes": arguments["reconsume_times"],
        "preparedTransactionOffset": arguments.get("prepared_transaction_offset", 0),
        "sysFlag": arguments["sys_flag"] | (BORN_HOST_V6 if is_v6 else 0),
    }


def _keys(number: int) -> list[str] | None:
    if number % 5 == 0:
        return None
    if number % 5 == 1 and number < 200:  # so that no key has more messages than one query may answer
        return [f"key-{number}", f"shared-{number // 40}", "钥匙"]
    return [f"key-{number}"]


def _body(number: int, length: int) -> bytes:
    text = f"message {number} 消息 ".encode()
    return (text * (length // len(text) + 1))[:length]

"""Messages at the edges of what a record can hold, and a second opinion on which of them may be stored.

Seeded and fast: a hundred thousand take a second or two. ``Item`` is one message as every way in takes it; items of a
run share topic, queue and flags, so that a run can also travel as a batch.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from flaremq.message import properties as names
from flaremq.message.message import Message
from flaremq.message.properties import UnstorableError
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus as Status

RESERVED = (
    "__CRC32#", "__RMQ.TRANSIENT.x", names.KEYS, names.TAGS, names.WAIT, names.DELAY, names.RETRY_TOPIC,
    names.REAL_TOPIC, names.REAL_QUEUE_ID, names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, names.UNIQUE_KEY,
    names.ORIGIN_MESSAGE_ID, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES, names.TRANSACTION_ID,
    names.TRANSACTION_CHECK_TIMES, names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.CHECK_IMMUNITY_SECONDS,
    names.INNER_NUM, names.INNER_BASE, names.CLUSTER, names.REGION, names.TRACE_SWITCH, names.DLQ_ORIGIN_TOPIC,
    names.DLQ_ORIGIN_MESSAGE_ID, "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES",
    "TIMER_DEL_UNIQKEY", "POP_CK",
)  # fmt: skip
_VALUES = (
    "0123456789", "0000000000", "1", "0", "-1", "18", "99", "2147483648", "99999999999999999999", "true", "false",
    "a b", " ", "a  b ", "é", "\U0001f600", "x", "\x03", "\x7f", "1_0", "+3", "%LMQ%a", "T", "٣",
)  # fmt: skip
_BAD_TEXTS = ("", "\x01", "\x02", "a\x01b", "a\x02b", "\0", "a\0b", "\ud800", "a\udfff", "\x02__CRC32#\x01")
_RAW = (
    b"", b"\x02", b"\x01", b"\x01\x02", b"a", b"a\x01", b"a\x01b", b"\x02\x02a\x01b", b"a\x01b\x02a\x01c\x02",
    b"a\x01b\x02\x00", b"KEYS\x01",
    b"a\x01b\x02__CRC32#\x01", b"x" * 20, b"\x02" * 21, b"DELAY\x011\x02DELAY\x01x\x02",
)  # fmt: skip
_ODD_RAW = (b"\xff\x01\xfe\x02", b"KEYS\x01\xc3\x28\x02", b"TAGS\x01\xed\xa0\x80\x02")
_ANNOUNCED = b"\x02__CRC32#\x01"
_NEARLY_ANNOUNCED = frozenset(
    [_ANNOUNCED] + [(int.from_bytes(_ANNOUNCED, "big") ^ 1 << bit).to_bytes(10, "big") for bit in range(80)]
)
_LEGAL = re.compile(r"[A-Za-z0-9%_|-]+")
_POWERS = tuple(2**power for power in range(18))
BORN = 1_700_000_000_123


@dataclass(slots=True)
class Item:
    """One message; ``properties`` is its stored form, None if it has none."""

    topic: str
    queue_id: int
    body: bytes
    message: Message | None
    properties: bytes | None
    flag: int
    sys_flag: int
    born_timestamp: int
    reconsume_times: int

    def form(self, host: bytes) -> StoredForm:
        return StoredForm(
            topic=self.topic,
            queue_id=self.queue_id,
            body=self.body,
            properties=self.properties or b"",
            flag=self.flag,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_timestamp,
            born_host=host,
            reconsume_times=self.reconsume_times,
        )


class Hostile:
    """Endless runs of messages for a store with these options."""

    def __init__(self, seed: int, options: StoreOptions, *, odd_bytes: bool) -> None:
        self._odd_bytes = odd_bytes  # properties that are no UTF-8 too: kernels leave batches with them to plain code
        self._raws = _RAW + _ODD_RAW if odd_bytes else _RAW
        self._chance = random.Random(seed)
        self._body_max = options.max_message_size
        self._file_size = options.mapped_file_size_commit_log
        self._seen: list[tuple[int, int]] = [(11, 7)]
        self.topics = ["T", "orders", "a|b-c%d_e", "T" * 126, "T" * 127, SCHEDULE_TOPIC, "%DLQ%" + "g" * 122]
        self.topics += ["%RETRY%" + "g" * (length - 7) for length in (8, 127, 128, 254, 255)]
        self._illegal_topics = ["", " ", "a b", "../up", "é", "a\0", "T\x01", "T\n", "T" * 128, "T" * 255, "\ud800"]
        self._illegal_topics += ["%RETRY%" + "g" * (length - 7) for length in (256, 257, 32767, 32768)]
        self._illegal_topics += ["%DLQ%" + "g" * 123, "%RETRY%../x", "%RETRY%" + "é" * 130]

    def runs(self, count: int) -> Iterator[list[Item]]:
        """Runs of together ``count`` messages."""
        chance = self._chance.random
        while count > 0:
            size = 1 if chance() < 0.4 else min(count, self._chance.randrange(2, 9))
            yield self._run(size)
            count -= size

    def _run(self, size: int) -> list[Item]:
        chance, pick = self._chance.random, self._chance.choice
        topic = pick(self.topics[:3])
        if chance() < 0.1:
            topic = pick(self.topics)
        elif chance() < 0.02:
            topic = pick(self._illegal_topics)
        queue_id = self._chance.randrange(3)
        if chance() < 0.02:
            queue_id = pick((-1, 2**31 - 1, 2**31, -(2**31), 2**63, 2**64))
        sys_flag = 0
        if chance() < 0.15:
            sys_flag = pick([1 << bit for bit in range(33)] + [-1, 0x701, 0x3F, 0xC, 0x8 | 0x1, 0x40, -(2**31)])
        born = BORN if chance() < 0.95 else pick((0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1))
        return [self._item(topic, queue_id, sys_flag, born) for _ in range(size)]

    def _item(self, topic: str, queue_id: int, sys_flag: int, born: int) -> Item:
        chance, pick = self._chance.random, self._chance.choice
        flag = 0 if chance() < 0.95 else pick((1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**64))
        reconsume = 0 if chance() < 0.98 else pick((1, 16, -1, 2**31 - 1, 2**31))
        body = bytes(self._body_length())
        if chance() < 0.1:
            raw = self._raw()
            return Item(topic, queue_id, body, None, raw, flag, sys_flag, born, reconsume)
        if chance() < 0.003:
            # Lengths that differ by 2^16 in one and by 1 in the other: any key made of both by shifting confuses them.
            length, text = pick(self._seen)
            body, message = bytes(max(length - 1, 0)), Message(topic, b"", keys="k" * (65536 + text - 6))
        else:
            message = self._message(topic)
        message.body, message.flag = body, flag
        try:
            properties: bytes | None = message.encoded_properties()
        except UnstorableError:
            properties = None
        else:
            if len(self._seen) < 500 and len(properties) > 6:
                self._seen.append((len(body), len(properties)))
        return Item(topic, queue_id, body, message, properties, flag, sys_flag, born, reconsume)

    def _message(self, topic: str) -> Message:
        chance = self._chance.random
        keys = self._text() if chance() < 0.4 else None
        tags = self._text() if chance() < 0.4 else None
        properties = None
        if chance() < 0.5:
            properties = {self._name(): self._text() for _ in range(self._chance.randrange(1, 4))}
        if chance() < 0.004:
            properties = {**(properties or {}), "p": "v" * max(1, self._properties_length() - 3)}
        return Message(
            topic, b"", keys=keys, tags=tags, properties=properties, wait_store_msg_ok=chance() < 0.9,
        )  # fmt: skip

    def _name(self) -> str:
        name = self._chance.choice(RESERVED)
        kind = self._chance.random()
        at = self._chance.randrange(len(name))
        if kind < 0.15 and name != "INNER_MULTI_QUEUE_OFFSET":  # with it a message may claim a light queue's place
            return name
        if kind < 0.6:
            flipped = chr(ord(name[at]) ^ 1 << self._chance.randrange(7))
            return name[:at] + flipped + name[at + 1 :]
        if kind < 0.7:
            return name[:at] + name[at + 1 :]
        if kind < 0.8:
            return name[:at] + self._chance.choice("_#Xé 0") + name[at:]
        if kind < 0.85:
            return self._chance.choice(_BAD_TEXTS)
        return self._chance.choice(("p", "q", "prefix" + name, name + "suffix"))

    def _text(self) -> str:
        return self._chance.choice(_VALUES if self._chance.random() < 0.97 else _BAD_TEXTS)

    def _raw(self) -> bytes:
        if self._chance.random() < 0.02:
            return b"p\x01" + b"v" * (self._properties_length() - 3) + b"\x02"
        if self._chance.random() < 0.5:
            return self._chance.choice(self._raws)
        # The checksum property itself, with some bits changed.
        value = self._chance.choice(("0123456789", "000000000x", "1", "2147483647", "012345678900"))
        text = bytearray(b"\x02__CRC32#\x01" + value.encode() + b"\x02")
        for _ in range(self._chance.randrange(3)):
            text[self._chance.randrange(len(text))] ^= 1 << self._chance.randrange(8 if self._odd_bytes else 7)
        return self._chance.choice((b"", b"a\x01b")) + bytes(text[self._chance.randrange(2) :])

    def _properties_length(self) -> int:
        edges = [32767, 65535, 65536, 65542, 131072, *_POWERS[3:]]
        return max(4, self._chance.choice(edges) + self._chance.randrange(-1, 2))

    def _body_length(self) -> int:
        kind = self._chance.random()
        if kind < 0.9:
            return self._chance.randrange(20)
        if kind < 0.97:
            return self._chance.choice(_POWERS[:10]) + self._chance.randrange(-1, 2)
        if kind < 0.99:
            return self._chance.choice(_POWERS[10:13]) + self._chance.randrange(-1, 2)
        edge = min(self._body_max, self._file_size - 8 - 88 - 2 - 2)
        return max(0, edge + self._chance.randrange(-2, 3))


def expected_status(item: Item, options: StoreOptions) -> Status:
    """What every way in must answer, by the documented rule; written without a look at the store's own code."""
    topic, properties = item.topic, item.properties
    legal = _LEGAL.fullmatch(topic) and len(topic) <= (255 if topic.startswith("%RETRY%") else 127)
    if not legal or (len(topic) > 127 and not options.auto_message_version_on_topic_len):
        return Status.MESSAGE_ILLEGAL
    numbers = ((item.flag, 32), (item.sys_flag, 32), (item.reconsume_times, 32), (item.born_timestamp, 64))
    if not 0 <= item.queue_id < 2**31 or not all(-(2 ** (b - 1)) <= n < 2 ** (b - 1) for n, b in numbers):
        return Status.MESSAGE_ILLEGAL
    if item.sys_flag & 0x80 or properties is None or 0 in properties:
        return Status.MESSAGE_ILLEGAL
    ends_announced = properties[-21:-11] in _NEARLY_ANNOUNCED or (
        len(properties) == 20 and b"\x02" + properties[:9] in _NEARLY_ANNOUNCED
    )
    if ends_announced or re.search(rb"__CRC32#\x01[0-9]{10}\x02\Z", properties):
        return Status.MESSAGE_ILLEGAL
    length = len(properties)
    if options.enabled_append_prop_crc:
        length += 20 + (1 if properties and properties[-1] != 2 else 0)
    if length > 32767:
        return Status.PROPERTIES_SIZE_EXCEEDED
    hosts = 16 if ":" not in options.broker_ip1 else 40
    total = 72 + hosts + len(item.body) + (1 if len(topic) <= 127 else 2) + len(topic) + 2 + length
    if len(item.body) > options.max_message_size or total > options.mapped_file_size_commit_log - 8:
        return Status.MESSAGE_ILLEGAL
    return Status.PUT_OK

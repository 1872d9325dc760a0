"""The messages both sides store: topic BenchTopic, 8 queues in turn, one unique key of 32 hex digits each.

RocketMQ's driver stores the key as UNIQ_KEY, as its clients do; we store it as KEYS, as ``Message(keys=...)`` does.
Either way a record gets one index entry; ours are four bytes shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq import MessageStore

TOPIC = "BenchTopic"
QUEUES = 8
KEY = "7F0000010A2B3C4D5E6F%012X"  # a fixed start as of one producer, then the number
_STEP = 1024  # messages between two looks at the log's length


def make_body(size: int) -> bytes:
    """Printable bytes without a short period, the same in every run."""
    return bytes(32 + (place * 7919 + place // 95) % 95 for place in range(size))


def send_fields(topic: str, number: int, *, group: str = "bench", queues: int = QUEUES) -> dict[str, str]:
    """The letters of a plain send: to the queues in turn, with a unique key as its only property."""
    ext = {"a": group, "b": topic, "c": "TBW102", "d": str(queues), "e": str(number % queues), "f": "0"}
    return ext | {"g": "1", "h": "0", "j": "0", "m": "false", "i": f"UNIQ_KEY\x01{KEY % number}\x02"}


def fill(store: MessageStore, size: int, *, log_bytes: int = 0, count: int = 0) -> int:
    """Put messages one by one until the log has grown by ``log_bytes`` or ``count`` are stored; how many were."""
    from flaremq import Message

    body, put, stored = make_body(size), store.put, 0
    end = store.max_physical_offset + log_bytes
    while (not count or stored < count) and (not log_bytes or store.max_physical_offset < end):
        first, stored = stored, min(stored + _STEP, count or stored + _STEP)
        for number in range(first, stored):
            if not put(Message(TOPIC, body, keys=KEY % number), number % QUEUES).ok:
                raise RuntimeError(f"message {number} was refused: {store.statistics()['refusal']}")
    store.wait_for_dispatch()
    return stored

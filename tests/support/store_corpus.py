"""A little of everything a store can hold, put in a fixed order: for tests that compare two ways to one result."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.record.codec import encode_record
from flaremq.message.stored_form import StoredForm
from flaremq.message.transaction import commit, half, operation
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from tests.support.store_lab import StoreLab

HOST_V4 = encode_host("10.1.2.3:4567")
LONG_RETRY_TOPIC = "%RETRY%" + "g" * 90 + "_" + "t" * 90


def raw_form(topic: str, properties: bytes, *, body: bytes = b"raw", sys_flag: int = 0) -> StoredForm:
    """A record with exactly these property bytes."""
    return StoredForm(topic=topic, queue_id=0, body=body, properties=properties, sys_flag=sys_flag, born_host=HOST_V4)


def _transaction(store: MessageStore) -> PutResult:
    form = StoredForm.of_message(
        Message("paid", b"half", tags="T", keys="order-9", properties={"UNIQ_KEY": "U9", "PGROUP": "G"}),
        queue_id=2,
        born_timestamp=1_600_000_000_000,
        born_host=HOST_V4,
    )
    prepared = store.put_form(half(form))
    record = store.read(prepared.physical_offset)
    assert record is not None
    done = commit(record)
    del record
    store.put_form(done)
    return store.put_form(
        operation([prepared.queue_offset], queue_id=0, born_timestamp=1_600_000_000_000, born_host=HOST_V4)
    )


def _kinds(number: int) -> list[Callable[[MessageStore], PutResult]]:
    key = f"key-{number % 17}"
    squeezed = zlib.compress(b"many words " * 50)
    return [
        lambda s: s.put(Message("orders", b"plain %d" % number), number % 3),
        lambda s: s.put(Message("orders", b"tagged", tags="TagA", keys=key), 0),
        lambda s: s.put(Message("orders", b"Aa", tags="Aa", keys=["Aa", "BB", f"u{number}"]), 1),
        lambda s: s.put(Message("orders", b"BB", tags="BB", keys="BB  double  space "), 1),
        lambda s: s.put(Message("bills", b"", keys="ключ 键 🔥", tags="étiquette"), 0),
        lambda s: s.put(Message("bills", b"unique", properties={"UNIQ_KEY": f"U{number}", "a": "b"}), 0),
        lambda s: s.put(Message("orders", b"later", delay_level=number % 20 + 1, keys=key), 1),
        lambda s: s.put(Message("orders", b"prepared", keys="tx"), 0, sys_flag=0x4),
        lambda s: s.put(Message("orders", b"committed", keys="tx"), 0, sys_flag=0x8),
        lambda s: s.put(Message("orders", b"rolled back", keys="tx"), 0, sys_flag=0xC),
        lambda s: s.put(Message("orders", squeezed, tags="zip"), 0, sys_flag=0x301),
        lambda s: s.put(Message("orders", b"six", keys=key), 0, born_host="[2001:db8::7]:80"),
        lambda s: s.put(Message("orders", b"again"), 0, reconsume_times=3, born_timestamp=12345),
        lambda s: s.put_batch([Message("bills", b"b%d" % n, keys=f"{key} b{n}") for n in range(3)], 5),
        lambda s: s.put_form(raw_form("orders", b"KEYS\x01twice\x02KEYS\x01last wins\x02TAGS\x01x")),
        lambda s: s.put_form(raw_form(LONG_RETRY_TOPIC, b"TAGS\x01v2\x02")),
        _transaction,
    ]


def append_foreign(store: MessageStore, properties: bytes, now_ms: int, body: bytes = b"foreign") -> int:
    """Append a record as only another writer would have made it; its physical offset.

    RocketMQ stores whatever property bytes a client sends. We refuse to, but must read such records.
    """
    log, offsets = store._commit_log, store._writer.queue_offsets.setdefault("orders", {})
    with log.lock:
        size = len(_foreign_record(0, 0, now_ms, body, properties))
        at = log.claim(size)
        assert log.current is not None
        place = log.current.start + at
        log.buffer[at : at + size] = _foreign_record(place, offsets.get(0, 0), now_ms, body, properties)
        log.publish(at + size, log.last_timestamp)
        offsets[0] = offsets.get(0, 0) + 1
    store.flush()
    store.wait_for_dispatch(0)
    return place


def _foreign_record(place: int, queue_offset: int, now_ms: int, body: bytes, properties: bytes) -> bytes:
    return encode_record(
        topic=b"orders",
        body=body,
        properties=properties,
        queue_id=0,
        queue_offset=queue_offset,
        physical_offset=place,
        born_timestamp=now_ms,
        born_host=HOST_V4,
        store_timestamp=now_ms,
        store_host=HOST_V4,
    )


def write_corpus(lab: StoreLab, rounds: int = 8, *, first: int = 0, foreign: bool = False) -> int:
    """Put every kind of message ``rounds`` times; the number of records."""
    puts = 0
    for number in range(first, first + rounds):
        for put in _kinds(number):
            lab.clock.advance(137)
            result = put(lab.store)
            assert result.ok, result
            puts += 1
        if foreign:
            lab.odd_text = True
            bad = b"KEYS\x01bad\xff\xfe utf\x02TAGS\x01\xc3\x02no separator\x02a\x01nul \0\x02"
            append_foreign(lab.store, bad, lab.clock.now_ms())
            puts += 1
    return puts

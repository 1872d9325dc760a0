"""What rows of the sink have become in a store: all of it there, readable, sound, and still so when opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.hostile_rows import Row
from tests.support.store_lab import StoreLab

# Options of the stores that hostile rows are written to.
SMALL = {"mappedFileSizeCommitLog": "67108864", "mappedFileSizeConsumeQueue": "60000", "maxMessageSize": "4096"}
SMALL |= {"maxHashSlotNum": "1000", "maxIndexNum": "200000", "reserveStepCommitLog": "4194304"}
SMALL |= {"reserveStepIndex": "1048576"}
WIDE = SMALL | {"maxMessageSize": "131072"}
NARROW = SMALL | {"mappedFileSizeCommitLog": "40000", "reserveStepCommitLog": "40000", "maxMessageSize": "1048576"}
KINDS = {
    "small": SMALL,
    "wide": WIDE,
    "sealed": WIDE | {"enabledAppendPropCRC": "true"},
    "narrow": NARROW,
    "sealed narrow": NARROW | {"enabledAppendPropCRC": "true", "brokerIP1": "::1"},
}  # fmt: skip


def check_chunks(check: Callable[[Path, str, int, int], None], root: Path, seed: int, count: int, chunks: int) -> None:
    """Messages of one seed after the other through all kinds of stores in turn; a failure says how to repeat it."""
    print(f"seed {seed}")
    for number in range(chunks):
        name = list(KINDS)[number % len(KINDS)]
        try:
            check(root / f"{number}", name, seed + number, count)
        except BaseException as error:
            error.add_note(f"with {check.__name__}(root, {name!r}, {seed + number}, {count})")
            raise


_ADDED = {"UNIQ_KEY", "FMQ_CHAIN", "__CRC32#"}
_ADDED_TO_DELAYED = {"REAL_TOPIC", "REAL_QID", "MSG_REGION", "CLUSTER", "TRACE_ON"}


def check_stored(root: Path, kind: dict[str, str], expected: dict[str, Row], *, key_name: str = "UNIQ_KEY") -> None:
    """Everything is there with the same content, whichever way it is read, and stays.

    ``expected`` are rows by the value of a property.
    """
    lab = StoreLab(root, StoreOptions.from_properties(kind))
    for end in (MessageStore.abandon, MessageStore.close):
        store = lab.open()
        report = store.recovery
        assert (report.truncated_bytes, report.damaged, report.saved_tail) == (0, [], None)
        assert store.dispatch_lag_bytes == 0 and store.statistics()["damagedLogRanges"] == 0
        _check_messages(store, expected, key_name)
        end(store)
    lab._store = None
    assert lab.findings() == []


def _check_messages(store: MessageStore, expected: dict[str, Row], key_name: str) -> None:
    got: dict[str, tuple[str, int, bytes, dict[str, str]]] = {}
    scanned: dict[str, tuple[str, int, bytes, dict[str, str]]] = {}
    for topic, queue_id in store.queues():
        offset = 0
        while messages := store.get(topic, queue_id, offset, 1000, max_bytes=64 << 20).messages:
            for message in messages:
                key = message.properties[key_name]
                assert key not in got, f"twice: {key}"
                got[key] = (topic, queue_id, bytes(message.body), message.properties)
            offset += len(messages)
        for batch in store.scan(topic, queue_id):
            for row in batch.select(["body", "tags", "keys", "properties"]).to_pylist():
                properties = dict(row["properties"])
                assert (row["tags"], row["keys"]) == (properties.get("TAGS"), properties.get("KEYS"))
                scanned[properties[key_name]] = (topic, queue_id, row["body"], properties)
    assert got == scanned
    assert got.keys() == expected.keys()
    for key, row in expected.items():
        topic, queue_id, body, properties = got[key]
        own = row.stored_properties()
        assert body == row.body
        if row.level:
            assert (topic, queue_id) == ("SCHEDULE_TOPIC_XXXX", row.level - 1)
            topic, queue_id = properties["REAL_TOPIC"], int(properties["REAL_QID"])
        assert topic == row.topic.decode() and queue_id == (queue_id if row.queue_id is None else row.queue_id)
        added = _ADDED | _ADDED_TO_DELAYED if row.level else _ADDED
        assert {name: value for name, value in properties.items() if name not in added} == own
    for key in list(expected)[:: max(1, len(expected) // 50)]:
        unique = got[key][3]["UNIQ_KEY"]
        assert [message.uniq_key for message in store.query(got[key][0], unique)] == [unique]

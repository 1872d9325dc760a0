"""Our store in the form the Java reader prints, so that the two can be compared value by value."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import GetMessageStatus
from tests.interop import corpus
from tests.interop.java_store import Image, Options

# Small files, so that logs, queues and indexes roll many times in a test.
SMALL_FILES = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


def open_store(root: Path, options: Options) -> MessageStore:
    return MessageStore.open(root, StoreOptions.from_properties(dict(options)))


def write(root: Path, options: Options, numbers: Iterable[int], *, long_topics: bool = False) -> list[corpus.Ack]:
    """Put these numbers and close cleanly."""
    with open_store(root, options) as store:
        return [corpus.put(store, number, long_topics=long_topics) for number in numbers]


def image_of(store: MessageStore, root: Path) -> Image:
    """Everything in the store, which is open at ``root``: records in log order, and each queue with its units."""
    store.wait_for_dispatch(timeout=60)
    return {
        "commitLog": {"minPhyOffset": store.min_physical_offset, "maxPhyOffset": store.max_physical_offset},
        "messages": [message.to_dict(body="none") for message in _log(root)],
        "queues": {f"{topic}@{queue_id}": _queue(store, topic, queue_id) for topic, queue_id in store.queues()},
    }


def _log(root: Path) -> Iterable[MessageExt]:
    """From the files: the store shows no record that has no place in a queue, as half messages have none."""
    with StoreReader.open(root, lock=False) as reader:
        for _, record in reader.records():
            yield MessageExt(bytes(record))


def _queue(store: MessageStore, topic: str, queue_id: int) -> dict[str, Any]:
    low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    units = []
    offset = low
    while offset < high:
        result = store.get(topic, queue_id, offset, 32)
        assert result.status is GetMessageStatus.FOUND, (topic, queue_id, offset, result.status)
        units += [[message.queue_offset, message.physical_offset, message.size] for message in result.messages]
        offset = result.next_offset
    return {"min": low, "max": high, "units": units}

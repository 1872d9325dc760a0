"""The store a sink writes into: opened alone, with the geometry its files have, its topics declared.

Taking rows in is a redo: the manifest is the decision, the rows' unique keys say how far an earlier try came, and the
mark that a batch is done is made after everything is durable. A crash at any point leaves a store that the next commit
finishes.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import Any, Final

from flaremq.clock import SystemClock
from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.java_json import parse_java_json
from flaremq.message.batch import decode_batch
from flaremq.message.hosts import encode_host
from flaremq.message.stored_form import StoredForm, delay_level_of
from flaremq.pipeline.sink.ledger import StoreLedger
from flaremq.pipeline.sink.options import SinkOptions
from flaremq.pipeline.sink.staging import (
    STAGING,
    StagedBatch,
    StagedParcel,
    batch_folder,
    decided_batches,
    last_done,
    mark_done,
    read_parcels,
)
from flaremq.pipeline.sink.task import LaneKey, TaskIdentity
from flaremq.pipeline.sources.open import check_log_below
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.claim import StoreClaim
from flaremq.storage.files.filesystem import LocalFileSystem, write_atomically
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions

_LOCK_SECONDS: Final = 60.0
_LOCK_POLL_SECONDS: Final = 0.1
_SYNC_BYTES: Final = 64 << 20  # appended between two dispatches
# Of a log file, not for a row: what a record holds beside body and properties, a long topic twice where it is delayed,
# the checksum, and the end of the file.
_RECORD_ROOM: Final = 512


def check_store(options: SinkOptions) -> SinkOptions:
    """On the driver, before a job: the directory is a store or can become one, and nobody has it open.

    Returns the options for tasks: they must refuse what the store would not take once it is decided on.
    """
    path = options.path
    check_log_below(path, options.store)
    if not os.path.exists(path):
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            raise InvalidArgumentError(f"neither {path} nor {parent} exists: create the directory of the store")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InvalidArgumentError(f"the store {path} cannot be made: {parent} cannot be written to")
        return _fitting(options)
    if not os.path.isdir(path):
        raise InvalidArgumentError(f"{path} is a file, not the directory of a store")
    names = [name for name in os.listdir(path) if not name.startswith("flaremq.")]
    if names and not os.path.isdir(os.path.join(path, "commitlog")):
        raise InvalidArgumentError(f"{path} holds other things ({sorted(names)[0]}, …) and no commitlog: no store")
    if not os.access(path, os.W_OK):
        raise InvalidArgumentError(f"{path} cannot be written to")
    try:
        StoreClaim.to_read(LocalFileSystem(), StoreLayout(path)).release()
    except UnavailableError as error:
        raise UnavailableError(
            f"the store {path} is in use: rows for a running broker are sent with the option nameServer instead of path"
        ) from error
    return _fitting(options)


def _fitting(options: SinkOptions) -> SinkOptions:
    """A row, and rows that travel together, fit a log file: what is staged and decided on must go in."""
    size = store_options(options).mapped_file_size_commit_log
    largest = min(options.max_message_size, size - _RECORD_ROOM)
    if largest <= 0:
        raise InvalidArgumentError(f"mappedFileSizeCommitLog {size}: no row fits a log file of so few bytes")
    # Small rows of a long topic take not quite four times the bytes as records that they take on their way.
    return replace(options, max_message_size=largest, request_bytes=min(options.request_bytes, size // 4))


def store_options(options: SinkOptions) -> StoreOptions:
    """The options a store is opened with: what its files show wins over defaults, what the user gives over both."""
    shown: dict[str, str] = {}
    if os.path.isdir(os.path.join(options.path, "commitlog")):
        with StoreReader.open(options.path, lock=False) as reader:
            if reader.log.run.file_size:
                shown["mappedFileSizeCommitLog"] = str(reader.log.run.file_size)
            for queue in reader.queues:
                if queue.run.file_size:
                    shown["mappedFileSizeConsumeQueue"] = str(queue.run.file_size)
                    break
            for index in reader.indexes:
                if index.geometry is not None:
                    shown["maxHashSlotNum"] = str(index.geometry.slots)
                    shown["maxIndexNum"] = str(index.geometry.entries)
    parsed = StoreOptions.from_properties({**shown, **options.store})
    if not parsed.message_index_enable:
        raise InvalidArgumentError("messageIndexEnable=false: rows that are stored already are found by the index")
    return replace(parsed, max_message_size=max(parsed.max_message_size, options.max_message_size))


def take_in(options: SinkOptions) -> None:
    """Bring the rows of all decided batches into the store."""
    with _opened(options) as store:
        for batch in decided_batches(options.path):
            if last_done(options.path, batch.write) < batch.batch_id:
                _StoreCommit(store, options, batch).run()
            mark_done(options.path, batch)


def _opened(options: SinkOptions) -> MessageStore:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return MessageStore.open(options.path, store_options(options), driven=True)
        except UnavailableError as error:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the store {options.path} is in use, so the rows in its {STAGING} could not be taken in; they "
                    "will be when the batch is committed again"
                ) from error
        time.sleep(_LOCK_POLL_SECONDS)


class _StoreCommit:
    """One batch on its way into a store."""

    def __init__(self, store: MessageStore, options: SinkOptions, batch: StagedBatch) -> None:
        self._store = store
        self._driver = store.driver()
        self._root = options.path
        self._options = options
        self._batch = batch
        self._ledger = StoreLedger(lambda topic, key: store.query(topic, key, 4), f"the store {options.path}")
        self._queues: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._undispatched = 0
        self._host = encode_host(f"{store.options.broker_ip1}:{store.options.listen_port}")

    def run(self) -> None:
        self._show()  # what is in the log can be found by key from here on
        batch = self._batch
        folder = batch_folder(self._root, batch.write, batch.batch_id)
        for file in sorted(batch.files, key=lambda file: file.partition):
            task = TaskIdentity(batch.write_id, batch.batch_id, file.partition)
            for staged in read_parcels(os.path.join(folder, file.name), file.size):
                self._append(staged, task)
        self._driver.sync()
        self._show()
        self._store.flush()

    def _append(self, staged: StagedParcel, task: TaskIdentity) -> None:
        parcel, lane = staged.parcel, staged.lane
        stored = self._stored(staged)
        if parcel.end <= stored:
            return
        if parcel.first < stored:
            parcel = parcel.after(stored)
        count = self._queues_of(lane.topic)
        queue_id = lane.queue_id
        if queue_id < 0:
            queue_id = lane.queue_index(task, count)
        elif queue_id >= count:  # checked before it was staged: the topic was made smaller since
            raise InvalidArgumentError(f"topic {lane.topic!r} has no queue {queue_id} any more; it has {count}")
        if lane.is_delayed:
            item = next(decode_batch(parcel.body))
            properties = bytes(item.properties)
            result = self._driver.append_form(
                StoredForm(
                    topic=lane.topic,
                    queue_id=queue_id,
                    body=bytes(item.body),
                    properties=properties,
                    born_timestamp=staged.written_ms,
                    born_host=self._host,
                    delay_level=delay_level_of(properties),
                )
            )
        else:
            result = self._driver.append_batch_body(
                lane.topic,
                queue_id,
                parcel.body,
                born_timestamp=staged.written_ms,
                born_host=self._host,
                sys_flag=0,
            )
        if result.physical_offset < 0:
            raise UnavailableError(f"the store {self._root} did not take a row: {result.status.name}, {result.detail}")
        self._undispatched += result.size
        if self._undispatched >= _SYNC_BYTES:
            self._driver.sync()
            self._show()

    def _show(self) -> None:
        self._undispatched = 0
        while self._driver.undispatched > 0:
            self._driver.dispatch()
            if self._driver.has_dispatch_error:
                raise UnavailableError(f"the queues and index of {self._root} cannot be written")

    def _stored(self, staged: StagedParcel) -> int:
        """How many messages of the parcel's stream an earlier try brought in."""
        count = self._counts.get(staged.stem)
        if count is None:
            count = self._ledger.count(staged.lane.topic, staged.stem, is_delayed=staged.lane.is_delayed)
            self._counts[staged.stem] = count
        return count

    def _queues_of(self, topic: str) -> int:
        count = self._queues.get(topic)
        if count is None:
            count = self._queues[topic] = declare_topic(self._root, topic, self._options.queues)
        return count


def queue_count(root: str, topic: str, queues: int) -> int:
    """How many queues a topic of the store has; ``queues`` if ``topics.json`` does not name it."""
    document, _ = _topics_file(root, topic)
    found = document["topicConfigTable"].get(topic)
    return max(1, int(found.get("writeQueueNums", queues))) if isinstance(found, dict) else queues


def check_queue(root: str, lane: LaneKey, queues: int) -> None:
    """Raise if the lane's queue is none of its topic's."""
    count = queue_count(root, lane.topic, queues)
    if lane.queue_id >= count:
        raise InvalidArgumentError(f"topic {lane.topic!r} has no queue {lane.queue_id}; it has {count}")


def declare_topic(root: str, topic: str, queues: int) -> int:
    """How many queues a topic of the store has; one that ``topics.json`` does not name is added to it."""
    document, data = _topics_file(root, topic)
    table = document["topicConfigTable"]
    if isinstance(table.get(topic), dict):
        return queue_count(root, topic, queues)
    table[topic] = {
        "order": False,
        "perm": 6,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }
    version = document.setdefault("dataVersion", {})
    version["counter"] = int(version.get("counter", 0)) + 1
    version["timestamp"] = SystemClock().now_ms()
    path = _topics_path(root)
    filesystem = LocalFileSystem()
    filesystem.make_directories(os.path.dirname(path))
    if data:
        write_atomically(filesystem, path + ".bak", data)
    write_atomically(filesystem, path, json.dumps(document, indent=1).encode())
    return queues


def _topics_path(root: str) -> str:
    return os.path.join(root, "config", "topics.json")


def _topics_file(root: str, topic: str) -> tuple[dict[str, Any], bytes]:
    """``topics.json`` as a document and as it is; an empty one if there is none."""
    path = _topics_path(root)
    document: dict[str, Any] = {}
    data = b""
    try:
        with open(path, "rb") as file:
            data = file.read()
        document = parse_java_json(data.decode())
    except FileNotFoundError:
        pass
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{path} cannot be read, so topic {topic!r} cannot be looked up: {error}") from None
    except OSError as error:
        raise StoreIOError("read", path, error) from error
    document.setdefault("topicConfigTable", {})
    return document, data

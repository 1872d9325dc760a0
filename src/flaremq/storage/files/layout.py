"""Every path and file name below a store root, and nothing else.

RocketMQ's names first; the files that only we write (``flaremq.*``) sit directly under the root, where RocketMQ
ignores them. One function turns a topic into a folder, so one check keeps names inside the store.
"""

from __future__ import annotations

import os
import re

from flaremq.errors import InvalidArgumentError
from flaremq.message.topics import is_stored_topic

COMMIT_LOG = "commitlog"
CONSUME_QUEUE = "consumequeue"
CONSUME_QUEUE_EXT = "consumequeue_ext"
BATCH_CONSUME_QUEUE = "batchconsumequeue"
INDEX = "index"
CONFIG = "config"
CHECKPOINT = "checkpoint"
ABORT = "abort"
LOCK = "lock"

OFFSETS = "flaremq.offsets"  # our durable offsets: see files/checkpoint.py
SAVED_TAIL = "flaremq.saved"  # folder for log bytes set aside before a truncation
QUEUE_HINTS = "flaremq.queues"  # queue ends at the last checkpoint
DELETED_TOPICS = "flaremq.deleted"  # up to where topics were deleted: see dispatch/deleted_topics.py
LEASES = "flaremq.leases"  # folder for those who read the log from outside: see engine/leases.py
BROKER_NOTE = "flaremq.broker"  # who served this store last: see config/broker_note.py

_FILE_NAME = re.compile(r"\d{20}\Z")
_FILE_NAME_END = f"{1 << 62:020d}"
_INDEX_NAME = re.compile(r"\d{17}\Z")


class StoreLayout:
    """Paths of one store."""

    __slots__ = ("commit_log_paths", "root")

    def __init__(self, root: str | os.PathLike[str], commit_log_paths: list[str] | None = None) -> None:
        self.root = os.fspath(root)
        self.commit_log_paths = commit_log_paths or [os.path.join(self.root, COMMIT_LOG)]

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    @property
    def consume_queue(self) -> str:
        return self.path(CONSUME_QUEUE)

    @property
    def consume_queue_ext(self) -> str:
        return self.path(CONSUME_QUEUE_EXT)

    @property
    def batch_consume_queue(self) -> str:
        return self.path(BATCH_CONSUME_QUEUE)

    @property
    def index(self) -> str:
        return self.path(INDEX)

    @property
    def config(self) -> str:
        return self.path(CONFIG)

    @property
    def checkpoint(self) -> str:
        return self.path(CHECKPOINT)

    @property
    def abort(self) -> str:
        return self.path(ABORT)

    @property
    def lock(self) -> str:
        return self.path(LOCK)

    @property
    def offsets(self) -> str:
        return self.path(OFFSETS)

    @property
    def saved_tail(self) -> str:
        return self.path(SAVED_TAIL)

    @property
    def queue_hints(self) -> str:
        return self.path(QUEUE_HINTS)

    @property
    def deleted_topics(self) -> str:
        return self.path(DELETED_TOPICS)

    @property
    def leases(self) -> str:
        return self.path(LEASES)

    @property
    def broker_note(self) -> str:
        return self.path(BROKER_NOTE)

    def queue_folder(self, topic: str, queue_id: int, *, kind: str = CONSUME_QUEUE) -> str:
        """The folder of one queue; the only place where a name becomes a path."""
        return self.path(kind, checked_topic(topic), str(checked_queue_id(queue_id)))


def checked_topic(topic: str) -> str:
    """Refuse a topic that is no plain folder name, whatever it came from."""
    if not is_stored_topic(topic):
        raise InvalidArgumentError(
            f"topic {topic[:300]!r} is not allowed: 1 to 255 of ASCII letters, digits, '%', '-', '_', '|'; '+' in "
            "%RETRY%group+topic only"
        )
    return topic


def checked_queue_id(queue_id: int) -> int:
    if not 0 <= queue_id < 2**31:
        raise InvalidArgumentError(f"queue id {queue_id} is outside 0..2147483647")
    return queue_id


def file_name(start_offset: int) -> str:
    """A log or queue file is named by the offset of its first byte."""
    return f"{start_offset:020d}"


def is_file_name(name: str) -> bool:
    """Twenty digits, and no more than an offset can be: what lies in the file has offsets, too."""
    return _FILE_NAME.match(name) is not None and name < _FILE_NAME_END


def is_index_name(name: str) -> bool:
    return _INDEX_NAME.match(name) is not None

"""Offsets of consumer groups in a store that no broker has open: ``config/consumerOffset.json``, changed safely.

The file is the broker's; we take its lock, so no broker runs or starts meanwhile, and keep everything in it that is not
ours to change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from flaremq.clock import Clock, SystemClock
from flaremq.digits import whole_number
from flaremq.errors import NotFoundError, RemoteProtocolError
from flaremq.java_json import json_kind
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem
from flaremq.storage.files.layout import StoreLayout

FILE_NAME = "consumerOffset.json"


def lock_closed_store(root: str, filesystem: FileSystem | None = None) -> Any:
    """The broker's lock on a store; UnavailableError if a broker or reader has it."""
    filesystem = filesystem or LocalFileSystem()
    if not filesystem.is_directory(root):
        raise NotFoundError(f"{root} is no store directory")
    return filesystem.lock(StoreLayout(root).lock)


def commit_offsets(
    root: str,
    group: str,
    offsets: Mapping[str, Mapping[int, int]],
    *,
    filesystem: FileSystem | None = None,
    clock: Clock | None = None,
) -> None:
    """Set a group's next offsets by topic and queue; durable on return. UnavailableError if the store is in use."""
    filesystem = filesystem or LocalFileSystem()
    lock = lock_closed_store(root, filesystem)
    try:
        file = ConfigFile(filesystem, os.path.join(StoreLayout(root).config, FILE_NAME))
        document = file.load(_checked) or {}
        table = document.setdefault("offsetTable", {})
        groups = document.setdefault("groupTopicMap", {})
        for topic, queues in offsets.items():
            entry = table.setdefault(f"{topic}@{group}", {})
            entry.update({queue_id: offset for queue_id, offset in queues.items() if offset >= 0})
            topics = groups.setdefault(group, [])
            if topic not in topics:
                topics.append(topic)
        version = document.get("dataVersion")
        version = dict(version) if isinstance(version, dict) else {"counter": 0, "stateVersion": 0}
        counter = version.get("counter")
        version["counter"] = counter + 1 if isinstance(counter, int) else 1
        version["timestamp"] = (clock or SystemClock()).now_ms()
        document["dataVersion"] = version
        file.save(document)
    finally:
        lock.release()


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document with queue numbers as numbers, which is how they are written."""
    for name in ("offsetTable", "pullOffsetTable"):
        table = document.get(name)
        if table is None:
            document.pop(name, None)
            continue
        if not isinstance(table, dict):
            raise RemoteProtocolError(f"{name} must be an object, not {json_kind(table)}")
        for key, queues in table.items():
            if not isinstance(queues, dict):
                raise RemoteProtocolError(f"{name}.{key} must be an object, not {json_kind(queues)}")
            table[key] = {_number(queue_id): offset for queue_id, offset in queues.items()}
    if not isinstance(document.get("groupTopicMap", {}), dict):
        document.pop("groupTopicMap")
    return document


def _number(text: Any) -> Any:
    number = whole_number(text) if isinstance(text, str) else None
    return text if number is None else number

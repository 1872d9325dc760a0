"""Taking a store's JSON state along when its queues are renumbered.

Consumer and delay offsets count messages, so they are translated: the consumer reads on with the message it
would have read next, or the first one kept behind it. Other files are copied. Of a file that cannot be read
its backup is taken, as RocketMQ would. Timer state is left behind: it points into the old log; RocketMQ
then reads the timer topic again from its start.
"""

from __future__ import annotations

import json
import os
from typing import Any

from flaremq.java_json import parse_java_json
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.dispatch.record_views import number_or
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, write_atomically
from flaremq.storage.rescue.relocation import Relocation

_LEFT_BEHIND = ("timercheck", "timermetrics")
_TRANSLATED = ("consumerOffset.json", "delayOffset.json")


def copy_config(filesystem: FileSystem, source: str, target: str, relocation: Relocation) -> list[str]:
    """Copy ``config``; what could not be taken along, as sentences."""
    complaints: list[str] = []
    names = [name for name in filesystem.list_directory(source) if not name.startswith(_LEFT_BEHIND)]
    if names:
        filesystem.make_directories(target)
    for name in names:
        path = os.path.join(source, name)
        if name.startswith(_TRANSLATED) and name not in _TRANSLATED:
            continue  # their backups hold untranslated offsets
        if filesystem.is_directory(path):
            complaints.append(f"{path} is a folder and was left out")
            continue
        data = read_small_file(filesystem, path)
        if data is None:
            continue
        if name.endswith(".json"):
            state = _readable(filesystem, path, data)
            if state is None:
                complaints.append(f"neither {path} nor its backup can be read; it was left out")
                continue
            data, value = state
            if name in _TRANSLATED:
                _translate(name, value, relocation)
                data = json.dumps(value, indent=1).encode()
        write_atomically(filesystem, os.path.join(target, name), data)
    return complaints


def _readable(filesystem: FileSystem, path: str, data: bytes) -> tuple[bytes, Any] | None:
    for candidate in (data, read_small_file(filesystem, path + ".bak")):
        if candidate:
            try:
                return candidate, parse_java_json(candidate.decode())
            except (UnicodeDecodeError, ValueError, RecursionError):
                continue
    return None


def _translate(name: str, value: Any, relocation: Relocation) -> None:
    table = value.get("offsetTable") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        return
    if name == "delayOffset.json":
        for level, offset in table.items():
            number = number_or(level, 0)
            if number > 0 and isinstance(offset, int):
                table[level] = relocation.queue_map(SCHEDULE_TOPIC, number - 1).position(offset)
        return
    for topic_and_group, offsets in table.items():
        topic = topic_and_group.partition("@")[0]
        if isinstance(offsets, dict):
            for queue_id, offset in offsets.items():
                number = number_or(queue_id, -1)
                if number >= 0 and isinstance(offset, int):
                    offsets[queue_id] = relocation.queue_map(topic, number).position(offset)

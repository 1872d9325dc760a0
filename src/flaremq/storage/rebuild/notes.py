"""What our own files must know about rebuilt views: how far the queues reach, and the state of the newest index file.

``flaremq.queues`` and ``flaremq.offsets`` are how opening a store knows that nothing is missing. If they spoke of the
old views (another name of the newest index file is enough), opening would build them once more, one record after the
other. A store that only RocketMQ has used has neither file and needs neither.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flaremq.storage.files.checkpoint import DurableOffsets, OffsetsFile, pack_hints
from flaremq.storage.files.filesystem import LocalFileSystem, write_atomically
from flaremq.storage.files.layout import StoreLayout, is_file_name


@dataclass(frozen=True, slots=True)
class ViewNotes:
    """``log_end``: up to here the log was walked; ``index``: the fields of DurableOffsets about the newest index file,
    None if there was no index to build."""

    log_end: int
    queues: tuple[tuple[str, int, int], ...] = ()  # topic, queue id, end
    index: dict[str, int] | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> ViewNotes:
        return cls(data["log_end"], tuple((topic, number, end) for topic, number, end in data["queues"]), data["index"])


def apply_notes(layout: StoreLayout, notes: ViewNotes) -> None:
    """Write them down, hints before offsets as a checkpoint does; may be repeated."""
    filesystem = LocalFileSystem()
    if OffsetsFile.peek(filesystem, layout.offsets) is None:
        return
    file = OffsetsFile.open(filesystem, layout.offsets, layout.root)
    try:
        offsets = file.offsets
        if notes.index is not None:
            cleared = {name: 0 for name in DurableOffsets.__slots__ if name.startswith("index_")}
            offsets = replace(offsets, **{**cleared, **notes.index})
        if filesystem.exists(layout.abort) and notes.log_end > offsets.dispatched:
            # After a crash: recovery goes on where the views now end. First the log must be on disk as far as that.
            _sync_log(filesystem, layout, offsets.log_durable)
            durable = max(offsets.log_durable, notes.log_end)
            offsets = replace(offsets, dispatched=notes.log_end, log_durable=durable)
        hints = {"dispatched": offsets.dispatched, "logEnd": offsets.log_end, "queues": sorted(map(list, notes.queues))}
        write_atomically(filesystem, layout.queue_hints, pack_hints(hints))
        file.save(offsets)
    finally:
        file.close()


def _sync_log(filesystem: LocalFileSystem, layout: StoreLayout, durable: int) -> None:
    paths = [
        os.path.join(folder, name)
        for folder in layout.commit_log_paths
        for name in filesystem.list_directory(folder)
        if is_file_name(name)
    ]
    for path in paths:
        if int(os.path.basename(path)) + filesystem.size(path) > durable:
            handle = filesystem.open(path)
            try:
                handle.sync()
            finally:
                handle.close()
    for folder in layout.commit_log_paths:
        filesystem.sync_directory(folder)

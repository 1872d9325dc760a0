"""How far consumer groups are: from ``config/consumerOffset.json`` of a store, from the brokers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flaremq.client.admin.admin import Admin
from flaremq.client.blocking import LoopThread
from flaremq.client.options import ClientOptions
from flaremq.digits import whole_number
from flaremq.errors import NotFoundError, ReplyError
from flaremq.java_json import parse_java_json
from flaremq.pipeline.model.source import SourceSpec
from flaremq.pipeline.model.spans import QueueExtent, QueueRef
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.layout import StoreLayout


@dataclass(frozen=True, slots=True, order=True)
class GroupLag:
    """A group in one queue: the next offset it consumes, and what lies between that and the queue's end."""

    group: str
    topic: str
    broker: str
    queue_id: int
    committed_offset: int
    lag: int


def group_lags(spec: SourceSpec, extents: Iterable[QueueExtent]) -> list[GroupLag]:
    """Every group of a source, sorted; none for an archive alone. ``extents`` must cover all topics of a store."""
    if spec.name_server is not None:
        return sorted(_on_own_loop(spec.name_server, spec.wire.client))
    ends = {extent.queue: extent.max_offset for extent in extents}
    return sorted(lag for broker, path in spec.paths for lag in _of_store(broker, path, ends))


def delay_offsets(spec: SourceSpec) -> dict[tuple[str, int], int]:
    """(broker, delay level) → next offset to deliver, as the stores noted it."""
    found: dict[tuple[str, int], int] = {}
    for broker, path in spec.paths:
        for level, offset in _offset_table(path, "delayOffset.json").items():
            number = whole_number(level)
            if number is not None and isinstance(offset, int):
                found[broker, number] = offset
    return found


def _of_store(broker: str, path: str, ends: Mapping[QueueRef, int]) -> Iterable[GroupLag]:
    for name, offsets in _offset_table(path, "consumerOffset.json").items():
        topic, at, group = name.partition("@")
        if not (at and group and isinstance(offsets, dict)):
            continue
        for queue_id, offset in offsets.items():
            number = whole_number(queue_id)
            if number is not None and isinstance(offset, int):
                end = ends.get(QueueRef(topic, broker, number), offset)
                yield GroupLag(group, topic, broker, number, offset, max(end - offset, 0))


def _offset_table(path: str, name: str) -> dict[str, Any]:
    """``offsetTable`` of a config file or its backup, as RocketMQ would load it; empty if neither can be read."""
    file = os.path.join(StoreLayout(path).config, name)
    for candidate in (file, file + ".bak"):
        data = read_small_file(LocalFileSystem(), candidate)
        if not data:
            continue
        try:
            table = parse_java_json(data.decode())["offsetTable"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(table, dict):
            return {str(key): value for key, value in table.items()}
    return {}


def _on_own_loop(name_server: str, options: ClientOptions) -> list[GroupLag]:
    """The caller may be a notebook, which runs a loop already."""
    loop = LoopThread("flaremq-lag")
    try:
        return loop.call(_of_cluster(name_server, options))
    finally:
        loop.close()


async def _of_cluster(name_server: str, options: ClientOptions) -> list[GroupLag]:
    lags: list[GroupLag] = []
    async with Admin(name_server, options=options) as admin:
        for group in await admin.list_groups():
            try:
                progress = await admin.group_progress(group)
            except (ReplyError, NotFoundError):
                continue  # a group that has consumed nothing yet
            for queue, entry in progress.offset_table.items():
                behind = max(entry.broker_offset - max(entry.consumer_offset, 0), 0)
                lags.append(
                    GroupLag(group, queue.topic, queue.broker_name, queue.queue_id, entry.consumer_offset, behind)
                )
    return lags

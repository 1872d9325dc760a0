"""The answer of ``store info``: one JSON object, or the same as tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flaremq.cli import output as out

if TYPE_CHECKING:
    from flaremq.storage.at_rest.outlook import RecoveryOutlook
    from flaremq.storage.at_rest.reader import StoreReader


def describe(
    reader: StoreReader, *, page_cache: bool = False, on_progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Everything ``store info`` says, ready for JSON."""
    from flaremq.storage.at_rest.outlook import outlook_of

    outlook = outlook_of(reader, on_progress)
    batch_topics = {queue.topic for queue in reader.queues if queue.is_batch}
    run = reader.log.run
    result: dict[str, Any] = {
        "path": reader.layout.root,
        "commitLog": {
            "minOffset": reader.log_min,
            "maxOffset": outlook.log_end,
            "fileSize": run.file_size,
            "paths": list(reader.layout.commit_log_paths),
            "files": [
                {
                    "name": os.path.basename(file.path),
                    "path": file.path,
                    "startOffset": file.start,
                    "size": file.size,
                }
                for file in run.files
            ],
        },
        "queues": [
            {
                "topic": topic,
                "queueId": queue_id,
                "minOffset": span.min_offset,
                "maxOffset": span.max_offset,
                "type": "BatchCQ" if topic in batch_topics else "SimpleCQ",
            }
            for (topic, queue_id), span in outlook.queues.items()
        ],
        "index": _describe_index(reader),
        "checkpoint": reader.checkpoint,
        "closedCleanly": reader.closed_cleanly,
        "recovery": describe_outlook(outlook),
    }
    if page_cache:
        _add_page_cache(reader, result)
    return result


def describe_outlook(outlook: RecoveryOutlook) -> dict[str, Any]:
    """What opening the store would do."""
    return {
        "needed": outlook.changes_anything,
        "logEnd": outlook.log_end,
        "truncatedBytes": outlook.tail.leftover_bytes,
        "unconfirmedRecordsFollow": outlook.tail.records_follow,
        "reason": outlook.tail.reason if outlook.tail.leftover_bytes else None,
        "damagedRanges": [
            {"start": lost.start, "end": lost.end, "path": lost.path, "reason": lost.reason} for lost in outlook.damaged
        ],
        "redispatchFrom": outlook.redispatch_from,
        "undispatchedMessages": outlook.undispatched_messages,
        "surplusQueueUnits": outlook.surplus_units,
        "emptyLogFiles": outlook.empty_log_files,
        "loss": outlook.loss,
    }


def _describe_index(reader: StoreReader) -> dict[str, Any]:
    indexes = reader.indexes
    geometry = next((index.geometry for index in indexes if index.geometry is not None), None)
    return {
        "slots": None if geometry is None else geometry.slots,
        "entries": None if geometry is None else geometry.entries,
        "files": [
            {
                "name": index.name,
                "path": index.path,
                "size": index.size,
                "used": index.header.index_count - 1,
                "beginTimestamp": index.header.begin_timestamp,
                "endTimestamp": index.header.end_timestamp,
                "beginOffset": index.header.begin_offset,
                "endOffset": index.header.end_offset,
            }
            for index in indexes
        ],
    }


def _add_page_cache(reader: StoreReader, result: dict[str, Any]) -> None:
    for file in (*result["commitLog"]["files"], *result["index"]["files"]):
        file["inMemory"] = _share_in_memory(reader, file["path"], file["size"])
    for entry, queue in zip(result["queues"], _queues_in_order(reader, result), strict=True):
        shares = [] if queue is None else [
            (_share_in_memory(reader, file.path, file.size), file.size) for file in queue.run.files
        ]  # fmt: skip
        total = sum(size for _, size in shares)
        entry["inMemory"] = round(sum(share * size for share, size in shares) / total, 4) if total else 0.0


def _queues_in_order(reader: StoreReader, result: dict[str, Any]) -> list[Any]:
    by_place = {(queue.topic, queue.queue_id): queue for queue in reader.queues}
    return [by_place.get((entry["topic"], entry["queueId"])) for entry in result["queues"]]


def _share_in_memory(reader: StoreReader, path: str, size: int) -> float:
    """The share of a file's pages the kernel holds in memory (mincore)."""
    if size == 0:
        return 0.0
    handle = reader.filesystem.open(path, read_only=True)
    try:
        pages = handle.map(size, read_only=True).resident(0, size)
    finally:
        handle.close()
    return round(sum(page & 1 for page in pages) / len(pages), 4)


def show(result: dict[str, Any], output: str | None) -> None:
    out.print_object(result, output, lambda: _show_tables(result))


def _show_tables(result: dict[str, Any]) -> None:
    log, recovery = result["commitLog"], result["recovery"]
    closed = "closed cleanly" if result["closedCleanly"] else "not closed cleanly"
    print(f"{result['path']}: {closed}")
    size = f"{len(log['files'])} file(s) of {log['fileSize']} bytes"
    print(f"log {log['minOffset']} to {log['maxOffset']}, {size}")
    if recovery["needed"]:
        print(
            f"opening it would cut {recovery['truncatedBytes']} bytes at {recovery['logEnd']}, "
            f"write {recovery['undispatchedMessages']} queue unit(s), drop {recovery['surplusQueueUnits']}, "
            f"step over {len(recovery['damagedRanges'])} damaged range(s)"
        )
    if recovery["loss"]:
        print(recovery["loss"])
    in_memory = ("inMemory",) if any("inMemory" in file for file in log["files"]) else ()
    out.print_rows(log["files"], out.TABLE, columns=("name", "size", *in_memory), title="\nlog files")
    columns = ("topic", "queueId", "minOffset", "maxOffset", "type", *in_memory)
    out.print_rows(result["queues"], out.TABLE, columns=columns, title="\nqueues")
    columns = ("name", "size", "used", "beginOffset", "endOffset", *in_memory)
    out.print_rows(result["index"]["files"], out.TABLE, columns=columns, title="\nindex files")
    if result["checkpoint"] is not None:
        out.print_record(result["checkpoint"], title="\ncheckpoint")

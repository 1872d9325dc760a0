"""ArchiveTask: one piece of the log into Parquet files, in a Python worker; bodies pass through nothing else.

A task that is run again writes the same files under the same names. When all of them are durable it leaves a
*receipt*, so that a run whose driver died before the commit loses none of the finished work: the next run finds the
receipts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson
import pyarrow as pa

from flaremq.errors import CorruptionError
from flaremq.pipeline.archive_buffer import ArchiveBuffer, OpenRun, day_text
from flaremq.pipeline.archive_entries import ArchiveFile, QueueRun, file_from_json
from flaremq.pipeline.archive_parquet import row_costs, schema_for, write_parquet
from flaremq.pipeline.archive_root import METADATA, ArchiveRoot, partition_folder
from flaremq.pipeline.columns import ALL_SCHEMA
from flaremq.pipeline.source import ReadRequest, SourceSpec, open_source
from flaremq.pipeline.spans import Span
from flaremq.storage.bodies import AS_STORED, BodyRule

PENDING: Final = f"{METADATA}/pending"
BUFFER_BYTES: Final = 64 << 20  # rows held to be sorted; then a file ends. A worker stays below 512 MB by it


@dataclass(frozen=True, slots=True)
class ArchiveTask:
    """Spans to archive, those of one queue in order; picklable."""

    archive: str
    spec: SourceSpec
    spans: tuple[Span, ...]
    fail_on_data_loss: bool = True
    buffer_bytes: int = BUFFER_BYTES

    @property
    def name(self) -> str:
        """Told by the spans alone, so a repetition has it too."""
        text = orjson.dumps([(*span.queue, span.start, span.end) for span in self.spans])
        return hashlib.blake2b(text, digest_size=8).hexdigest()


def run_archive_task(task: ArchiveTask) -> list[ArchiveFile]:
    """Read the spans, write the files, leave the receipt."""
    with open_source(task.spec) as source:
        # No byte is lost here: a body that cannot be inflated is kept as it is stored, beside the reason.
        bodies = BodyRule(AS_STORED)
        request = ReadRequest(ALL_SCHEMA, fail_on_data_loss=task.fail_on_data_loss, bodies=bodies)
        return archive_batches(task, source.read(task.spans, request))


def archive_batches(task: ArchiveTask, batches: Iterable[pa.RecordBatch]) -> list[ArchiveFile]:
    """The same for batches at hand."""
    root = ArchiveRoot(task.archive)
    buffer = ArchiveBuffer(task.spans)
    files: list[ArchiveFile] = []
    held = 0
    part = 0
    for batch in batches:
        rest = batch
        while rest.num_rows:
            costs = np.cumsum(row_costs(rest))
            if held + costs[-1] < task.buffer_bytes:
                buffer.add(rest)
                held += int(costs[-1])
                break
            # Cut at the exact row, so that the files do not depend on how the source cut its batches.
            count = int(np.searchsorted(costs, task.buffer_bytes - held)) + 1
            buffer.add(rest.slice(0, count))
            files += _write_files(root, task.name, part, buffer)
            held, part = 0, part + 1
            rest = rest.slice(count)
    empty = buffer.finish()
    files += _write_files(root, task.name, part, buffer)
    files += _without_file(empty)
    _leave_receipt(root, task, files)
    return files


def read_receipts(root: ArchiveRoot) -> Iterator[tuple[str, list[ArchiveFile]]]:
    """Path and content of each receipt."""
    for path in root.list(PENDING):
        if path.endswith(".receipt.json"):
            try:
                entries = orjson.loads(root.read_bytes(path))
            except ValueError as error:
                raise CorruptionError("a receipt cannot be read; remove it", path=root.full_path(path)) from error
            yield path, [file_from_json(entry) for entry in entries]


def receipt_path(name: str) -> str:
    return f"{PENDING}/{name}.receipt.json"


def _leave_receipt(root: ArchiveRoot, task: ArchiveTask, files: list[ArchiveFile]) -> None:
    root.write_bytes(receipt_path(task.name), orjson.dumps([file.to_json() for file in files]))


def _write_files(root: ArchiveRoot, name: str, part: int, buffer: ArchiveBuffer) -> list[ArchiveFile]:
    files = []
    for (topic, day_number), runs in sorted(buffer.drain().items()):
        day = day_text(day_number)
        path = f"{partition_folder(topic, day)}/part-{name}-{part:03d}.parquet"
        entries = tuple(run.closed() for run in runs)
        schema = schema_for(batch for run in runs for batch in run.batches)
        with root.replacing(path) as file:
            written = write_parquet(file, _released(runs), schema)
        files.append(
            ArchiveFile(
                topic,
                day,
                path,
                written.rows,
                written.size_bytes,
                written.sha256,
                written.tail_bytes,
                written.tail_crc32,
                entries,
            )
        )
    return files


def _released(runs: list[OpenRun]) -> Iterator[pa.RecordBatch]:
    """The batches of the runs; each is let go when the writer has it."""
    for run in runs:
        batches, run.batches = run.batches, []
        batches.reverse()
        while batches:
            yield batches.pop()


def _without_file(empty: list[QueueRun]) -> list[ArchiveFile]:
    by_topic: dict[str, list[QueueRun]] = {}
    for run in empty:
        by_topic.setdefault(run.queue.topic, []).append(run)
    return [ArchiveFile(topic, "", None, 0, 0, "", 0, 0, tuple(runs)) for topic, runs in sorted(by_topic.items())]

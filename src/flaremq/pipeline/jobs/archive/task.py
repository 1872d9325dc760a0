"""ArchiveTask: one piece of the log into Parquet files, in a Python worker; bodies pass through nothing else.

A task that is run again writes the same files. When all of them are durable it leaves a *receipt*, so that a run whose
driver died before the commit loses none of the finished work: the next run finds the receipts.

On a local disk the files of a repetition have the same names: each takes its place whole, so nobody can tell. An object
that is being replaced can be lost if the writer fails, so there each attempt has names of its own, which begin with
that of its run, and only those of the attempt whose receipt is committed count. It leaves a note before it writes, by
which the others' are found.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson
import pyarrow as pa

from flaremq.errors import CorruptionError, NotFoundError, UnavailableError
from flaremq.pipeline.archive.entries import ArchiveFile, QueueRun, file_from_json
from flaremq.pipeline.archive.parquet import portions, schema_for, write_parquet
from flaremq.pipeline.archive.root import METADATA, ArchiveRoot, partition_folder
from flaremq.pipeline.jobs.archive.buffer import ArchiveBuffer, DrainedRuns, OpenRun, day_text
from flaremq.pipeline.model.columns import ALL_SCHEMA
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.sources.open import open_source
from flaremq.storage.arrow.bodies import AS_STORED, BodyRule

_log = logging.getLogger(__name__)
PENDING: Final = f"{METADATA}/pending"
RECEIPT: Final = ".receipt.json"
BEGUN: Final = ".begun.json"
PREFIX: Final = "part-"  # of the names of data files
BUFFER_BYTES: Final = (
    64 << 20
)  # rows held to be sorted; then a file ends. A worker with one and a half stays below 512 MB


@dataclass(frozen=True, slots=True)
class ArchiveTask:
    """Spans to archive, those of one queue in order; picklable."""

    archive: str
    spec: SourceSpec
    spans: tuple[Span, ...]
    fail_on_data_loss: bool = True
    buffer_bytes: int = BUFFER_BYTES
    salt: str = ""  # for names that files of the same spans do not have
    run: str = "0"  # what files and notes in an object store begin with

    @property
    def name(self) -> str:
        """Told by the spans (and the salt) alone, so a repetition has it too."""
        text = orjson.dumps([(*span.queue, span.start, span.end) for span in self.spans])
        return hashlib.blake2b(text, digest_size=8, key=self.salt.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an attempt at a task wrote, and where messages should have been and were not. It lies at ``path``."""

    path: str
    files: tuple[ArchiveFile, ...]
    lost: tuple[Span, ...] = ()

    def to_json(self) -> dict[str, Any]:
        lost = [(*span.queue, span.start, span.end) for span in self.lost]
        return {"files": [file.to_json() for file in self.files], "lost": lost}

    @classmethod
    def from_json(cls, path: str, value: Any) -> Receipt:
        lost = [Span(QueueRef(*place), start, end) for *place, start, end in value["lost"]]
        return cls(path, tuple(file_from_json(entry) for entry in value["files"]), tuple(lost))


def run_archive_task(task: ArchiveTask) -> Receipt:
    """Read the spans, write the files, leave the receipt."""
    with ExitStack() as opened:
        source = opened.enter_context(open_source(task.spec))
        is_lost = None
        if not task.fail_on_data_loss:
            is_lost = _Losses(opened, task.spec).is_lost
        return archive_batches(task, source.read(task.spans, _request(task.fail_on_data_loss)), is_lost)


def _request(fail_on_data_loss: bool) -> ReadRequest:
    """No byte is lost here: a body that cannot be inflated is kept as it is stored, beside the reason."""
    return ReadRequest(ALL_SCHEMA, fail_on_data_loss=fail_on_data_loss, bodies=BodyRule(AS_STORED))


class _Losses:
    """Reads once more, and strictly, where no row came: an error there says that one should have."""

    def __init__(self, opened: ExitStack, spec: SourceSpec) -> None:
        self._opened = opened
        self._spec = spec
        self._source: Source | None = None

    def is_lost(self, hole: Span) -> bool:
        if self._source is None:  # another one: that which gives the rows is busy
            self._source = self._opened.enter_context(open_source(self._spec))
        try:
            return any(batch.num_rows for batch in self._source.read([hole], _request(True)))
        except (CorruptionError, UnavailableError) as error:
            _log.warning("offsets [%d, %d) of %s are not archived: %s", hole.start, hole.end, hole.queue, error)
            return True


def archive_batches(
    task: ArchiveTask, batches: Iterable[pa.RecordBatch], is_lost: Callable[[Span], bool] | None = None
) -> Receipt:
    """The same for batches at hand."""
    root = ArchiveRoot(task.archive, task.spec.objects)
    name = task.name if root.is_local else f"{task.run}-{task.name}-{uuid.uuid4().hex[:8]}"
    if not root.is_local:
        topics = sorted({span.queue.topic for span in task.spans})
        root.write_bytes(f"{PENDING}/{name}{BEGUN}", orjson.dumps({"topics": topics}))
    buffer = ArchiveBuffer(task.spans, is_lost)
    held = 0
    with _WritingBehind(root, name) as behind:
        for batch in batches:
            for rows, cost, is_full in portions(batch, held, task.buffer_bytes):
                buffer.add(rows)
                held += cost
                if is_full:
                    behind.write(buffer.drain())
                    held = 0
                elif held > task.buffer_bytes // 2:
                    behind.wait_for_memory()
        empty = buffer.finish()
        behind.write(buffer.drain())
        files = [*behind.files(), *_without_file(empty)]
    receipt = Receipt(f"{PENDING}/{name}{RECEIPT}", tuple(files), tuple(buffer.lost))
    root.write_bytes(receipt.path, orjson.dumps(receipt.to_json()))
    return receipt


def read_receipts(root: ArchiveRoot, pending: Iterable[str]) -> Iterator[Receipt]:
    """Every receipt among these files."""
    for path in pending:
        if path.endswith(RECEIPT):
            try:
                yield Receipt.from_json(path, orjson.loads(root.read_bytes(path)))
            except NotFoundError:
                continue  # committed this moment, by the run it is of
            except (ValueError, KeyError, TypeError) as error:
                raise CorruptionError("a receipt cannot be read; remove it", path=root.full_path(path)) from error


class _WritingBehind:
    """Files are compressed, written and synced while the next rows are read: the disk is as slow as all the rest.

    One set at a time. When half of the next is read, its rows have left memory; the disk may still be busy with them.
    """

    def __init__(self, root: ArchiveRoot, name: str) -> None:
        self._root = root
        self._name = name
        self._parts = 0
        self._done: list[ArchiveFile] = []
        self._thread = ThreadPoolExecutor(1, "flaremq-archive")
        self._is_written = threading.Event()
        self._running: Future[list[ArchiveFile]] | None = None

    def write(self, drained: DrainedRuns) -> None:
        """Begin to write these; waits for the set before, and raises what became of that."""
        self._wait()
        self._is_written.clear()
        self._running = self._thread.submit(self._write, self._parts, drained)
        self._parts += 1

    def wait_for_memory(self) -> None:
        """Return when the rows of the set that is being written are let go."""
        if self._running is not None:
            self._is_written.wait()

    def _write(self, part: int, drained: DrainedRuns) -> list[ArchiveFile]:
        try:
            return _write_files(self._root, self._name, part, drained, self._is_written)
        finally:
            self._is_written.set()

    def files(self) -> list[ArchiveFile]:
        """All files, in the order of their rows, each durable."""
        self._wait()
        return self._done

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            self._done += running.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown()


def _write_files(
    root: ArchiveRoot, name: str, part: int, drained: DrainedRuns, is_written: threading.Event
) -> list[ArchiveFile]:
    """``is_written`` is set when the last file has its rows and is only to be synced."""
    files = []
    for left, ((topic, day_number), runs) in enumerate(sorted(drained.items()), 1 - len(drained)):
        day = day_text(day_number)
        path = f"{partition_folder(topic, day)}/{PREFIX}{name}-{part:03d}.parquet"
        entries = tuple(run.closed() for run in runs)
        schema = schema_for(batch for run in runs for batch in run.batches)
        with root.replacing(path) as file:
            written = write_parquet(file, _released(runs), schema)
            if not left:
                is_written.set()
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

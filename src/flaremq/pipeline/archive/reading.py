"""Reading one run out of a data file: the row groups that can hold it, the columns asked for, the rows of its queue.

Page checksums are verified on every read, and the number of rows is compared with the manifest, so damage is found by
whoever reads it first.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flaremq.errors import CorruptionError, NotFoundError
from flaremq.pipeline.archive.entries import ArchiveFile
from flaremq.pipeline.archive.manifest import ArchiveSegment
from flaremq.pipeline.archive.parquet import BODY_ERROR
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.model.source import ReadRequest
from flaremq.pipeline.model.spans import Span
from flaremq.storage.arrow.bodies import BodyReader

_PLACE: Final = ("brokerName", "queueId", "queueOffset")
_BATCH_BYTES: Final = 4 << 20
_BATCH_ROWS: Final = 131_072


class ArchiveFiles:
    """The open data files of one reader; the few last used stay open, with their footers parsed."""

    def __init__(self, root: ArchiveRoot, open_max: int = 8) -> None:
        self._root = root
        self._open_max = open_max
        self._files: dict[str, pq.ParquetFile] = {}

    def rows(
        self, segment: ArchiveSegment, part: Span, columns: Collection[str], *, groups: Collection[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The run's rows within ``part``, in order, with these columns and their place."""
        path = segment.path
        if path is None:
            return
        names = list(dict.fromkeys([*_PLACE, *(name for name in columns if name != "topic")]))
        count = 0
        with self._damage_told(path):
            file = self._open(segment.file)
            if BODY_ERROR not in file.metadata.schema.names:
                names = [name for name in names if name != BODY_ERROR]
            elif "body" in names and BODY_ERROR not in names:
                names.append(BODY_ERROR)
            wanted = [at for at in _groups(file.metadata, part) if groups is None or at in groups]
            for at in wanted:
                size = _batch_rows(file.metadata.row_group(at), names)
                for batch in file.iter_batches(size, row_groups=[at], columns=names, use_threads=False):
                    rows = _of_span(batch, part)
                    count += rows.num_rows
                    if rows.num_rows:
                        yield rows
        run = segment.run
        if groups is None and part.start <= run.start and run.end <= part.end and count != run.messages:
            raise CorruptionError(
                f"an archive file does not hold what its manifest says of {run.queue} [{run.start}, {run.end})",
                path=self._root.full_path(path),
                expected=run.messages,
                found=count,
            )

    def groups_by_time(self, segment: ArchiveSegment, part: Span, timestamp_ms: int) -> list[int]:
        """The row groups that may hold a message of the part stored at this time or later."""
        path = segment.path
        if path is None:
            return []
        with self._damage_told(path):
            metadata = self._open(segment.file).metadata
            wanted = []
            for at in _groups(metadata, part):
                latest = _bounds(metadata.row_group(at), "storeTimestamp")
                if latest is None or latest[1].timestamp() * 1000 >= timestamp_ms:
                    wanted.append(at)
            return wanted

    def groups(self, segment: ArchiveSegment, part: Span) -> list[int]:
        if segment.path is None:
            return []
        with self._damage_told(segment.path):
            return _groups(self._open(segment.file).metadata, part)

    def close(self) -> None:
        for file in self._files.values():
            file.close(force=True)
        self._files.clear()

    def _open(self, entry: ArchiveFile) -> pq.ParquetFile:
        path = entry.path
        assert path is not None
        file = self._files.pop(path, None)
        if file is None:
            while len(self._files) >= self._open_max:
                oldest = next(iter(self._files))
                self._files.pop(oldest).close(force=True)
            try:
                content = self._root.open_input(path)
            except NotFoundError:  # merged with others since the manifest was loaded
                content = self._root.open_set_aside(path)
            self._check_tail(entry, content)
            file = pq.ParquetFile(content, page_checksum_verification=True, pre_buffer=False)
        self._files[path] = file
        return file

    def _check_tail(self, entry: ArchiveFile, content: Any) -> None:
        """The footer says where every page is and has no checksum of its own; the manifest has."""
        full = self._root.full_path(entry.path or "")
        if content.size() != entry.size_bytes:
            raise CorruptionError(
                "a file of the archive has another size", path=full, expected=entry.size_bytes, found=content.size()
            )
        content.seek(entry.size_bytes - entry.tail_bytes)
        found = zlib.crc32(content.read(entry.tail_bytes))
        if found != entry.tail_crc32:
            raise CorruptionError(
                "the footer of an archive file is damaged", path=full, expected=entry.tail_crc32, found=found
            )

    @contextlib.contextmanager
    def _damage_told(self, path: str) -> Iterator[None]:
        full = self._root.full_path(path)
        try:
            yield
        except NotFoundError as error:
            raise CorruptionError("a file of the archive is missing", path=full) from error
        except (pa.ArrowException, OSError) as error:
            self._root.raise_if_unreachable(path, error)
            raise CorruptionError("a file of the archive is damaged", path=full, found=str(error)) from error


def shaped(rows: pa.RecordBatch, topic: str, request: ReadRequest, bodies: BodyReader) -> pa.RecordBatch:
    """The rows with the tags wanted, as the request's schema has them."""
    if request.tags:
        rows = rows.filter(pc.is_in(rows.column("tags"), pa.array(sorted(request.tags), pa.string())))
    errors = rows.column(BODY_ERROR) if BODY_ERROR in rows.schema.names else pa.nulls(rows.num_rows, pa.string())
    arrays = []
    for field in request.schema:
        if field.name == "topic":
            values = pa.repeat(pa.scalar(topic, pa.string()), rows.num_rows)
        elif field.name == BODY_ERROR:
            values = errors
        elif field.name == "body" and errors.null_count < len(errors):
            values = _bodies(rows, topic, errors, bodies)
        else:
            values = rows.column(field.name)
        arrays.append(values if values.type == field.type else _cast(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=request.schema)


def _bodies(rows: pa.RecordBatch, topic: str, errors: pa.Array, bodies: BodyReader) -> pa.Array:
    """The bodies, with those that could not be inflated when they were archived as the request wants them."""
    values: list[bytes | None] = rows.column("body").to_pylist()
    for at, error in enumerate(errors.to_pylist()):
        if error is not None:
            queue, offset = rows.column("queueId")[at].as_py(), rows.column("queueOffset")[at].as_py()
            values[at] = bodies.bad(f"{topic}/{queue}, queue offset {offset}", error, values[at]).value
    return pa.array(values, pa.binary())


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        if not (pa.types.is_binary(values.type) and (pa.types.is_string(kind) or pa.types.is_large_string(kind))):
            raise
        texts = (None if value is None else str(value, "utf-8", "replace") for value in values.to_pylist())
        return pa.array(list(texts), kind)


def _groups(metadata: Any, part: Span) -> list[int]:
    """The row groups whose statistics do not rule the part out."""
    found = []
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        queue_ids, offsets = _bounds(group, "queueId"), _bounds(group, "queueOffset")
        if queue_ids is not None and not queue_ids[0] <= part.queue.queue_id <= queue_ids[1]:
            continue
        # Offsets of several queues mix in one group only where its bounds span them all, so this never cuts too much.
        if offsets is not None and (offsets[1] < part.start or offsets[0] >= part.end):
            continue
        found.append(at)
    return found


def _bounds(group: Any, name: str) -> tuple[Any, Any] | None:
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == name:
            statistics = column.statistics
            if statistics is None or not statistics.has_min_max:
                return None
            return statistics.min, statistics.max
    return None


def _batch_rows(group: Any, names: Collection[str]) -> int:
    size = 0
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema.partition(".")[0] in names:
            size += column.total_uncompressed_size
    return int(min(_BATCH_ROWS, max(16, _BATCH_BYTES * group.num_rows // max(1, size))))


def _of_span(batch: pa.RecordBatch, part: Span) -> pa.RecordBatch:
    offsets = batch.column("queueOffset").to_numpy()
    keep = (batch.column("queueId").to_numpy() == part.queue.queue_id) & (offsets >= part.start) & (offsets < part.end)
    if not keep.any():
        return batch.slice(0, 0)
    brokers = pc.equal(batch.column("brokerName"), part.queue.broker).to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(keep & brokers)
    if not len(chosen):
        return batch.slice(0, 0)
    # Rows are sorted by queue and offset, so those of one queue lie together.
    return batch.slice(int(chosen[0]), int(chosen[-1] - chosen[0]) + 1)

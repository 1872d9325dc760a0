"""IcebergTable: a table of a catalog. What it covers stands in the summary of the snapshot that made it so.

PyIceberg tries a commit again by itself when another was faster. That would add messages twice which the other had
brought already, so its repetition is switched off and each try looks at what the newest snapshot covers first.

The newest of our summaries counts, found by going back from the current snapshot; others may have committed since
(Spark deleting rows, another engine compacting), or the table was rolled back. Only when expiry by others has taken
all of ours, the table's properties tell, where the same stands once more.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.model.object_settings import settings_of_table
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.tables.iceberg import snapshots
from flaremq.pipeline.tables.iceberg.append import Append
from flaremq.pipeline.tables.iceberg.asking import UNSURE, asked, refresh, refusal
from flaremq.pipeline.tables.iceberg.catalog import open_catalog
from flaremq.pipeline.tables.iceberg.data_files import data_file, live_file, partition_fields
from flaremq.pipeline.tables.iceberg.replaced import forget_replaced, note_replaced, replaced_since
from flaremq.pipeline.tables.iceberg.rewrite import Rewrite
from flaremq.pipeline.tables.iceberg.transaction import TableTransaction
from flaremq.pipeline.tables.model.coverage import Coverage, Covered, coverage_from_text, coverage_text, restricted
from flaremq.pipeline.tables.model.lake_table import FileLayout
from flaremq.pipeline.tables.model.partitions import PartitionField
from flaremq.pipeline.tables.model.staged import LiveFile, StagedFile, TableCommit
from flaremq.pipeline.tables.model.target import TableTarget

_log = logging.getLogger(__name__)
OFFSETS: Final = "flaremq.offsets"
RUN: Final = "flaremq.run"
_TRIES: Final = 20
_SCHEME: Final = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*:)?/+")
_SORTED_BY: Final = ("topic", "brokerName", "queueId", "queueOffset")

# A commit must cost the same however many there were: manifests are merged, old metadata is removed.
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "16",
    "commit.manifest.target-size-bytes": str(1 << 20),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.metrics.column.body": "none",
    "write.metadata.metrics.column.properties.key": "none",
    "write.metadata.metrics.column.properties.value": "none",
}


class IcebergTable:
    """See ``LakeTable``."""

    def __init__(self, target: TableTarget, table: Table) -> None:
        self.name = target.text
        # A catalog may hand out an account for each table.
        self._objects = settings_of_table(table.io.properties) | dict(target.objects)
        self.root = ArchiveRoot(table.location(), self._objects)
        self._table = table
        self._trimmer = snapshots.Trimmer()
        self._catalog = target.catalog
        self._failure = ""  # of the last commit

    @classmethod
    def find(cls, target: TableTarget) -> Self | None:
        catalog = open_catalog(target)
        try:
            return cls(target, asked(target.catalog, lambda: catalog.load_table(target.parts)))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    @classmethod
    def create(
        cls,
        target: TableTarget,
        schema: pa.Schema,
        partitions: tuple[PartitionField, ...],
        properties: Mapping[str, str],
    ) -> Self:
        """A new table; the one that is there, if another was faster."""
        catalog = open_catalog(target, create=True)
        asked(target.catalog, lambda: _make_namespace(catalog, target.parts[:-1]))

        def make() -> None:
            making = catalog.create_table_transaction(target.parts, schema, properties=_PROPERTIES | dict(properties))
            with making as transaction:
                if partitions:
                    with transaction.update_spec() as spec:
                        for field in partitions:
                            spec.add_field(field.column, _transform(field), field.name)
                with transaction.update_sort_order() as order:
                    for name in _SORTED_BY:
                        order.asc(name, IdentityTransform())

        with contextlib.suppress(TableAlreadyExistsError, CommitFailedException):
            asked(target.catalog, make)
        return cls(target, asked(target.catalog, lambda: catalog.load_table(target.parts)))

    def layout(self) -> FileLayout:
        location = f"{self._table.location()}/data"
        return FileLayout(
            location, schema_to_pyarrow(self._table.schema()), partition_fields(self._table), self._objects
        )

    def columns(self) -> pa.Schema:
        return schema_to_pyarrow(self._table.schema(), include_field_ids=False)

    def evolve(self, schema: pa.Schema) -> None:
        def send() -> None:
            with self._table.update_schema() as update:
                update.union_by_name(schema)

        try:
            for _ in self._tries():
                if self._is_taken(send):
                    break
            else:
                raise self._in_vain()
        except (ValidationException, ValidationError, ValueError, TypeError) as error:
            raise InvalidArgumentError(
                f"{self.name} cannot take these columns: {error}. Give the field another name, or the topic "
                "another table"
            ) from error
        refresh(self._table)

    def coverage(self, queues: Collection[QueueRef]) -> dict[QueueRef, Covered]:
        refresh(self._table)
        return restricted(self._all_covered(), queues)

    def commit(self, commit: TableCommit) -> bool:
        queues = [*commit.before, *commit.after]
        for attempt in self._tries(is_known=True):
            covered = self._all_covered()
            if self._has(commit.run):
                return True  # the answer to an earlier try was lost, not the commit
            if restricted(covered, queues) != dict(commit.before):
                return False
            files = [data_file(self._table, self._location(file), file) for file in commit.files]
            try:
                if self._append(files, commit, {**covered, **commit.after}):
                    return True
            except (OSError, ValueError) as error:
                if attempt:
                    raise
                # Minutes may have passed: the lists of that state removed, another branch with higher numbers.
                self._failure = f"what it was planned from is gone: {error}"
        raise self._in_vain()

    def discard(self, files: Iterable[StagedFile]) -> None:
        for file in files:
            self.root.delete(f"data/{file.path}")

    def live_files(self) -> list[LiveFile]:
        refresh(self._table)
        return [live_file(task, self._table) for task in self._table.scan().plan_files()]

    def replace(self, run: str, removed: Sequence[LiveFile], added: Sequence[StagedFile]) -> bool:
        note_replaced(self.root, run, (self._path(file.location) for file in removed))
        for _ in self._tries():
            if self._has(run):
                return True
            present = {task.file.file_path for task in self._table.scan().plan_files() if not task.delete_files}
            if any(file.location not in present for file in removed):
                return False
            summary = {RUN: run, OFFSETS: coverage_text(self._all_covered())}
            with contextlib.suppress(ValidationException):
                if self._is_taken(partial(self._rewrite, removed, added, summary)):
                    return True
        raise self._in_vain()

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        refresh(self._table)
        yield from self._table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()

    def trim(self, keep: int) -> int:
        return self._trimmer.trim(self._table, keep)

    def expire(self, older_than_ms: int, keep: int) -> Mapping[str, int]:
        refresh(self._table)
        forget_replaced(self.root, older_than_ms)
        return {"snapshots": snapshots.expire(self._table, older_than_ms, keep)}

    def referenced(self, since_ms: int | None = None) -> set[str]:
        refresh(self._table)
        found = {self._path(location) for location in snapshots.referenced(self._table)}
        return found if since_ms is None else found | replaced_since(self.root, since_ms)

    def version(self) -> str:
        snapshot = self._table.current_snapshot()
        return str(snapshot.snapshot_id) if snapshot else "0"

    def _append(self, files: Sequence[Any], commit: TableCommit, covered: Coverage) -> bool:
        text = coverage_text(covered)
        summary = {OFFSETS: text, RUN: commit.run, **commit.notes}

        def send() -> None:
            transaction = self._transaction()
            transaction.set_properties({OFFSETS: text})
            with Append.of(transaction, self._table.io, summary) as append:
                for file in files:
                    append.append_data_file(file)
            transaction.commit_transaction()

        return self._is_taken(send)

    def _rewrite(self, removed: Sequence[LiveFile], added: Sequence[StagedFile], summary: Mapping[str, str]) -> None:
        transaction = self._transaction()
        with Rewrite.of(transaction, self._table.io, summary) as rewrite:
            for file in removed:
                rewrite.delete_data_file(file.handle)
            for staged in added:
                rewrite.append_data_file(data_file(self._table, self._location(staged), staged))
        transaction.commit_transaction()

    def _is_taken(self, send: Callable[[], None]) -> bool:
        """Whether the catalog says that it took a commit. If not it may have, if its answer was lost."""
        try:
            send()
        except CommitFailedException as error:
            self._failure = f"another was faster: {error}"
        except UNSURE as error:
            self._failure = f"catalog {self._catalog!r} does not answer: {error}"
        except RESTError as error:
            raise refusal(self._catalog, error) from error
        else:
            return True
        return False

    def _in_vain(self) -> UnavailableError:
        return UnavailableError(f"{_TRIES} commits to {self.name} were in vain; of the last one, {self._failure}")

    def _transaction(self) -> TableTransaction:
        self._table.metadata.properties["commit.retry.num-retries"] = "0"  # in this copy only, see above
        return TableTransaction(self._table)

    def _tries(self, *, is_known: bool = False) -> Iterator[int]:
        """The state is fresh at each try. Whoever lost waits a moment, each another one.

        With ``is_known`` the first try is made on the state that was read last: an append names the snapshot it comes
        after, so on an older one the catalog refuses it.
        """
        for attempt in range(_TRIES):
            if attempt:
                _log.info("a commit to %s is tried again; %s", self.name, self._failure)
                time.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
            if attempt or not is_known:
                refresh(self._table)
            yield attempt

    def _all_covered(self) -> dict[QueueRef, Covered]:
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            text = snapshot.summary.get(OFFSETS) if snapshot.summary is not None else None
            if text is not None:
                return coverage_from_text(text)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        return coverage_from_text(self._table.properties.get(OFFSETS, "{}"))

    def _has(self, run: str) -> bool:
        newest = self._table.metadata.snapshots[-_TRIES - 1 :]
        return any(snapshot.summary is not None and snapshot.summary.get(RUN) == run for snapshot in newest)

    def _path(self, location: str) -> str:
        """Below the table's folder, if it lies there."""
        return _without_scheme(location).removeprefix(_without_scheme(f"{self._table.location()}/"))

    def _location(self, file: StagedFile) -> str:
        return f"{self._table.location()}/data/{file.path}"


def _make_namespace(catalog: Catalog, parts: tuple[str, ...]) -> None:
    try:
        catalog.create_namespace_if_not_exists(parts)
    except Exception:  # another was faster: SQLite's own error then, or the catalog's
        if not catalog.namespace_exists(parts):
            raise


def _without_scheme(location: str) -> str:
    """Engines spell a place in their own way: ``s3a://`` for ``s3://``, ``file:/`` for ``file:///``."""
    return _SCHEME.sub("", location, count=1)


def _transform(field: PartitionField) -> Transform[Any, Any]:
    return DayTransform() if field.is_day else IdentityTransform()

"""DeltaLakeTable: a table whose log is its only truth. What it covers stands there as ``txn`` actions, three a queue.

A ``txn`` is a name and a number that Delta keeps for writers, through checkpoints and for good. The next offset of a
queue is the number under the queue's name, so it becomes true with the commit that carries the files. Each commit names
the version it was made for and fails if that exists already, whoever wrote it; then the newest state is looked at.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

import pyarrow as pa

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.tables.model.coverage import Covered, coverage_text
from flaremq.pipeline.tables.model.extra import lakehouse_needed
from flaremq.pipeline.tables.model.lake_table import FileLayout
from flaremq.pipeline.tables.model.partitions import PartitionField, parse_partitions
from flaremq.pipeline.tables.model.staged import LiveFile, StagedFile, TableCommit
from flaremq.pipeline.tables.model.target import TableTarget

with lakehouse_needed("A Delta table"):
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.schema import Field
    from deltalake.schema import Schema as DeltaSchema

    from flaremq.pipeline.tables.delta.actions import add_action, day_number, remove_action, with_day

_log = logging.getLogger(__name__)
_TRIES: Final = 20
_PARTITIONS: Final = "flaremq.partitionBy"  # of the table: which column a day is of
_RUN: Final = "flaremq.run"
_HISTORY: Final = 20
_CHECKPOINT: Final = 20  # commits: each reads the log since the last one, and a checkpoint writes down all files
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000  # whole hours are what delta-rs takes; one that has just begun is not counted


class DeltaLakeTable:
    """See ``LakeTable``."""

    def __init__(self, target: TableTarget, table: DeltaTable) -> None:
        self.name = target.text
        self.root = ArchiveRoot(target.path, target.objects)
        self._target = target
        self._table = table
        self._known: dict[QueueRef, Covered | None] = {}  # what was read of this version, by queue
        self._known_version = -1

    @classmethod
    def find(cls, target: TableTarget) -> Self | None:
        options = target.storage_options() or None
        with _translated(target):
            if not DeltaTable.is_deltatable(target.path, storage_options=options):
                return None
            return cls(target, DeltaTable(target.path, storage_options=options))

    @classmethod
    def create(
        cls,
        target: TableTarget,
        schema: pa.Schema,
        partitions: tuple[PartitionField, ...],
        properties: Mapping[str, str],
    ) -> Self:
        """A new table; the one that is there, if another was faster."""
        if any(field.is_day and field.name in schema.names for field in partitions):
            raise InvalidArgumentError("a column called day is in the way of the partition of that name")
        text = ",".join(f"day({field.column})" if field.is_day else field.column for field in partitions) or "none"
        options = target.storage_options() or None
        with _translated(target):
            DeltaTable.create(
                target.path,
                schema=with_day(schema, partitions),
                mode="ignore",
                partition_by=[field.name for field in partitions] or None,
                configuration={"delta.checkpointInterval": str(_CHECKPOINT), _PARTITIONS: text, **properties},
                storage_options=options,
                raise_if_key_not_exists=False,
            )
            return cls(target, DeltaTable(target.path, storage_options=options))

    def layout(self) -> FileLayout:
        partitions = self._partitions()
        kept = {field.name for field in partitions}
        schema = pa.schema([field for field in self.columns() if field.name not in kept])
        return FileLayout(self._target.path, schema, partitions, self._target.objects)

    def columns(self) -> pa.Schema:
        return pa.schema(self._table.schema())

    def evolve(self, schema: pa.Schema) -> None:
        for _ in self._tries():
            known = self.columns()
            new = [field for field in schema if self._is_new(known, field)]
            if not new:
                return
            try:
                fields = DeltaSchema.from_arrow(pa.schema(new)).fields
                self._table.alter.add_columns([Field(field.name, field.type, nullable=True) for field in fields])
            except CommitFailedError:
                continue
            except DeltaError as error:
                raise InvalidArgumentError(
                    f"{self.name} cannot take these columns: {error}. Give the field another name, or the topic "
                    "another table"
                ) from error
            return self._refresh()

    def coverage(self, queues: Collection[QueueRef]) -> dict[QueueRef, Covered]:
        self._refresh()
        return self._covered(queues)

    def commit(self, commit: TableCommit) -> bool:
        partitions = self._partitions()
        actions = [add_action(file, partitions) for file in commit.files]
        for _ in self._tries(is_known=True):
            is_new = self._covered([*commit.before, *commit.after]) == dict(commit.before)
            if not (is_new and commit.after != commit.before) and self._has(commit.run):
                return True  # the answer to an earlier try was lost, not the commit
            if not is_new:
                return False
            notes = {_RUN: commit.run, "flaremq.offsets": coverage_text(commit.after), **commit.notes}
            marks = [
                Transaction(name, number)
                for queue, covered in commit.after.items()
                for name, number in zip(_names(queue), covered, strict=True)
                if covered != commit.before.get(queue)
            ]
            version = self._table.version()
            if self._write(actions, notes, marks):
                if self._table.version() == version + 1:  # nobody else has committed since
                    self._known |= commit.after
                    self._known_version = version + 1
                return True
        raise UnavailableError(f"others commit to {self.name} all the time; {_TRIES} tries were in vain")

    def discard(self, files: Iterable[StagedFile]) -> None:
        for file in files:
            self.root.delete(file.path)

    def live_files(self) -> list[LiveFile]:
        self._refresh()
        return self._live_files()

    def replace(self, run: str, removed: Sequence[LiveFile], added: Sequence[StagedFile]) -> bool:
        partitions = self._partitions()
        for _ in self._tries():
            if self._has(run):
                return True
            present = {file.handle for file in self._live_files() if file.is_whole}
            if any(file.handle not in present for file in removed):
                return False
            actions = [
                *(remove_action(file, partitions) for file in removed),
                *(add_action(file, partitions, is_new=False) for file in added),
            ]
            if self._write(actions, {_RUN: run}, []):
                return True
        raise UnavailableError(f"others commit to {self.name} all the time; {_TRIES} tries were in vain")

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._refresh()
        yield from self._table.to_pyarrow_dataset().to_batches(columns=list(columns))

    def trim(self, keep: int) -> int:
        """Delta's log keeps itself short: a checkpoint every 20 commits, and what is older than a month removed."""
        return 0

    def expire(self, older_than_ms: int, keep: int) -> Mapping[str, int]:
        """Files of old states are what ``unreferenced`` finds; the log is cut where a checkpoint replaces it."""
        self._refresh()
        self._table.create_checkpoint()
        self._table.cleanup_metadata()
        return {}

    def referenced(self, since_ms: int | None = None) -> set[str]:
        self._refresh()
        found = {file.handle for file in self._live_files()}
        if since_ms is None:
            return found
        hours = max(0, -(-(int(time.time() * 1000) - since_ms - _MINUTE_MS) // _HOUR_MS))
        return found | (self._removed(0) - self._removed(hours))

    def _removed(self, hours: int) -> set[str]:
        """Files that a state from before that many hours had, and none since."""
        return set(self._table.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False))

    def version(self) -> str:
        return str(self._table.version())

    def _write(self, actions: Sequence[Any], notes: dict[str, str], marks: Sequence[Transaction]) -> bool:
        try:
            self._table.create_write_transaction(
                list(actions),
                "append",
                self._table.schema(),
                self._table.metadata().partition_columns,
                commit_properties=CommitProperties(
                    custom_metadata=notes, max_commit_retries=0, app_transactions=list(marks)
                ),
                # What is old goes behind a checkpoint; looking for it means listing the whole log.
                post_commithook_properties=PostCommitHookProperties(
                    cleanup_expired_logs=None if (self._table.version() + 1) % _CHECKPOINT == 0 else False
                ),
            )
        except CommitFailedError:
            return False
        self._refresh()
        return True

    def _tries(self, *, is_known: bool = False) -> Iterator[int]:
        """The state is fresh at each try. Whoever lost waits a moment, each another one.

        With ``is_known`` the first try is made on the state that was read last: if that is an older one, the version
        that the commit names exists.
        """
        for attempt in range(_TRIES):
            if attempt:
                _log.info("another commit to %s was faster; trying again", self.name)
                time.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
            if attempt or not is_known:
                self._refresh()
            yield attempt

    def _refresh(self) -> None:
        with _translated(self._target):
            self._table.update_incremental()

    def _covered(self, queues: Iterable[QueueRef]) -> dict[QueueRef, Covered]:
        """Read once a version: delta-rs looks for each mark in all of the log since its last checkpoint."""
        if self._table.version() != self._known_version:
            self._known, self._known_version = {}, self._table.version()
        wanted = set(queues)
        self._known |= {queue: self._read_covered(queue) for queue in wanted - self._known.keys()}
        return {queue: covered for queue in wanted if (covered := self._known[queue]) is not None}

    def _read_covered(self, queue: QueueRef) -> Covered | None:
        start, after, sign = (self._table.transaction_version(name) for name in _names(queue))
        return None if start is None or after is None else Covered(start, after, sign or 0)  # once there was no sign

    def _live_files(self) -> list[LiveFile]:
        found = []
        changed = self._changed_files()
        partitions = self._partitions()
        for row in pa.table(self._table.get_add_actions(flatten=False)).to_pylist():
            values = row.get("partition") or {}
            first = (row.get("min") or {}).get("physicalOffset")
            found.append(
                LiveFile(
                    f"{self._target.path}/{row['path']}",
                    row["num_records"] or 0,
                    row["size_bytes"],
                    tuple(_value(values.get(field.name), field) for field in partitions),
                    row["path"],
                    is_whole=row["num_records"] is not None and row["path"] not in changed,
                    first_physical=-1 if first is None else int(first),
                )
            )
        return found

    def _changed_files(self) -> set[str]:
        """Files of which rows were deleted by a vector beside them."""
        if "deletionVectors" not in (self._table.protocol().reader_features or []):
            return set()
        rows = pa.table(self._table.deletion_vectors()).to_pylist()
        return {str(row["filepath"]).partition(f"{self._target.path}/")[2] for row in rows}

    def _has(self, run: str) -> bool:
        return any(entry.get(_RUN) == run for entry in self._table.history(_HISTORY))

    def _partitions(self) -> tuple[PartitionField, ...]:
        metadata = self._table.metadata()
        known = metadata.configuration.get(_PARTITIONS)
        found = () if known is None else parse_partitions(known, self.columns())
        if [field.name for field in found] != metadata.partition_columns:
            raise InvalidArgumentError(
                f"{self.name} was not made by FlareMQ: it does not say how its partitions come from messages. Give "
                "another path"
            )
        return found

    def _is_new(self, known: pa.Schema, field: pa.Field) -> bool:
        if field.name not in known.names:
            return True
        kind = known.field(field.name).type
        if kind.equals(field.type) or str(kind).replace("large_", "") == str(field.type).replace("large_", ""):
            return False
        if pa.types.is_nested(kind) and pa.types.is_nested(field.type):
            return not _holds(kind, field.type)
        if _is_wider(kind, field.type):
            return False
        raise InvalidArgumentError(
            f"column {field.name} of {self.name} is {kind} and cannot become {field.type}: give the field another "
            "name, or the topic another table"
        )


def _names(queue: QueueRef) -> tuple[str, str, str]:
    name = f"flaremq/{queue.topic}/{queue.broker}/{queue.queue_id}"
    return f"{name}/start", name, f"{name}/sign"


def _holds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether every value of the other type is one of this."""
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        names = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
        return all(
            other.field(at).name in names and _holds(names[other.field(at).name], other.field(at).type)
            for at in range(other.num_fields)
        )
    if pa.types.is_map(kind) and pa.types.is_map(other):
        return _holds(kind.item_type, other.item_type)
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return _holds(kind.value_type, other.value_type)
    return kind.equals(other) or _is_wider(kind, other)


def _is_wider(kind: pa.DataType, other: pa.DataType) -> bool:
    for is_kind in (pa.types.is_integer, pa.types.is_floating):
        if is_kind(kind) and is_kind(other):
            return bool(kind.bit_width >= other.bit_width)
    return False


def _value(value: Any, field: PartitionField) -> Any:
    return day_number(value) if field.is_day and value is not None else value


@contextlib.contextmanager
def _translated(target: TableTarget) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        raise UnavailableError(f"{target.text} cannot be opened: {error}") from error

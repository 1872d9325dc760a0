"""LakeTable: what a job asks of a table, whatever its format.

Commits compare and swap: an implementation reads the newest state, looks whether the table still covers what the commit
was planned from, and commits on top of exactly that state. If others were faster it looks again; if they brought the
same queues forward, the commit is refused and its messages are planned anew. So no message is added twice, and none is
left out, whoever else writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.tables.model.coverage import Covered
from flaremq.pipeline.tables.model.partitions import PartitionField
from flaremq.pipeline.tables.model.staged import LiveFile, StagedFile, TableCommit


@dataclass(frozen=True, slots=True)
class FileLayout:
    """What a task must know to write files of a table; picklable."""

    location: str  # the folder they are below
    schema: pa.Schema  # of the files, with the ids a format wants in them
    partitions: tuple[PartitionField, ...]
    objects: Mapping[str, str] = field(default_factory=dict, repr=False)  # how an object store is reached


class LakeTable(Protocol):
    """One table. Not shared between threads."""

    name: str
    root: ArchiveRoot  # the table's own folder

    def layout(self) -> FileLayout: ...

    def columns(self) -> pa.Schema:
        """As readers see them."""

    def evolve(self, schema: pa.Schema) -> None:
        """Add the columns that are not there; InvalidArgumentError if one is there with another type."""

    def coverage(self, queues: Collection[QueueRef]) -> dict[QueueRef, Covered]:
        """What the newest state covers of these queues."""

    def commit(self, commit: TableCommit) -> bool:
        """Whether it is in the table now; if not, nothing of it is."""

    def discard(self, files: Iterable[StagedFile]) -> None:
        """Remove files that no commit will name."""

    def live_files(self) -> list[LiveFile]: ...

    def replace(self, run: str, removed: Sequence[LiveFile], added: Sequence[StagedFile]) -> bool:
        """Put files with the same rows in the place of others; False if one of those is no longer there."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of the newest state."""

    def trim(self, keep: int) -> int:
        """Forget old states beyond about so many, so that a commit costs the same however many there were."""

    def expire(self, older_than_ms: int, keep: int) -> Mapping[str, int]:
        """Forget states from before that time, but for the newest ``keep``; counts of what was forgotten."""

    def referenced(self, since_ms: int | None = None) -> set[str]:
        """Paths below ``root`` of all files that some state still needs; with a time those that a state since then
        needed, too, as far as it is known: all of Delta's states, merges of ours in Iceberg."""

    def version(self) -> str:
        """Names the newest state."""

"""Files of a table: staged (written, in no commit yet) and live, and what one commit says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flaremq.pipeline.tables.model.coverage import Coverage
from flaremq.pipeline.tables.model.partitions import PartitionValues


@dataclass(frozen=True, slots=True)
class StagedFile:
    """``path`` is below the table's data folder; ``footer`` is Parquet's own, with the statistics of each column."""

    path: str
    rows: int
    size_bytes: int
    partition: PartitionValues
    footer: Any  # pyarrow.parquet.FileMetaData


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of the newest state. ``handle`` is what the format needs to remove it; ``is_whole`` unless rows of it were
    deleted by somebody without writing it anew, so that its bytes alone do not say what it holds. ``first_physical`` is
    the place in the log of its first message, as far as the format tells: by it files stand in the log's order."""

    location: str  # as PyArrow opens it
    rows: int
    size_bytes: int
    partition: PartitionValues
    handle: Any
    is_whole: bool = True
    first_physical: int = -1


@dataclass(frozen=True, slots=True)
class TableCommit:
    """Files and the offsets they bring the table to, from ``before``: who finds another ``before`` does not commit."""

    run: str
    files: Sequence[StagedFile]
    before: Coverage
    after: Coverage
    notes: dict[str, str] = field(default_factory=dict)

"""Rewrite: a commit that puts files with the same rows in the place of others, and says that it does only that.

PyIceberg has commits that overwrite. Readers of a table's changes (Spark's streams, for one) stop at those, for rows
may have become others; what is marked ``replace`` they pass over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pyiceberg.io import FileIO
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles


class Rewrite(_OverwriteFiles):
    """To use with ``with``: ``delete_data_file``, ``append_data_file``."""

    @classmethod
    def of(cls, transaction: Transaction, io: FileIO, notes: Mapping[str, str]) -> Self:
        return cls(Operation.OVERWRITE, transaction, io, snapshot_properties=dict(notes))

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summary = super()._summary(snapshot_properties or {})
        return Summary(Operation.REPLACE, **summary.additional_properties)

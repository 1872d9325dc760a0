"""A transaction of PyIceberg that works out its own state once between two changes.

PyIceberg copies all metadata each time the state is asked for, some fifteen times a commit; with a hundred snapshots in
it that was most of what a commit took.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata


class TableTransaction(Transaction):
    """One thread; whoever asks for the state must not change it, and nobody does."""

    _known: tuple[Any, TableMetadata, TableMetadata] | None = None  # updates and base it was worked out from

    @property
    def table_metadata(self) -> TableMetadata:
        known, base = self._known, self._table.metadata
        if known is None or known[0] is not self._updates or known[1] is not base:
            known = self._known = (self._updates, base, super().table_metadata)
        return known[2]

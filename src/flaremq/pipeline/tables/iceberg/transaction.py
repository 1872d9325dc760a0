"""A transaction of PyIceberg that works out its own state without copying the table's.

PyIceberg copies all metadata, deeply, each time the state is asked for, some fifteen times a commit; with a hundred
snapshots in it that was most of what a commit took.
"""

from __future__ import annotations

from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import _apply_table_update, _TableMetadataUpdateContext


class TableTransaction(Transaction):
    """One thread; whoever asks for the state must not change it, and nobody does."""

    @property
    def table_metadata(self) -> TableMetadata:
        metadata, context = self._table.metadata, _TableMetadataUpdateContext()
        for update in self._updates:  # each gives a new state that shares with the one before what stays the same
            metadata = _apply_table_update(update, metadata, context)
        return metadata

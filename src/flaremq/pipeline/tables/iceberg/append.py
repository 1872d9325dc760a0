"""Append: a commit that adds files, and now and then merges manifests, so that their list stays short.

PyIceberg's own way merges all manifests into one that grows to the size wanted: each merge writes everything anew, the
more often the nearer it comes to that size. Here manifests of about the same size are merged, as many as the table's
properties say (``commit.manifest.min-count-to-merge``), so what is known of a file is written anew once for each time
that the table has grown by that factor, until a manifest has half the size wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Self

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _MergeAppendFiles


class Append(_MergeAppendFiles):
    """To use with ``with``: ``append_data_file``."""

    @classmethod
    def of(cls, transaction: Transaction, io: FileIO, notes: Mapping[str, str]) -> Self:
        return cls(Operation.APPEND, transaction, io, snapshot_properties=dict(notes))

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        count = max(2, self._min_count_to_merge)
        alike: dict[tuple[int, int], list[ManifestFile]] = {}
        kept = []
        for manifest in manifests:
            if manifest.content != ManifestContent.DATA or manifest.added_snapshot_id == self._snapshot_id:
                kept.append(manifest)
            else:
                alike.setdefault((manifest.partition_spec_id, _level(manifest, count)), []).append(manifest)
        for (spec_id, _), group in alike.items():
            few = self._to_merge(group, count) if self._merge_enabled else []
            kept += [manifest for manifest in group if manifest not in few]
            if few:
                kept.append(self._merged(spec_id, few))
        return kept

    def _to_merge(self, group: list[ManifestFile], count: int) -> list[ManifestFile]:
        """The oldest, as many as fit the size wanted: two or more, as what has half of that size stays as it is. What
        comes of them has about half of it too, or the group is shorter by ``count``."""
        few = [manifest for manifest in group if 2 * manifest.manifest_length <= self._target_size_bytes]
        if len(few) < count:
            return []
        few.reverse()  # PyIceberg has the newest first
        sizes = accumulate(manifest.manifest_length for manifest in few)
        return [manifest for manifest, size in zip(few, sizes, strict=True) if size <= self._target_size_bytes]

    def _merged(self, spec_id: int, manifests: Iterable[ManifestFile]) -> ManifestFile:
        """One manifest of the files that are still there; none of them comes with this commit."""
        with self.new_manifest_writer(spec=self.spec(spec_id)) as writer:
            for manifest in manifests:
                for entry in self.fetch_manifest_entry(manifest):
                    writer.existing(entry)
        return writer.to_manifest_file()


def _level(manifest: ManifestFile, factor: int) -> int:
    """How often the number of its files can be divided by the factor."""
    files, level = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0), 0
    while files >= factor:
        files, level = files // factor, level + 1
    return level

"""``store verify``: one check of one store, from its files to its configuration.

The checks that need no walk stand around the one that does: the log, its queues and its index held against each other.
That one is made in pieces (``chain``), here or elsewhere. Nothing is changed and nothing is assumed: a file that cannot
be read is a finding, not an exception.

After a crash, what opening the store repairs by itself (units not written yet, units behind the end of the log) is a
note; the same thing in a store that says it was closed cleanly is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flaremq.message.delay import DEFAULT_DELAY_LEVELS, DelayLevels, parse_delay_levels
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.verify.files import check_config, check_files, check_marks
from flaremq.storage.verify.finding import Finding, Severity, Summary

if TYPE_CHECKING:
    from flaremq.storage.verify.chain import PieceChain


class StoreVerifier:
    """One check of one store: read ``findings`` to the end, then ``summary``."""

    def __init__(
        self,
        reader: StoreReader,
        *,
        delay_levels: DelayLevels | None = None,
        on_progress: Callable[[int], None] | None = None,
        chain: PieceChain | None = None,
    ) -> None:
        """``chain`` is a check in pieces that are run elsewhere."""
        self._reader = reader
        self._chain = chain
        self._delay_levels = delay_levels or parse_delay_levels(DEFAULT_DELAY_LEVELS)
        self._on_progress = on_progress
        self.summary = Summary(closed_cleanly=reader.closed_cleanly)

    def findings(self) -> Iterator[Finding]:
        """Every finding; those of the log, unless it is checked in pieces, as the walk meets them."""
        for finding in self._all():
            self.summary.counts[finding.severity] += 1
            yield finding

    def _all(self) -> Iterator[Finding]:
        reader, summary = self._reader, self.summary
        summary.queues, summary.index_files = len(reader.queues), len(reader.indexes)
        summary.log_min = reader.log_min
        yield from check_files(reader)
        yield from self._check_log_and_views()
        yield from check_marks(reader, summary)
        yield from check_config(reader)
        for path, offset, length in reader.files.unreadable:
            detail = f"the disk gives no answer for {length} bytes"
            yield Finding(path, offset, "unreadable", detail, Severity.DAMAGE)

    def _check_log_and_views(self) -> Iterator[Finding]:
        from flaremq.storage.verify.chain import chain_here  # NumPy

        chain = self._chain or chain_here(self._reader, self._delay_levels, self._on_progress)
        return chain.findings(self.summary)

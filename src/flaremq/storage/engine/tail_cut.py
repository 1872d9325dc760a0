"""Cutting the end off the log of a store that is not in use: what only this copy has, when another one became master.

Nothing is lost silently: the tail is copied to ``flaremq.saved`` first. Then the notes recovery goes by are lowered to
the cut, while the log still has its tail; then the log is cut, zeros on disk, later files removed. Queues and index are
not touched here. The store is left as a crash would leave it, and the recovery that follows brings them in line with
the log: so a crash at any moment of a cut is just another crash, after which the log ends somewhere between the cut and
its old end, and the same cut can be made again.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace

from flaremq.core.record import walk
from flaremq.core.table import BLANK, END, FULL, HEADERS_ONLY, RecordTable
from flaremq.errors import CorruptionError
from flaremq.message.record.check import CheckReason, check_record
from flaremq.storage.engine.index_recovery import IndexRecovery
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.files.checkpoint import DurableOffsets, pack_hints
from flaremq.storage.files.filesystem import write_atomically
from flaremq.storage.log.commit_log import CommitLog, save_tail
from flaremq.storage.log.resync import next_record

_log = logging.getLogger(__name__)
_ROWS = 2048


def cut_tail(parts: StoreParts, cut_at: int) -> str | None:
    """Cut the log at the end of one of its records; where the copy of the tail is, None if there was no tail.

    For a store that recovery has just put right and in which nothing runs; open it anew afterwards.
    """
    log, filesystem, layout = parts.log, parts.filesystem, parts.layout
    end = log.end_offset
    if cut_at >= end:
        return None
    _check_record_end(log, cut_at)
    saved = save_tail(log, filesystem, layout.saved_tail, cut_at, end)
    dispatched = min(parts.dispatcher.position, cut_at)
    unindexed_from = parts.unindexed_from
    index_state = IndexRecovery(parts).state_at(dispatched)
    if parts.index is None:
        index_state = parts.offsets.offsets
        if index_state.index_name and index_state.index_end_offset >= cut_at:
            unindexed_from, index_state = log.min_offset, DurableOffsets()
    # Without a place in the log these ends of queues count for nothing: recovery holds units against the log instead.
    hints = {"dispatched": -1, "logEnd": -1, "queues": []}
    if unindexed_from is not None:
        hints["unindexedFrom"] = min(unindexed_from, cut_at)
    write_atomically(filesystem, layout.queue_hints, pack_hints(hints))
    if not index_state.index_name and parts.index is None:
        _remove_index(parts)
    checkpoint = replace(parts.checkpoint, confirm_phy_offset=min(parts.checkpoint.confirm_phy_offset, cut_at))
    write_atomically(filesystem, layout.checkpoint, checkpoint.pack())
    parts.offsets.save(replace(index_state, log_durable=cut_at, dispatched=dispatched, log_end=-1, session=os.getpid()))
    log.files.truncate(cut_at)
    _log.warning("the log was cut at %d, it ended at %d; a copy of what was cut off is in %s", cut_at, end, saved)
    return saved


def _remove_index(parts: StoreParts) -> None:
    """Indexing is off, and what was indexed before reaches behind the cut: it is built anew should it be wanted."""
    names = parts.filesystem.list_directory(parts.layout.index)
    for name in reversed(names):
        parts.filesystem.remove(os.path.join(parts.layout.index, name))
    if names:
        parts.filesystem.sync_directory(parts.layout.index)


def _check_record_end(log: CommitLog, cut_at: int) -> None:
    """CorruptionError unless a record, filler or file ends here.

    Found by walking there from the file's start: bytes that look like a record may be the body of another one.
    """
    file = log.files.find(cut_at)
    if file is None or cut_at < log.min_offset:
        raise CorruptionError(
            "the log cannot be cut where it has no bytes", path=log.files.folders[0], offset=cut_at,
            expected=f"an offset from {log.min_offset} to {log.end_offset}", found=cut_at,
        )  # fmt: skip
    table = RecordTable(_ROWS)
    position = file.start
    while position < cut_at:
        _, at, stop = walk(
            file.buffer, position - file.start, cut_at - file.start, file.start, HEADERS_ONLY, table.cells
        )
        position = file.start + at
        if stop in (END, FULL):
            continue
        verdict = check_record(file.buffer, at, physical_offset=position, check_body_crc=False)
        following = None
        if stop != BLANK and verdict.reason not in (CheckReason.OK, CheckReason.BLANK):
            following = next_record(log.files, position)  # over damage
        if following is None or following > cut_at:
            raise CorruptionError(
                "the log cannot be cut inside a record", path=file.path, offset=cut_at,
                expected="the end of a record", found=f"the inside of what starts at {position}",
            )  # fmt: skip
        position = following

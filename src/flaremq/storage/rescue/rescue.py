"""``store rescue``: a new, healthy store from whatever valid records a damaged one still holds.

Java stops at the first byte that is no record, and its format has no filler for the middle of a file, so
damage cannot be covered in place in a way both sides read. The valid records are therefore appended again,
in their old order, to a new log without holes: times, hosts, flags, properties and bodies stay, physical
offsets are new, and each queue is renumbered densely from 0. Queues and index are then built from that log
by the ordinary recovery, consumer offsets are translated, and the result is verified before it is called
done.

What was lost and how offsets moved is part of the result and is left in the new store as
``flaremq.rescue.json``, which RocketMQ ignores. The damaged store is only read.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.filesystem import write_atomically
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.log.walk import DamagedRange, LogTail, RecordBatch
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.table import QueueId
from flaremq.storage.rescue.config import copy_config
from flaremq.storage.rescue.losses import LossFinder
from flaremq.storage.rescue.relocation import LogWriter, Relocation
from flaremq.storage.verify.finding import Finding, Severity, Summary
from flaremq.storage.verify.verifier import StoreVerifier

REPORT_NAME = "flaremq.rescue.json"


@dataclass(slots=True)
class RescueReport:
    """What was saved, what was lost, what moved where."""

    source: str
    target: str
    records: int = 0
    record_bytes: int = 0
    damaged: list[DamagedRange] = field(default_factory=list)
    tail: LogTail | None = None
    dropped_op_records: int = 0  # op records all of whose half messages are lost
    deleted_records: int = 0  # of topics that were deleted after them
    relocation: Relocation = field(default_factory=Relocation)
    lost: dict[QueueId, list[tuple[int, int]]] = field(default_factory=dict)  # old queue offsets [start, end)
    doubtful: list[int] = field(default_factory=list)  # old offsets of records kept although something denies them
    findings: list[Finding] = field(default_factory=list)  # all that verify calls damage in the source
    complaints: list[str] = field(default_factory=list)
    result: Summary = field(default_factory=Summary)

    @property
    def lost_messages(self) -> int:
        return sum(end - start for ranges in self.lost.values() for start, end in ranges)

    @property
    def is_whole(self) -> bool:
        """Nothing is known to be lost, and nothing that was kept is in doubt."""
        return not (self.damaged or self.lost or self.doubtful)

    def to_dict(self) -> dict[str, Any]:
        tail = self.tail
        return {
            "source": self.source,
            "target": self.target,
            "records": self.records,
            "recordBytes": self.record_bytes,
            "lostMessages": self.lost_messages,
            "lostRanges": [
                {
                    "start": lost.start,
                    "end": lost.end,
                    "bytes": lost.size,
                    "path": lost.path,
                    "reason": lost.reason,
                }
                for lost in self.damaged
            ],
            "unreadableTail": None
            if tail is None or not tail.leftover_bytes
            else {"start": tail.physical_offset, "bytes": tail.leftover_bytes, "reason": tail.reason},
            "droppedOpRecords": self.dropped_op_records,
            "deletedRecords": self.deleted_records,
            "doubtfulRecords": self.doubtful,
            "sourceDamage": [finding.to_dict() for finding in self.findings],
            "queues": [
                {
                    "topic": topic,
                    "queueId": queue_id,
                    "messages": offsets.kept,
                    "lostOffsets": [list(span) for span in self.lost.get((topic, queue_id), [])],
                    "offsetMap": [{"old": old, "new": new, "count": count} for old, new, count in offsets.runs],
                }
                for (topic, queue_id), offsets in sorted(self.relocation.queues.items())
            ],
            "physicalOffsetMap": [
                {"old": old, "new": new, "bytes": length} for old, new, length in self.relocation.physical.runs
            ],
            "complaints": self.complaints,
            "verified": self.result.to_dict(),
        }


def rescue_store(reader: StoreReader, target: str, *, on_progress: Callable[[int], None] | None = None) -> RescueReport:
    """Write the new store to ``target``, which must be empty or absent; on failure nothing of it is left."""
    target = os.path.abspath(target)
    filesystem = reader.filesystem
    existed = filesystem.exists(target)
    if existed and (not filesystem.is_directory(target) or filesystem.list_directory(target)):
        raise InvalidArgumentError(f"{target} exists and is not empty; give a new folder")
    if os.path.commonpath([target, reader.layout.root]) == reader.layout.root:
        raise InvalidArgumentError(f"{target} lies inside the store to be rescued; give a folder elsewhere")
    if not reader.log.run.files:
        raise InvalidArgumentError(f"{reader.layout.root} has no log files: there is nothing to rescue")
    try:
        return _rescue(reader, target, on_progress)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        if existed:
            filesystem.make_directories(target)
        raise


def _rescue(reader: StoreReader, target: str, on_progress: Callable[[int], None] | None) -> RescueReport:
    report = RescueReport(reader.layout.root, target)
    layout = StoreLayout(target)
    _write_log(reader, layout, report, on_progress)
    if not report.records:
        raise CorruptionError("not one valid record was found: there is nothing to rescue", path=report.source)
    _find_losses(reader, report)
    _find_doubts(reader, report)
    report.complaints = copy_config(reader.filesystem, reader.layout.config, layout.config, report.relocation)
    for queue in reader.queues:
        gone = reader.deleted.end_of(queue.topic) and not report.relocation.queue_map(queue.topic, queue.queue_id).runs
        if queue.is_batch and not gone:  # tells dispatch which kind of queue to build
            reader.filesystem.make_directories(
                layout.queue_folder(queue.topic, queue.queue_id, kind="batchconsumequeue")
            )
    MessageStore.open(target, options_of(reader), filesystem=reader.filesystem).close()
    report.result = _verify(target, reader)
    text = json.dumps(report.to_dict(), indent=1)
    write_atomically(reader.filesystem, os.path.join(target, REPORT_NAME), text.encode())
    return report


def options_of(reader: StoreReader, properties: dict[str, str] | None = None) -> StoreOptions:
    """Options that fit the files of this store, with what the user set on top."""
    run = reader.log.run
    sizes = Counter(queue.run.file_size for queue in reader.queues if queue.run.file_size and not queue.is_batch)
    geometry = next((index.geometry for index in reader.indexes if index.geometry is not None), None)
    found: dict[str, str] = {}
    if run.file_size:
        found["mappedFileSizeCommitLog"] = str(run.file_size)
    if sizes:
        found["mappedFileSizeConsumeQueue"] = str(sizes.most_common(1)[0][0])
    if geometry is not None:
        found["maxHashSlotNum"] = str(geometry.slots)
        found["maxIndexNum"] = str(geometry.entries)
    return StoreOptions.from_properties({**found, **(properties or {})}).without_replicas()


def _write_log(
    reader: StoreReader, layout: StoreLayout, report: RescueReport, on_progress: Callable[[int], None] | None
) -> None:
    writer = LogWriter(reader.filesystem, layout.commit_log_paths[0], reader.log.run.file_size)
    for item in reader.walk(everything=True):
        if isinstance(item, RecordBatch):
            for offset, record in item.records():
                _save_record(reader, bytes(record), offset, writer, report)
            if on_progress is not None:
                on_progress(item.base + item.starts[-1] + item.sizes[-1])
        elif isinstance(item, DamagedRange):
            report.damaged.append(item)
        elif isinstance(item, LogTail):
            report.tail = item
    writer.close()


def _save_record(reader: StoreReader, record: bytes, offset: int, writer: LogWriter, report: RescueReport) -> None:
    verdict = check_record(record, physical_offset=offset, check_body_crc=False, strict=True).reason
    if verdict in (CheckReason.TOPIC, CheckReason.FIELD):
        # No checksum covers these, but with an impossible topic or place no broker could serve the record.
        file = reader.log.run.file_at(offset)
        path = reader.layout.root if file is None else file.path
        report.damaged.append(DamagedRange(offset, offset + len(record), verdict.value, path))
        return
    if verdict is CheckReason.PROPERTIES:
        report.doubtful.append(offset)  # can be damage, can be what was sent
    if offset < reader.deleted.reach and reader.deleted.hides(MessageExt(record).topic, offset):
        report.deleted_records += 1  # so the new store needs no memory of the deletion
        return
    moved = report.relocation.move(record, writer.place_for(len(record)))
    if moved is None:
        report.dropped_op_records += 1
        return
    writer.append(moved)
    report.records += 1
    report.record_bytes += len(moved)


def _find_losses(reader: StoreReader, report: RescueReport) -> None:
    finder = LossFinder(reader, report.damaged, report.tail or LogTail(reader.log_min, 0, "no file"))
    for queue in reader.queues:
        spans = finder.find(queue, report.relocation.queue_map(queue.topic, queue.queue_id))
        if spans:
            report.lost[queue.topic, queue.queue_id] = spans


def _find_doubts(reader: StoreReader, report: RescueReport) -> None:
    """Most of a record is covered by no checksum: what queues and index say of it is the only other witness.

    They are made anew from the record, so this is the last chance to hear them.
    """
    verifier = StoreVerifier(reader)
    report.findings = [finding for finding in verifier.findings() if finding.severity is Severity.DAMAGE]
    gone = [(lost.start, lost.end) for lost in report.damaged]
    contradicted = {at for at in verifier.summary.contradicted if not any(start <= at < end for start, end in gone)}
    report.doubtful = sorted(contradicted.union(report.doubtful))


def _verify(target: str, reader: StoreReader) -> Summary:
    with StoreReader.open(target, filesystem=reader.filesystem) as result:
        verifier = StoreVerifier(result)
        findings = [finding for finding in verifier.findings() if finding.severity != "note"]
    if verifier.summary.damaged:
        raise CorruptionError(f"the new store does not verify: {findings[0].detail}", path=findings[0].path)
    return verifier.summary

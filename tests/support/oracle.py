"""What a store owes its users after a crash: the history of what was asked and answered, and the checks on
it.

The history is kept by the test, never read back from the store. After each fault the store is opened again,
and ``check`` reads everything, once through the product and once through the independent parser of
``raw_store``:

* I1  an acknowledged-and-durable message is there, byte for byte, at the place it was acknowledged for;
* I2  the log is a prefix of what was appended: only an un-synced end may be missing, never something before
    it;
* I3  nothing comes back that was lost or refused before; an unanswered message is there whole or not at
    all;
* I4  consume queues are exactly what the log says: dense, in order, nothing behind the end;
* I5  every key of every retained message is found, and no key finds anything else;
* I7  records stand where they say, next to each other, filler only at the end of a file, nothing stale
    behind;
* I8  the checkpoint (``check_image``, before recovery) claims nothing that is not on disk;
* I10 nothing is readable that is not durable (``check_visible``, while running, in sync mode);
* I15 small state files are old or new, never a mixture, never empty (``check_state_files``);
* I16 retention takes whole files from the front, and queue offsets never start again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.support import raw_store
from tests.support.raw_store import FILLER, Files, RawLog, RawRecord

if TYPE_CHECKING:
    from flaremq.storage.message_store import MessageStore

ROOT = "/store"
STATE_FILES = ("checkpoint", "flaremq.queues")  # replaced whole; flaremq.offsets has two checked slots instead
_READ_COUNT = 32
_QUERY_COUNT = 64


class OracleViolation(AssertionError):
    """The store broke a promise; the text says which."""


@dataclass(slots=True)
class Entry:
    """One message somebody tried to put."""

    number: int
    topic: str  # as stored: the schedule topic for a delayed message
    queue_id: int
    body: bytes
    keys: tuple[str, ...]
    tags: str | None
    state: str = "invoked"  # -> acked | refused | unknown
    physical_offset: int = -1
    size: int = 0
    queue_offset: int = -1
    raw: bytes | None = None
    asked_ms: int = 0
    indexed: bool = True  # the index was on in every life of the store since

    @property
    def end(self) -> int:
        return self.physical_offset + self.size


@dataclass(slots=True)
class History:
    """Everything asked of one store, over all its lives."""

    entries: list[Entry] = field(default_factory=list)  # in append order; those known lost are taken out
    dead: set[bytes] = field(default_factory=set)  # bodies lost or refused: must never be seen again
    retired: set[bytes] = field(default_factory=set)  # deleted by retention: may be there again after a crash
    promised: int = 0  # every log byte below was claimed durable
    deleted_below: int = 0  # retention was allowed to delete up to here
    next_queue_offset: dict[tuple[str, int], int] = field(default_factory=dict)  # lower bound from durable acks
    counter: int = 0

    def snapshot(self) -> History:
        return History(
            [replace(entry) for entry in self.entries],
            set(self.dead),
            set(self.retired),
            self.promised,
            self.deleted_below,
            dict(self.next_queue_offset),
            self.counter,
        )

    def invoke(self, topic: str, queue_id: int, body: bytes, keys: tuple[str, ...], tags: str | None) -> Entry:
        entry = Entry(self.counter, topic, queue_id, body, keys, tags)
        self.counter += 1
        self.entries.append(entry)
        return entry

    def refuse(self, entry: Entry) -> None:
        entry.state = "refused"
        self.entries.remove(entry)
        self.dead.add(entry.body)

    def promise(self, offset: int) -> None:
        """The store said that everything below is on disk."""
        self.promised = max(self.promised, offset)
        for entry in self.entries:
            if entry.state == "acked" and entry.end <= self.promised:
                queue = (entry.topic, entry.queue_id)
                self.next_queue_offset[queue] = max(self.next_queue_offset.get(queue, 0), entry.queue_offset + 1)

    def rebase(self, log: RawLog) -> None:
        """Go on from what recovery kept: what is missing now is gone for good."""
        present = {record.body: record for record in log.records}
        kept = []
        for entry in self.entries:
            record = present.get(entry.body)
            if record is not None:
                entry.state = "acked"
                entry.physical_offset, entry.size = record.physical_offset, record.size
                entry.queue_offset, entry.raw = record.queue_offset, record.raw
                kept.append(entry)
            elif entry.state != "acked" or entry.physical_offset >= log.start:
                self.dead.add(entry.body)
            else:
                self.retired.add(entry.body)
        self.entries = kept
        # What was promised lay below the end (I1 held), or in files that retention took; filler is no record.
        self.promised = min(self.promised, log.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the options in force allow a check to expect."""

    index: bool = True
    sealed: bool = True  # records carry the whole-record checksum
    page_loss: bool = True  # pages may have been lost or damaged (a power cut, not only a killed process)


def check(store: MessageStore, files: Files, history: History, rules: Rules) -> RawLog:
    """All promises that can be checked on a store just opened; the log as the independent parser reads it."""
    log = raw_store.read_log(files, ROOT)
    _check_shape(store, files, log)
    _check_messages(log, history, rules)
    queues = _records_by_queue(log)
    _check_queues(store, files, log, queues, history)
    _check_reads(store, log, queues)
    if rules.index:
        _check_index(store, log, history)
    return log


def _fail(invariant: str, text: str) -> None:
    raise OracleViolation(f"{invariant}: {text}")


def _check_shape(store: MessageStore, files: Files, log: RawLog) -> None:
    for problem in log.problems:
        _fail("I7", problem)
    if log.stale:
        _fail("I7", f"old records still stand behind the log's end {log.end}: {log.stale[:5]}")
    starts = sorted(raw_store.numbered(files, os.path.join(ROOT, "commitlog")))
    for before, after in pairwise(starts):
        if after - before != log.file_size:
            _fail("I7", f"log files {before} and {after} do not follow each other")
    if store.min_physical_offset != log.start:
        _fail("I7", f"the store's log starts at {store.min_physical_offset}, the files at {log.start}")
    if store.max_physical_offset not in (log.end, log.position):
        _fail("I7", f"the store's log ends at {store.max_physical_offset}, the files' at {log.end}")


def _check_messages(log: RawLog, history: History, rules: Rules) -> None:
    by_body = {entry.body: entry for entry in history.entries}
    present: set[int] = set()
    last = -1
    for record in log.records:
        entry = by_body.get(record.body)
        if entry is None and record.body in history.retired:
            continue
        if entry is None:
            kind = "lost or refused before" if record.body in history.dead else "never sent"
            _fail("I3", f"record at {record.physical_offset} was {kind}: {record.body[:40]!r}")
            continue
        if entry.number <= last:
            _fail("I2", f"message {entry.number} at {record.physical_offset} stands behind message {last}")
        last = entry.number
        present.add(entry.number)
        difference = _difference(entry, record)
        promised = entry.state == "acked" and entry.end <= history.promised
        if difference and (promised or rules.sealed or not rules.page_loss):
            _fail(
                "I1" if promised else "I3",
                f"message {entry.number} at {record.physical_offset}: {difference}",
            )
    missing: Entry | None = None
    for entry in history.entries:
        if entry.number in present:
            if missing is not None and missing.state == "acked" and missing.physical_offset >= log.start:
                _fail("I2", f"message {missing.number} is missing but the later {entry.number} is there")
        else:
            missing = entry
            retained = entry.physical_offset >= history.deleted_below
            if entry.state == "acked" and entry.end <= history.promised and retained:
                _fail(
                    "I1",
                    f"message {entry.number} ({entry.topic}/{entry.queue_id}@{entry.queue_offset}, log "
                    f"{entry.physical_offset}..{entry.end}) was durable (promised {history.promised}) and is "
                    f"gone; the log is {log.start}..{log.end}",
                )


def _difference(entry: Entry, record: RawRecord) -> str:
    if (record.topic, record.queue_id) != (entry.topic, entry.queue_id):
        return f"went to {record.topic}/{record.queue_id}, not {entry.topic}/{entry.queue_id}"
    if entry.state == "acked":
        place = (entry.physical_offset, entry.queue_offset)
        if (record.physical_offset, record.queue_offset) != place:
            return f"moved from {place} to {(record.physical_offset, record.queue_offset)}"
        if entry.raw is not None and entry.raw != record.raw:
            return "its bytes changed"
    if tuple(record.properties.get("KEYS", "").split()) != entry.keys or record.properties.get("TAGS") != entry.tags:
        return f"its properties changed: {record.properties}"
    return ""


def _records_by_queue(log: RawLog) -> dict[tuple[str, int], list[RawRecord]]:
    queues: dict[tuple[str, int], list[RawRecord]] = defaultdict(list)
    for record in log.records:
        if record.has_unit:
            queues[record.topic, record.queue_id].append(record)
    return queues


def _check_queues(
    store: MessageStore,
    files: Files,
    log: RawLog,
    queues: dict[tuple[str, int], list[RawRecord]],
    history: History,
) -> None:
    folders = {
        tuple(os.path.relpath(os.path.dirname(path), ROOT).split(os.sep)[1:])
        for path in files
        if "/consumequeue/" in path
    }
    on_disk = {(folder[0], int(folder[1])) for folder in folders if len(folder) == 2 and folder[1].isdigit()}
    for topic, queue_id in sorted(on_disk | queues.keys()):
        name = f"queue {topic}/{queue_id}"
        records = queues.get((topic, queue_id), [])
        units = raw_store.read_queue(files, ROOT, topic, queue_id)
        for before, after in pairwise(records):
            if after.queue_offset != before.queue_offset + 1:
                _fail("I4", f"{name}: offset {after.queue_offset} follows {before.queue_offset}")
        expected = {record.queue_offset: record.unit for record in records}
        for offset, unit in expected.items():
            if units.get(offset) != unit:
                found = units.get(offset, b"").hex() or "nothing"
                _fail("I4", f"{name}: unit {offset} is {found}, the log says {unit.hex()}")
        first = min(expected, default=None)
        for offset, unit in units.items():
            below = first is None or offset < first
            old = unit == FILLER or int.from_bytes(unit[:8], "big") < log.start
            if offset not in expected and not (below and old):
                _fail("I4", f"{name}: unit {offset} ({unit.hex()}) belongs to no record")
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        if records and (low, high) != (records[0].queue_offset, records[-1].queue_offset + 1):
            _fail("I4", f"{name}: offsets {low}..{high}, the log says {first}..{records[-1].queue_offset + 1}")
        if not records and low != high:
            _fail("I4", f"{name}: offsets {low}..{high} but the log has no record of it")
    for (topic, queue_id), bound in history.next_queue_offset.items():
        if store.max_offset(topic, queue_id) < bound:
            _fail(
                "I16",
                f"queue {topic}/{queue_id} starts again: below {bound}",
            )


def _check_reads(store: MessageStore, log: RawLog, queues: dict[tuple[str, int], list[RawRecord]]) -> None:
    for (topic, queue_id), records in queues.items():
        read = read_queue(store, topic, queue_id)
        wanted = [(r.queue_offset, r.physical_offset, r.raw) for r in records]
        if read != wanted:
            _fail(
                "I1",
                f"reading {topic}/{queue_id} gave {[r[:2] for r in read]}, not {[r[:2] for r in wanted]}",
            )
    for record in log.records:
        found = store.read(record.physical_offset)
        if found is None or bytes(found.body) != record.body:
            _fail("I1", f"reading the log at {record.physical_offset} gave {found}")


def read_queue(store: MessageStore, topic: str, queue_id: int) -> list[tuple[int, int, bytes]]:
    """(queue offset, physical offset, record) of everything a consumer gets from the start of a queue."""
    found = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset, _READ_COUNT)
        found += [(m.queue_offset, m.physical_offset, bytes(m.record)) for m in result.messages]
        if result.next_offset <= offset:
            _fail("I18", f"reading {topic}/{queue_id} at {offset} makes no progress: {result.status}")
        offset = result.next_offset
    return found


def _check_index(store: MessageStore, log: RawLog, history: History) -> None:
    entries = {entry.body: entry for entry in history.entries}
    wanted: dict[tuple[str, str], list[int]] = defaultdict(list)
    optional: dict[tuple[str, str], set[int]] = defaultdict(set)
    for record in log.records:
        for key in dict.fromkeys(record.keys):
            entry = entries.get(record.body)
            if entry is None or entry.indexed:
                wanted[record.topic, key].append(record.physical_offset)
            else:
                optional[record.topic, key].add(record.physical_offset)
    for (topic, key), offsets in wanted.items():
        found = [message.physical_offset for message in store.query(topic, key, _QUERY_COUNT)]
        if len(found) != len(set(found)):
            _fail("I5", f"key {topic}#{key} finds a message twice: {found}")
        lacking = set(offsets) - set(found)
        if lacking and len(found) < _QUERY_COUNT:
            _fail("I5", f"key {topic}#{key} does not find {sorted(lacking)}, only {found}")
        strange = set(found) - set(offsets) - optional[topic, key]
        if strange:
            _fail("I5", f"key {topic}#{key} finds {sorted(strange)}, which do not have it")
    for entry in history.entries:
        for key in entry.keys:
            if (entry.topic, key) not in wanted and (entry.topic, key) not in optional:
                found = [message.physical_offset for message in store.query(entry.topic, key, _QUERY_COUNT)]
                if found:
                    _fail("I5", f"key {entry.topic}#{key} finds {found} although its message is gone")


def check_visible(store: MessageStore) -> None:
    """I10: whatever a reader gets now would survive a power cut now."""
    flushed = store.flushed_offset
    for topic, queue_id in store.queues():
        for offset, physical_offset, record in read_queue(store, topic, queue_id):
            if physical_offset + len(record) > flushed:
                _fail(
                    "I10",
                    f"{topic}/{queue_id}@{offset} at {physical_offset} is readable, flushed is {flushed}",
                )


def check_image(files: Files, history: History) -> None:
    """I8, on the bytes a crash left, before anybody repairs them: what RocketMQ's checkpoint says must be
    true."""
    claimed = raw_store.read_checkpoint(files, ROOT)
    log = raw_store.read_log(files, ROOT)
    present = {record.physical_offset for record in log.records}
    for entry in history.entries:
        if entry.state != "acked" or entry.raw is None or entry.physical_offset < max(log.start, history.deleted_below):
            continue
        record = raw_store.parse_record(entry.raw, 0, entry.physical_offset)
        if record is None:
            continue
        if record.store_timestamp <= claimed.physic_ms and entry.physical_offset not in present:
            _fail(
                "I8",
                f"checkpoint says the log is on disk to {claimed.physic_ms}, message {entry.number} is not",
            )
        if record.store_timestamp <= claimed.logics_ms:
            units = raw_store.read_queue(files, ROOT, record.topic, record.queue_id)
            if units.get(record.queue_offset) != record.unit:
                _fail(
                    "I8",
                    f"checkpoint: queues on disk to {claimed.logics_ms}; message {entry.number} has no unit",
                )


def has_unseen_damage(files: Files, history: History, *, sealed: bool) -> bool:
    """Whether a record that was never promised lies there altered, with nothing in the format to tell it by.

    Only the body has a checksum unless the whole record has one; recovery cannot be blamed for believing the rest.
    With ``sealed`` records that still have their whole-record checksum do not count: those can be told.
    """
    entries = {entry.body: entry for entry in history.entries}
    next_offset: dict[tuple[str, int], int] = {}
    for record in raw_store.read_log(files, ROOT).records:
        entry = entries.get(record.body)
        queue = (record.topic, record.queue_id)
        expected = next_offset.get(queue, record.queue_offset)
        next_offset[queue] = record.queue_offset + 1
        if (sealed and record.sealed) or record.body in history.retired:
            continue
        promised = entry is not None and entry.state == "acked" and entry.end <= history.promised
        if expected != record.queue_offset or entry is None or (not promised and _difference(entry, record)):
            return True
    return False


def check_state_files(files: Files, seen: set[tuple[str, bytes]]) -> None:
    """I15, on the bytes a crash left: a small state file is one that was there before or the new one, whole."""
    for name in STATE_FILES:
        content = files.get(f"{ROOT}/{name}")
        if content is not None and (name, content) not in seen:
            _fail("I15", f"{name} holds {content[:48].hex() or 'nothing'}, which was never its content")


def derived_bytes(files: Files, *, index: bool) -> Files:
    """What must not depend on how often recovery ran: log, queues and index, without never-written zero files."""
    kinds = [f"{ROOT}/commitlog/", f"{ROOT}/consumequeue/"] + ([f"{ROOT}/index/"] if index else [])
    return {path: data for path, data in files.items() if path.startswith(tuple(kinds)) and any(data)}

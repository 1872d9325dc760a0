"""What can be checked without walking the log: names and lengths of files, the checkpoint, markers, JSON state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from flaremq.errors import StoreIOError
from flaremq.java_json import parse_java_json
from flaremq.storage.at_rest.outlook import lost_since, redispatch_start
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files import layout
from flaremq.storage.files.checkpoint import CHECKPOINT_SIZE, is_our_abort
from flaremq.storage.files.directory import FileRun, read_small_file
from flaremq.storage.verify.finding import Finding, Severity, Summary


def check_files(reader: StoreReader) -> Iterator[Finding]:
    """Files of the log and the queues that are absent, of a wrong length, in each other's way, or not ours."""
    yield from _check_run(
        reader.log.run, "log", must_exist=bool(reader.queues), folder=reader.layout.commit_log_paths[0]
    )
    for queue in reader.queues:
        findings = [*_check_run(queue.run, "queue", must_exist=False, folder=queue.folder)]
        if queue.ext_run is not None:
            findings += _check_run(queue.ext_run, "ext", must_exist=False, folder=queue.folder)
        if findings and _is_built_anew(reader, queue.topic):
            findings = [replace(finding, severity=Severity.NOTE) for finding in findings]
        yield from findings
    for path in reader.foreign:
        detail = "does not belong here: RocketMQ 4.9 refuses to start with it; move it away"
        yield Finding(path, None, "foreign-file", detail, Severity.WARNING)


def _is_built_anew(reader: StoreReader, topic: str) -> bool:
    """Whether opening the store throws the topic's queues away: a deletion of it may not be finished."""
    if reader.closed_cleanly or not reader.deleted.end_of(topic):
        return False
    return reader.deleted.was_deleted_since(topic, redispatch_start(reader, reader.log_end))


def _check_run(run: FileRun, what: str, *, must_exist: bool, folder: str) -> Iterator[Finding]:
    if must_exist and not run.files:
        detail = "there are queues but no log: is this the right path, is the disk mounted?"
        yield Finding(folder, None, "log-absent", detail, Severity.DAMAGE)
    for file in run.misfits:
        if file.size == 0 and file.start >= run.end:
            yield Finding(file.path, None, "file-empty", f"a {what} file of no length", Severity.NOTE)
        elif file.size != run.file_size:
            detail = f"{file.size} bytes, where the {what}'s other files have {run.file_size}"
            yield Finding(file.path, None, "file-size", detail, Severity.DAMAGE)
        else:
            detail = f"starts at {file.start}, inside another {what} file of {run.file_size} bytes"
            yield Finding(file.path, None, "file-overlap", detail, Severity.DAMAGE)
    for start, end in run.gaps:
        detail = f"no {what} file holds offsets {start} to {end - 1}"
        yield Finding(os.path.join(folder, layout.file_name(start)), None, "file-missing", detail, Severity.DAMAGE)


def check_marks(reader: StoreReader, summary: Summary) -> Iterator[Finding]:
    """Crash marker, deleted topics and checkpoint, now that ``summary`` tells how far the log reaches."""
    if not reader.closed_cleanly:
        detail = "the store was not closed cleanly: opening it walks the log and completes queues and index"
        yield Finding(reader.layout.abort, None, "not-closed", detail, Severity.NOTE)
    if (copies := reader.deleted.whole_copies) < 2:
        detail = "one of its two copies is damaged" if copies else "the list of deleted topics cannot be read"
        severity = Severity.WARNING if copies else Severity.DAMAGE
        yield Finding(reader.layout.deleted_topics, None, "deletions-damaged", detail, severity)
    path = reader.layout.checkpoint
    checkpoint = reader.checkpoint
    if checkpoint is None:
        if reader.log.run.files:
            detail = "there is no whole checkpoint: recovery after a crash reads the log from its start"
            severity = Severity.WARNING if reader.filesystem.exists(path) else Severity.NOTE
            yield Finding(path, None, "checkpoint-absent", detail, severity)
        return
    if (size := reader.filesystem.size(path)) != CHECKPOINT_SIZE:
        yield Finding(path, None, "checkpoint-size", f"{size} bytes, not {CHECKPOINT_SIZE}", Severity.WARNING)
    for at, (name, value) in enumerate(checkpoint.items()):
        bound = summary.newest_timestamp if at < 3 else summary.log_end
        if value < 0 or (value > bound and summary.records and name != "masterFlushedOffset"):
            detail = f"{name} is {value}, the log reaches {bound}: the checkpoint claims more than is there"
            severity = Severity.WARNING if reader.closed_cleanly else Severity.NOTE
            if at == 0 and (loss := lost_since(reader, summary.newest_timestamp)) is not None:
                detail, severity = f"{name}: {loss}", _severity_of_loss(reader)
            yield Finding(path, at * 8, "checkpoint-ahead", detail, severity)


def _severity_of_loss(reader: StoreReader) -> Severity:
    """Our checkpoint vouches for what was synced; RocketMQ's also for what waits in its transient pool."""
    offsets = reader.noted_offsets
    ours = offsets is not None and is_our_abort(reader.filesystem, reader.layout.abort, offsets)
    return Severity.DAMAGE if ours else Severity.WARNING


def check_config(reader: StoreReader) -> Iterator[Finding]:
    """The JSON state: each file, or the backup RocketMQ falls back to, must be readable."""
    filesystem, folder = reader.filesystem, reader.layout.config
    names = filesystem.list_directory(folder)
    for name in names:
        if not name.endswith(".json"):
            continue
        path = os.path.join(folder, name)
        problem = _json_problem(reader, path)
        if problem is None:
            continue
        backup_good = name + ".bak" in names and _json_problem(reader, path + ".bak") is None
        detail = f"{problem}; the backup {'is good and would be used' if backup_good else 'does not help either'}"
        yield Finding(path, 0, "config-unreadable", detail, Severity.WARNING if backup_good else Severity.DAMAGE)


def _json_problem(reader: StoreReader, path: str) -> str | None:
    try:
        data = read_small_file(reader.filesystem, path)
    except StoreIOError as error:
        return str(error)
    if not data:
        return "the file is empty"
    try:
        parse_java_json(data.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return None

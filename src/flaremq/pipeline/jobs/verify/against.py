"""A store held against its earlier certificate: is everything still there that retention had no reason to remove?"""

from __future__ import annotations

from collections.abc import Iterator

from flaremq.pipeline.jobs.verify.certificate import Certificate, config_digests
from flaremq.pipeline.jobs.verify.check import StoreCheck
from flaremq.pipeline.jobs.verify.difference import Difference, State
from flaremq.pipeline.jobs.verify.tasks import Marks, QueueBlock, TaskExecutor
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.layout import file_name
from flaremq.storage.verify.finding import Severity


def marks_of(certificate: Certificate) -> Marks:
    """The digests to ask for: of the certificate's blocks of the log, by where they start, and of its entries."""
    log: dict[int, list[int]] = {}
    for start, end, _ in certificate.log_blocks:
        log.setdefault(start, []).append(end)
    return Marks(log, {name: int(fields["count"]) for name, fields in certificate.indexes.items()})


def compare(certificate: Certificate, check: StoreCheck) -> Iterator[Difference]:
    """Everything that is not as the certificate says."""
    yield from _compare_log(certificate, check.reader, check.executor)
    yield from _compare_queues(certificate, check.reader, check.executor)
    yield from _compare_indexes(certificate, check)
    yield from _compare_config(certificate, check.reader)


def _compare_log(certificate: Certificate, reader: StoreReader, executor: TaskExecutor) -> Iterator[Difference]:
    for start, end, digest in certificate.log_blocks:
        where = f"[{start}, {end})"
        if end <= reader.log_min or start < reader.log_min:
            detail = f"the log now begins at {reader.log_min}"
            yield Difference(State.EXPIRED, "log", where, detail, start)
            continue
        file = reader.log.run.file_at(start)
        name = file_name(start) if file is None else file_name(file.start)
        found = executor.log_digest(start, end)
        if found is None:
            yield Difference(State.MISSING, "log", name, f"bytes {where} of the log are not there", start)
        elif found != digest:
            yield Difference(State.CHANGED, "log", name, f"bytes {where} of the log are not what they were", start)


def _compare_queues(certificate: Certificate, reader: StoreReader, executor: TaskExecutor) -> Iterator[Difference]:
    wanted = certificate.queue_blocks
    found = executor.hash_queues([(block.place, block.first, block.end) for block in wanted])
    for before, now in zip(wanted, found, strict=True):
        if before.digest != now.digest:
            yield _queue_difference(before, now, reader)


def _queue_difference(before: QueueBlock, now: QueueBlock, reader: StoreReader) -> Difference:
    topic, queue_id = before.place
    where = f"{topic}@{queue_id} [{before.first}, {before.end})"
    if 0 <= before.end_physical <= reader.deleted.end_of(topic):
        return Difference(State.DELETED, "queue", where, "the topic was deleted since", before.first)
    if before.first_physical < reader.log_min:
        whole = "all" if before.end_physical <= reader.log_min else "the first"
        return Difference(State.EXPIRED, "queue", where, f"{whole} of its records have expired", before.first)
    if now.digest is None:
        return Difference(State.MISSING, "queue", where, "these units are not there", before.first)
    return Difference(State.CHANGED, "queue", where, "these units are not what they were", before.first)


def _compare_indexes(certificate: Certificate, check: StoreCheck) -> Iterator[Difference]:
    reader = check.reader
    now = {index.name: index for index in check.chain.indexes}
    in_order = not any(
        finding.severity is not Severity.NOTE and finding.path.startswith(reader.layout.index)
        for finding in check.findings
    )
    for name, before in certificate.indexes.items():
        found = now.get(name)
        if found is not None and before["sha256"] in (found.digest, found.digest_at_mark):
            continue
        if before["endOffset"] < reader.log_min:
            yield Difference(State.EXPIRED, "index", name, "all of its records have expired")
        elif in_order:
            yield Difference(State.REBUILT, "index", name, "other entries than before, in agreement with the log")
        elif found is None:
            yield Difference(State.MISSING, "index", name, f"the file with {before['entries']} entries is not there")
        else:
            yield Difference(State.CHANGED, "index", name, "its entries are not what they were")


def _compare_config(certificate: Certificate, reader: StoreReader) -> Iterator[Difference]:
    now = config_digests(reader)
    for name, digest in certificate.config.items():
        if name not in now:
            yield Difference(State.MISSING, "config", name, "the file is not there")
        elif now[name] != digest:
            yield Difference(State.UPDATED, "config", name, "changed since, as state does")

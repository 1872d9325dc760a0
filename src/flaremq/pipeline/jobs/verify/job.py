"""``verify``: everything a store says held against everything else it says, and against what is known of it.

In parallel, with the findings of ``store verify``. On top of them: a certificate for later, a comparison with an
earlier one, with an archive, with a replica.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.object_access import object_access
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.session import AnySession
from flaremq.pipeline.jobs.store_place import StorePlace, open_store, place_of, without_log_place
from flaremq.pipeline.jobs.tasks import Progress
from flaremq.pipeline.jobs.verify.against import compare, marks_of
from flaremq.pipeline.jobs.verify.certificate import Certificate, certify
from flaremq.pipeline.jobs.verify.check import StoreCheck, check_store
from flaremq.pipeline.jobs.verify.difference import Difference
from flaremq.pipeline.jobs.verify.tasks import Marks
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sources.open import check_log_below, source_spec
from flaremq.storage.at_rest.pieces import PIECE_BYTES
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.verify.finding import Finding, Summary

if TYPE_CHECKING:
    from flaremq.pipeline.jobs.verify.tables import TableProof
    from flaremq.pipeline.tables.model.target import TableTarget

SOUND, DAMAGED, DIFFERS = "sound", "damaged", "differs"


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was found; ``differences`` are those from certificate, archive or replica."""

    path: str
    summary: Summary
    findings: tuple[Finding, ...]
    differences: tuple[Difference, ...]
    certificate: str | None  # where it was written
    archived_equal: int | None  # messages found the same in the archive
    tables: tuple[TableProof, ...]
    seconds: float

    @property
    def verdict(self) -> str:
        """ "damaged" if the store contradicts itself, "differs" if it contradicts what it was held against."""
        if self.is_damaged:
            return DAMAGED
        return DIFFERS if any(difference.is_failure for difference in self.differences) else SOUND

    @property
    def is_damaged(self) -> bool:
        return self.summary.damaged

    @property
    def records(self) -> int:
        return self.summary.records

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "verdict": self.verdict,
            "summary": self.summary.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
            "differences": [difference.to_json() for difference in self.differences],
            "certificate": self.certificate,
            "archivedEqual": self.archived_equal,
            "tables": [proof.summary() for proof in self.tables],
            "seconds": round(self.seconds, 3),
        }


def verify(
    spark: AnySession | None,
    *,
    path: str,
    certificate: str | None = None,
    against: str | None = None,
    archive: str | None = None,
    replica: str | None = None,
    tables: Sequence[TableTarget] = (),
    broker_name: str | None = None,
    properties: Mapping[str, str] | None = None,
    piece_bytes: int | None = None,
    on_progress: Progress | None = None,
) -> VerifyResult:
    """Check the store at ``path``, which no process may hold open.

    ``certificate`` is a file to write, ``against`` an earlier one; ``archive`` and ``replica`` are directories to hold
    it against, ``tables`` those of the lakehouse that were made of it. ``properties`` are options of its broker that no
    file tells. Without a session everything runs in this process.
    """
    started = time.monotonic()
    earlier = None if against is None else Certificate.load(against)
    if certificate is not None:
        _check_new_file(certificate)
    kept = None if archive is None else _kept(archive, path, properties, spark)
    runner = TaskRunner(spark, on_progress)
    name = broker_name or source_spec(parse_options({"path": path})).paths[0][0]
    with contextlib.ExitStack() as held:
        reader = held.enter_context(open_store(path, properties))
        other = None if replica is None else held.enter_context(open_store(replica, without_log_place(properties)))
        if kept is not None:
            from flaremq.pipeline.jobs.verify.archive import check_archive

            check_archive(kept, name)
        block_bytes = piece_bytes or (PIECE_BYTES if earlier is None else earlier.block_bytes)
        marks = marks_of(earlier) if earlier is not None else None if certificate is None else Marks()
        check = check_store(reader, _place(reader, properties), runner, block_bytes, marks)
        differences = [] if earlier is None else [*compare(earlier, check)]
        if other is not None:
            differences += _compare_replica(runner, check, other, properties)
        equal, found = _compare_archive(runner, reader, kept, name, properties)
        differences += found
        proofs, found = _compare_tables(runner, reader, tables, name, properties, earlier)
        differences += found
        result = VerifyResult(
            reader.layout.root,
            check.summary,
            check.findings,
            tuple(differences),
            None if certificate is None else os.path.abspath(certificate),
            equal,
            tuple(proofs),
            0.0,
        )
        if certificate is not None:
            certify(check, verdict=result.verdict, broker_name=name, tables=proofs).save(certificate)
    return replace(result, seconds=time.monotonic() - started)


def _compare_replica(
    runner: TaskRunner, check: StoreCheck, replica: StoreReader, properties: Mapping[str, str] | None
) -> Iterable[Difference]:
    from flaremq.pipeline.jobs.verify.replica import compare_replica

    return compare_replica(
        runner,
        master=check.reader,
        replica=replica,
        places=(_place(check.reader, properties), _place(replica, properties)),
        pieces=check.pieces,
        log_end=check.summary.log_end,
    )


def _compare_archive(
    runner: TaskRunner,
    reader: StoreReader,
    archive: ArchiveRoot | None,
    broker_name: str,
    properties: Mapping[str, str] | None,
) -> tuple[int | None, list[Difference]]:
    if archive is None:
        return None, []
    from flaremq.pipeline.jobs.verify.archive import compare_archive

    return compare_archive(
        runner, path=reader.layout.root, archive=archive, broker_name=broker_name, geometry=properties
    )


def _compare_tables(
    runner: TaskRunner,
    reader: StoreReader,
    targets: Sequence[TableTarget],
    broker_name: str,
    properties: Mapping[str, str] | None,
    earlier: Certificate | None,
) -> tuple[list[TableProof], list[Difference]]:
    """Tables against the store, and against what an earlier certificate says of them."""
    if not targets:
        return [], []
    from flaremq.pipeline.jobs.verify.tables import compare_table, prove_of_store

    proofs: list[TableProof] = []
    found: list[Difference] = []
    for target in targets:
        proof = prove_of_store(runner, reader.layout.root, target, broker_name, properties)
        proofs.append(proof)
        found += proof.differences
        if earlier is not None:
            found += compare_table(runner, earlier, target)
    return proofs, found


def _kept(archive: str, path: str, properties: Mapping[str, str] | None, spark: AnySession | None) -> ArchiveRoot:
    check_log_below(path, properties or {})
    return ArchiveRoot(archive, object_access({}, spark, archive))


def _check_new_file(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidArgumentError(f"{folder} is no directory, so {path} cannot be written there")
    if os.path.isdir(path):
        raise InvalidArgumentError(f"{path} is a directory; give the file that the certificate is written to")


def _place(reader: StoreReader, properties: Mapping[str, str] | None) -> StorePlace:
    """With the one geometry all index files have, so that no task has to work it out again."""
    place = place_of(reader, properties)
    known = {index.geometry for index in reader.indexes}
    return replace(place, geometry=known.pop()) if place.geometry is None and len(known) == 1 else place

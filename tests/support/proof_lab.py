"""Stores for the tests of rebuild and verify, and the serial way to what these jobs do in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flaremq.message.delay import parse_delay_levels
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.options import StoreOptions
from flaremq.storage.verify.finding import Finding, Summary
from flaremq.storage.verify.verifier import StoreVerifier
from tests.support.store_corpus import write_corpus
from tests.support.store_lab import SMALL, StoreLab

# What no file of the small stores tells: slots and entries of an index file that is lost, the length of queue files.
SIZES = {
    "maxHashSlotNum": str(SMALL.max_hash_slot_num),
    "maxIndexNum": str(SMALL.max_index_num),
    "mappedFileSizeConsumeQueue": str(SMALL.mapped_file_size_consume_queue),
}
VIEWS = ("consumequeue", "batchconsumequeue", "index")


@contextmanager
def store_lab(root: Path) -> Iterator[StoreLab]:
    bench = StoreLab(root)
    yield bench
    bench.finish()


def corpus(root: Path, rounds: int = 10, *, foreign: bool = True) -> StoreLab:
    """A closed store with a little of everything, over several files of each kind."""
    lab = StoreLab(root)
    lab.open()
    write_corpus(lab, rounds, foreign=foreign)
    lab.close()
    return lab


def files_below(root: Path, *folders: str) -> dict[str, bytes]:
    """Every file of these folders, by its path below the root."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


def views(root: Path) -> dict[str, bytes]:
    return files_below(root, *VIEWS)


def serial_check(root: Path, properties: dict[str, str] | None = None) -> tuple[list[Finding], Summary]:
    """What ``store verify`` says in one process."""
    options = StoreOptions.from_properties(properties or SIZES)
    geometry = IndexGeometry(options.max_hash_slot_num, options.max_index_num)
    folders = options.commit_log_folders(str(root)) if options.store_path_commit_log else []
    levels = parse_delay_levels(options.message_delay_level)
    with StoreReader.open(root, commit_log_paths=folders, index_geometry=geometry) as reader:
        verifier = StoreVerifier(reader, delay_levels=levels)
        findings = list(verifier.findings())
    return findings, verifier.summary


def in_order(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.path, finding.offset or -1, finding.kind, finding.detail))

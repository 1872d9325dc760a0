"""Certificate: what a store held when it was checked, so that a later check can tell whether it still does.

A JSON document with the verdict and findings of one check, and digests over stretches of bytes that never change once
written: blocks of the log, blocks of queue units, the entries of each index file. Slots and header of an index follow
from its entries and change as it grows; configuration changes all the time and is only noted. The last field is a
digest over all others, so a certificate that was changed by hand, or cut short, is refused.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.jobs.verify.check import StoreCheck
from flaremq.pipeline.jobs.verify.tasks import QueueBlock, QueueRange, TaskExecutor
from flaremq.storage.at_rest.digest import DIGEST
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import LocalFileSystem, write_atomically
from flaremq.storage.verify.chain import QueueVerdict

if TYPE_CHECKING:
    from flaremq.pipeline.jobs.verify.tables import TableProof

KIND = "flaremq-certificate"
VERSION = 1
QUEUE_BLOCK_UNITS = 1 << 18


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate as its JSON fields; see docs/proof.md."""

    fields: dict[str, Any]

    @classmethod
    def load(cls, path: str) -> Certificate:
        """Read and check it; InvalidArgumentError if it is none, or its own digest does not fit."""
        if os.path.isdir(path):
            raise InvalidArgumentError(f"{path} is no certificate: it is a directory")
        data = read_small_file(LocalFileSystem(), os.path.abspath(path))
        if data is None:
            raise NotFoundError(f"{path} does not exist; give the certificate that `verify` wrote")
        try:
            fields = json.loads(data)
        except ValueError as error:
            raise InvalidArgumentError(f"{path} is no certificate: it is not JSON ({error})") from error
        if not isinstance(fields, dict) or fields.get("kind") != KIND:
            raise InvalidArgumentError(f"{path} is no certificate: its kind is not {KIND!r}")
        if fields.get("version") != VERSION:
            raise InvalidArgumentError(
                f"{path}: version {fields.get('version')} is not known here; use a newer flaremq"
            )
        found = fields.get(DIGEST)
        expected = _digest({name: value for name, value in fields.items() if name != DIGEST})
        if found != expected:
            raise InvalidArgumentError(
                f"{path} is no certificate: it was changed since it was written (its digest is {found}, its content "
                f"has {expected})"
            )
        return cls(fields)

    def save(self, path: str) -> None:
        text = json.dumps(self.fields, indent=1, ensure_ascii=False) + "\n"
        write_atomically(LocalFileSystem(), os.path.abspath(path), text.encode())

    @property
    def block_bytes(self) -> int:
        return int(self.fields["log"]["blockBytes"])

    @property
    def log_blocks(self) -> list[tuple[int, int, str]]:
        return [(start, end, digest) for file in self.fields["log"]["files"] for start, end, digest in file["blocks"]]

    @property
    def queue_blocks(self) -> list[QueueBlock]:
        return [
            QueueBlock((queue["topic"], queue["queueId"]), *block)
            for queue in self.fields["queues"]
            for block in queue["blocks"]
        ]

    @property
    def indexes(self) -> dict[str, dict[str, Any]]:
        return {index["file"]: index for index in self.fields["indexes"]}

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """By their addresses; none in certificates from before they were kept."""
        return {table["table"]: table for table in self.fields.get("tables", ())}

    @property
    def config(self) -> dict[str, str]:
        return dict(self.fields["config"])


def certify(check: StoreCheck, *, verdict: str, broker_name: str, tables: Sequence[TableProof] = ()) -> Certificate:
    """The certificate of a check that has just been made, and of the tables that were held against the store."""
    reader = check.reader
    fields: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "tool": f"flaremq {_version()}",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "store": {"path": reader.layout.root, "brokerName": broker_name},
        "algorithm": DIGEST,
        "verdict": verdict,
        "summary": check.summary.to_dict(),
        "findings": [finding.to_dict() for finding in check.findings],
        "log": _log_fields(check),
        "queues": _queue_fields(check.chain.queues, check.executor),
        "indexes": [
            {
                "file": index.name,
                "entries": index.count - 1,
                "count": index.count,
                "endOffset": index.end_offset,
                DIGEST: index.digest,
            }
            for index in check.chain.indexes
        ],
        "config": config_digests(reader),
        "checkpoint": reader.checkpoint,
    }
    if tables:
        fields["tables"] = [proof.certified() for proof in tables]
    fields[DIGEST] = _digest(fields)
    return Certificate(fields)


def config_digests(reader: StoreReader) -> dict[str, str]:
    """The digest of each JSON file of the broker's state."""
    folder = reader.layout.config
    digests = {}
    for name in reader.filesystem.list_directory(folder):
        data = read_small_file(reader.filesystem, os.path.join(folder, name)) if name.endswith(".json") else None
        if data is not None:
            digests[name] = hashlib.sha256(data).hexdigest()
    return digests


def queue_blocks_of(ranges: Sequence[QueueVerdict]) -> list[QueueRange]:
    """Each queue's units cut into blocks, at the same places whatever the queue's first unit is."""
    wanted: list[QueueRange] = []
    for verdict in ranges:
        begin = verdict.first
        while begin < verdict.end:
            end = min(begin // QUEUE_BLOCK_UNITS * QUEUE_BLOCK_UNITS + QUEUE_BLOCK_UNITS, verdict.end)
            wanted.append((verdict.place, begin, end))
            begin = end
    return wanted


def _log_fields(check: StoreCheck) -> dict[str, Any]:
    reader, executor, log_end = check.reader, check.executor, check.summary.log_end
    files: list[dict[str, Any]] = []
    for file in reader.log.run.files:
        if file.start >= log_end and files:
            break
        end = min(file.end, log_end)
        inside = [found for found in check.chain.found if file.start <= found.begin < file.end]
        blocks: list[list[Any]] = []
        for piece in check.pieces:
            if file.start <= piece.start < end:
                stop = min(piece.end, end)
                digest = executor.log_digest(piece.start, stop)
                blocks.append([piece.start, stop, digest])
        files.append(
            {
                "file": os.path.basename(file.path),
                "start": file.start,
                "end": end,
                "records": sum(found.summary.records for found in inside),
                "recordBytes": sum(found.summary.record_bytes for found in inside),
                "blocks": blocks,
            }
        )
    return {"minOffset": reader.log_min, "maxOffset": log_end, "blockBytes": check.block_bytes, "files": files}


def _queue_fields(ranges: Sequence[QueueVerdict], executor: TaskExecutor) -> list[dict[str, Any]]:
    blocks: dict[tuple[str, int], list[QueueBlock]] = {}
    for block in executor.hash_queues(queue_blocks_of(ranges)):
        blocks.setdefault(block.place, []).append(block)
    return [
        {
            "topic": verdict.place[0],
            "queueId": verdict.place[1],
            "minOffset": verdict.first,
            "maxOffset": verdict.end,
            "blocks": [
                [block.first, block.end, block.digest, block.first_physical, block.end_physical]
                for block in blocks.get(verdict.place, [])
            ],
        }
        for verdict in sorted(ranges, key=lambda verdict: verdict.place)
    ]


def _digest(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _version() -> str:
    try:
        return importlib.metadata.version("flaremq")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree or a shipped archive
        return "unknown"

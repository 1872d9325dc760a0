"""Manifest: what an archive holds, exactly; the only truth about it.

``_flaremq/`` has one file a commit, ``manifest-<sequence>.delta.jsonl`` with what it added, and now and then
``manifest-<sequence>.snapshot.jsonl`` with everything up to there. The state is the newest snapshot and all deltas
after it. Data files are written, and durable, before the commit that names them; a file no commit names does not
belong to the archive.

A commit is the making of its delta file: of several writers that loaded the same state one can make it, the others
have to load the state again. So whoever commits knows everything that was committed before.

A file is JSON lines: a header, one object an entry, and an end line with the number of entries and the CRC-32 of all
bytes before it. Entries tell their topic first, so that a reader of one topic of a large archive skips the others
unparsed.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

import orjson

from flaremq.errors import CorruptionError, InvalidArgumentError, NotFoundError, StoreIOError, UnavailableError
from flaremq.pipeline.archive.entries import ArchiveFile, ArchiveGap, QueueRun, file_from_json, gap_from_json
from flaremq.pipeline.archive.root import METADATA, ArchiveRoot
from flaremq.pipeline.model.spans import QueueRef, Span

_log = logging.getLogger(__name__)
VERSION: Final = 1
_NAME: Final = re.compile(r"manifest-(\d{10})\.(delta|snapshot)\.jsonl")
_DELTAS_MAX: Final = 32  # a load reads at most so many files beside the snapshot
_TRIES: Final = 5


class ArchiveSegment(NamedTuple):
    """A run and the file it is in; ``path`` is ``None`` if the run has no message."""

    run: QueueRun
    file: ArchiveFile

    @property
    def path(self) -> str | None:
        return self.file.path


class Manifest:
    """One state of an archive. ``topics`` limits what was loaded; such a manifest cannot be committed to."""

    def __init__(self, root: ArchiveRoot, topics: Collection[str] | None = None) -> None:
        self.root = root
        self.sequence = 0
        self.snapshot_sequence = 0
        self.files: list[ArchiveFile] = []
        self.gaps: list[ArchiveGap] = []
        self._topics = None if topics is None else frozenset(topics)
        self._segments: dict[QueueRef, list[ArchiveSegment]] = {}
        self._is_sorted = True

    @classmethod
    def load(cls, root: ArchiveRoot | str, topics: Collection[str] | None = None) -> Self:
        """The newest state; ``NotFoundError`` if this is no archive."""
        root = root if isinstance(root, ArchiveRoot) else ArchiveRoot(root)
        manifest = cls.load_or_new(root, topics)
        if not manifest.sequence:
            raise NotFoundError(f"{root.location} is no archive: it has no {METADATA}/manifest-….jsonl")
        return manifest

    @classmethod
    def load_or_new(cls, root: ArchiveRoot, topics: Collection[str] | None = None) -> Self:
        for attempt in range(_TRIES):
            try:
                return cls._load(root, topics)
            except NotFoundError:  # a writer has put a snapshot in the place of what was listed
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    @classmethod
    def _load(cls, root: ArchiveRoot, topics: Collection[str] | None) -> Self:
        manifest = cls(root, topics)
        found = _listed(root)
        manifest.snapshot_sequence = max((number for number, kind in found if kind == "snapshot"), default=0)
        chain = [(manifest.snapshot_sequence, "snapshot")] if manifest.snapshot_sequence else []
        chain += sorted(entry for entry in found if entry[1] == "delta" and entry[0] > manifest.snapshot_sequence)
        for number, kind in chain:
            if number != manifest.sequence + 1 and kind == "delta":
                raise CorruptionError(
                    "a commit of the archive is missing",
                    path=root.full_path(METADATA),
                    expected=_path(manifest.sequence + 1, "delta"),
                    found=_path(number, kind),
                )
            is_whole, entries = _entries(root, _path(number, kind), manifest._topics)
            if is_whole:
                manifest._forget()
            for entry in entries:
                manifest._take(entry)
            manifest.sequence = number
        return manifest

    @property
    def is_stale(self) -> bool:
        """Whether another run has committed since."""
        return max((number for number, _ in _listed(self.root)), default=0) != self.sequence

    @property
    def queues(self) -> list[QueueRef]:
        return sorted(self._sorted())

    def segments(self, queue: QueueRef, start: int = 0, end: int | None = None) -> list[ArchiveSegment]:
        """The queue's runs that touch [start, end), by offset; they never overlap."""
        found = self._sorted().get(queue, [])
        first = bisect_right(found, start, key=lambda segment: segment.run.end)
        last = len(found) if end is None else bisect_left(found, end, key=lambda segment: segment.run.start)
        return found[first:last]

    def missing(self, span: Span, *, known_gaps: bool = False) -> list[Span]:
        """What of the span no run covers; with ``known_gaps`` without what is recorded as a gap."""
        covered = [(run.start, run.end) for run, _ in self.segments(span.queue, span.start, span.end)]
        if known_gaps:
            covered += [gap.span[1:] for gap in self.gaps if gap.span.queue == span.queue]
        holes = []
        position = span.start
        for start, end in sorted(covered):
            if start >= span.end:
                break
            if start > position:
                holes.append(Span(span.queue, position, start))
            position = max(position, end)
        if position < span.end:
            holes.append(Span(span.queue, position, span.end))
        return holes

    def commit(self, files: Sequence[ArchiveFile], gaps: Sequence[ArchiveGap] = ()) -> None:
        """Make these part of the archive, all at once. Only under the root's lock."""
        if self._topics is not None:
            raise InvalidArgumentError("a manifest that was loaded for some topics only cannot be committed to")
        self._check(files)
        self._make(_content(self.sequence + 1, "delta", files, gaps))
        for file in files:
            self._add(file)
        self.gaps += gaps
        if self.sequence - self.snapshot_sequence > _DELTAS_MAX:
            self._condense()

    def replace(self, removed: Sequence[ArchiveFile], added: Sequence[ArchiveFile]) -> None:
        """Put files that hold the same runs in the place of others. Only under the root's lock.

        A commit says what it adds, so one that takes away is the whole state, and says so: what was before does not
        count. The snapshot that follows has the same.
        """
        if self._topics is not None:
            raise InvalidArgumentError("a manifest that was loaded for some topics only cannot be committed to")
        gone = {id(file) for file in removed}
        state = Manifest(self.root)
        for file in self.files:
            if id(file) not in gone:
                state._add(file)
        state._check(added)
        for file in added:
            state._add(file)
        self._make(_content(self.sequence + 1, "snapshot", state.files, self.gaps))
        self.files, self._segments, self._is_sorted = state.files, state._segments, False
        self._condense()

    def _make(self, content: bytes) -> None:
        """The commit itself."""
        self._refuse_if_stale(_listed(self.root))
        self.root.create_bytes(_path(self.sequence + 1, "delta"), content)
        # A writer that slept on its way here may have made a file that others had made and, after a snapshot, removed.
        self._refuse_if_stale((number, kind) for number, kind in _listed(self.root) if kind == "snapshot")
        self.sequence += 1

    def _refuse_if_stale(self, listed: Iterable[tuple[int, str]]) -> None:
        if any(number > self.sequence for number, _ in listed):
            raise UnavailableError(f"the archive {self.root.location} was changed by another writer; start again")

    def _condense(self) -> None:
        """Write everything as a snapshot. The commit is done, so this may fail; then the next one does it."""
        try:
            path = _path(self.sequence, "snapshot")
            self.root.write_bytes(path, _content(self.sequence, "snapshot", self.files, self.gaps))
            self._forget_before(self.snapshot_sequence)
        except StoreIOError as error:
            _log.warning("a snapshot of the archive was not written, the next commit tries again: %s", error)
            return
        self.snapshot_sequence = self.sequence

    def _check(self, files: Iterable[ArchiveFile]) -> None:
        for run in (run for file in files for run in file.runs):
            for known, _ in self.segments(run.queue, run.start, run.end):
                raise InvalidArgumentError(
                    f"{run.queue} [{run.start}, {run.end}) is archived already, as [{known.start}, {known.end})"
                )

    def _forget_before(self, sequence: int) -> None:
        """Remove what the snapshot before this one had replaced: a reader that began there has long finished."""
        for number, kind in _listed(self.root):
            if number < sequence:
                self.root.delete(_path(number, kind))

    def _forget(self) -> None:
        self.files, self.gaps, self._segments = [], [], {}

    def _take(self, entry: dict[str, Any]) -> None:
        if "file" in entry:
            self._add(file_from_json(entry["file"]))
        elif "gap" in entry:
            self.gaps.append(gap_from_json(entry["gap"]))

    def _add(self, file: ArchiveFile) -> None:
        self.files.append(file)
        for run in file.runs:
            self._segments.setdefault(run.queue, []).append(ArchiveSegment(run, file))
        self._is_sorted = False

    def _sorted(self) -> dict[QueueRef, list[ArchiveSegment]]:
        if not self._is_sorted:
            for segments in self._segments.values():
                segments.sort(key=lambda segment: segment.run.start)
            self._is_sorted = True
        return self._segments


def _content(number: int, kind: str, files: Sequence[ArchiveFile], gaps: Sequence[ArchiveGap]) -> bytes:
    header = {
        "flaremqArchive": VERSION,
        "sequence": number,
        "kind": kind,
        "createdMs": int(time.time() * 1000),
        "writer": uuid.uuid4().hex,  # no two writers ever write the same bytes
    }
    lines = [orjson.dumps(header)]
    ordered = sorted(files, key=lambda file: (file.topic, file.day, file.path or ""))
    lines += [orjson.dumps({"topic": file.topic, "file": file.to_json()}) for file in ordered]
    lines += [orjson.dumps({"topic": gap.span.queue.topic, "gap": gap.to_json()}) for gap in gaps]
    content = b"\n".join(lines) + b"\n"
    end = orjson.dumps({"end": len(lines) - 1, "crc32": zlib.crc32(content)})
    return content + end + b"\n"


def _path(number: int, kind: str) -> str:
    return f"{METADATA}/manifest-{number:010d}.{kind}.jsonl"


def _listed(root: ArchiveRoot) -> list[tuple[int, str]]:
    names = (_NAME.fullmatch(path.rpartition("/")[2]) for path in root.list(METADATA))
    return [(int(match[1]), match[2]) for match in names if match is not None]


def _entries(root: ArchiveRoot, path: str, topics: frozenset[str] | None) -> tuple[bool, Iterator[dict[str, Any]]]:
    """Whether the file is everything there is, and what stands in it."""
    data = root.read_bytes(path)
    at = data.rfind(b"\n", 0, len(data) - 1) + 1
    try:
        end = orjson.loads(data[at:])
        lines = data[:at].splitlines()
        header = orjson.loads(lines[0])
        crc, version = end["crc32"], header["flaremqArchive"]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptionError("a manifest cannot be read", path=root.full_path(path), found=str(error)) from error
    if version > VERSION:
        raise InvalidArgumentError(f"{root.full_path(path)} has format {version}, newer than this FlareMQ knows")
    if crc != zlib.crc32(data[:at]) or end["end"] != len(lines) - 1:
        raise CorruptionError(
            "a manifest is damaged", path=root.full_path(path), expected=crc, found=zlib.crc32(data[:at])
        )
    wanted = None if topics is None else tuple(b'{"topic":%s,' % orjson.dumps(topic) for topic in topics)
    entries = (orjson.loads(line) for line in lines[1:] if wanted is None or line.startswith(wanted))
    return header.get("kind") == "snapshot", entries

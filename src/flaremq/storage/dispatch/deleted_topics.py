"""DeletedTopics: which records of the log belong to topics that were deleted since.

Deleting a topic removes its queues, and a topic of the same name counts from 0 again. The log still holds the old
records until they expire, and whoever builds queues from it must know that they are dead; so the deletion is a fact
beside the log: for each name the end of the log when it was deleted. A record of that topic that starts *before* this
offset has no queue unit and answers no query, in dispatch, recovery, verify and rescue alike. Its index entries stay:
the index remains a function of the log alone, and readers skip them.

Order makes a deletion safe at every moment: the fact becomes durable first; then, if the topic got no message meanwhile
(or else the fact is written again), it counts from 0, so that no record behind the offset has an old number; then the
queues go; then a checkpoint is saved. Recovery finishes what a
crash left undone: a queue whose units may be older than the fact is built anew. An entry is dropped when the log's
start has passed it, for then it hides nothing.

A replica does not know where the log ended when its master deleted a topic. It notes where the last record ends that is
surely of the earlier life: maybe long before, never behind a record of the new one (``ViewWriter.begin_anew``).

``flaremq.deleted`` (docs/formats/flaremq.offsets.md) is replaced as a whole and holds its content twice, each with a
checksum: one wrong bit must not bring the dead back. RocketMQ ignores it.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import Self

from flaremq.errors import FlareMQError, NotFoundError, StoreIOError
from flaremq.storage.files.filesystem import FileSystem, write_atomically

_log = logging.getLogger(__name__)
_COPIES = 2


class DeletedTopics:
    """The deletions of one store. Changed under the dispatch lock; asked by anyone."""

    __slots__ = ("_ends", "_filesystem", "_path", "reach", "whole_copies")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._ends: dict[str, int] = {}  # replaced as a whole, so readers need no lock
        self.reach = 0  # no record from this physical offset on is deleted; for those who hold the dispatch lock
        self.whole_copies = _COPIES

    @classmethod
    def load(cls, filesystem: FileSystem, path: str) -> Self:
        """What the file says; nothing if there is none. One with no whole copy is put aside, loudly.

        A store that does not open serves nobody; without the list, queues that stand stay as they are, and only those
        that must be built anew show records of before a deletion.
        """
        deleted = cls(filesystem, path)
        ends, deleted.whole_copies = deleted._stored()
        if not deleted.whole_copies:
            aside = path + ".damaged"
            _log.error(
                "%s, the list of deleted topics, is damaged and is put aside as %s: old messages of topics that were "
                "deleted may come back; delete such a topic again",
                path,
                aside,
            )
            filesystem.rename(path, aside)
            filesystem.sync_directory(os.path.dirname(path))
            deleted.whole_copies = _COPIES
        deleted._use(ends)
        return deleted

    @classmethod
    def peek(cls, filesystem: FileSystem, path: str) -> Self:
        """As ``load``, but a damaged or unreadable file tells nothing; ``whole_copies`` is 0 then."""
        deleted = cls(filesystem, path)
        try:
            ends, deleted.whole_copies = deleted._stored()
        except StoreIOError:
            ends, deleted.whole_copies = {}, 0
        deleted._use(ends)
        return deleted

    def end_of(self, topic: str) -> int:
        """Records of this topic before this physical offset are deleted; 0 if none are."""
        return self._ends.get(topic, 0)

    @property
    def ends(self) -> Mapping[str, int]:
        """As ``end_of``, of all topics; never changed."""
        return self._ends

    def hides(self, topic: str, physical_offset: int) -> bool:
        return physical_offset < self._ends.get(topic, 0)

    def was_deleted_since(self, topic: str, physical_offset: int) -> bool:
        """Whether the topic was deleted when the log ended at this offset, or later."""
        return 0 < self._ends.get(topic, 0) >= physical_offset

    def __bool__(self) -> bool:
        return bool(self._ends)

    # Changing

    def add(self, topics: Iterable[str], log_end: int) -> None:
        """Record, durably, that these topics were deleted when the log ended here.

        Raises StoreIOError with nothing changed in memory; ``is_as_stored`` then tells what is on disk.
        """
        if log_end > 0:  # an empty log has nothing to hide
            self._replace({**self._ends, **dict.fromkeys(topics, log_end)})

    def is_as_stored(self) -> bool:
        """Whether the file, as far as it can be read, says what we say."""
        try:
            return self._stored() == (self._ends, _COPIES)
        except FlareMQError:
            return False

    def forget_before(self, log_min: int) -> None:
        """Drop entries the log's start has passed."""
        left = {topic: end for topic, end in self._ends.items() if end > log_min}
        if left != self._ends:
            self._replace(left)

    def settle(self, *, log_min: int, log_end: int) -> None:
        """Recovery found the log's extent: fit the entries to it, durably, before anything is appended.

        A crash may have taken the end of the log along; what is appended in its place is alive.
        """
        fitted = {topic: min(end, log_end) for topic, end in self._ends.items() if min(end, log_end) > log_min}
        if fitted != self._ends or self.whole_copies < _COPIES:
            self._replace(fitted)

    def _replace(self, ends: dict[str, int]) -> None:
        if ends:
            write_atomically(self._filesystem, self._path, pack_deletions(ends))
        elif self._filesystem.exists(self._path):
            self._filesystem.remove(self._path)
            self._filesystem.sync_directory(os.path.dirname(self._path))
        self.whole_copies = _COPIES
        self._use(ends)

    def _use(self, ends: dict[str, int]) -> None:
        self._ends = ends
        self.reach = max(ends.values(), default=0)

    def _stored(self) -> tuple[dict[str, int], int]:
        try:
            file = self._filesystem.open(self._path, read_only=True)
        except NotFoundError:
            return {}, _COPIES
        try:
            return parse_deletions(file.read_at(0, file.size()))
        finally:
            file.close()


def pack_deletions(ends: dict[str, int]) -> bytes:
    """Twice the same line: the checksum of the JSON in hexadecimal, a space, the JSON."""
    text = json.dumps({"topics": dict(sorted(ends.items()))}).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text) * _COPIES


def parse_deletions(data: bytes) -> tuple[dict[str, int], int]:
    """(log end by topic, whole copies found); the copies are told by length, which no flipped bit changes."""
    length = len(data) // _COPIES
    found = [ends for at in range(_COPIES) if (ends := _parse_copy(data[at * length : (at + 1) * length])) is not None]
    return (found[0] if found else {}), len(found)


def _parse_copy(line: bytes) -> dict[str, int] | None:
    text = line[9:-1]
    if line[:9] != b"%08x " % zlib.crc32(text):
        return None
    try:
        ends: dict[str, int] = json.loads(text)["topics"]
        return {str(topic): int(end) for topic, end in ends.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None

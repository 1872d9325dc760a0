"""What is known to be on disk: RocketMQ's ``checkpoint`` for RocketMQ, ``flaremq.offsets`` for us.

RocketMQ records clock times, so its recovery depends on the clock and re-reads whole files. We write its file (so a
Java broker recovers our store well) but recover by offsets of our own:

* ``log_durable``   every log byte below is on disk: damage below it is damage, never a torn tail;
* ``dispatched``    queue units and index entries of every record below it are on disk: recovery starts here;
* ``session``       who wrote this; ``abort`` names the same and us, else RocketMQ used the store since;
* the index file's header as it was at ``dispatched``;
* ``log_end``       the log's end if the store was closed cleanly, else -1.

Every value was true before it was written. ``flaremq.offsets`` has two slots in pages of their own: the slot synced
last is never overwritten, so a torn write costs nothing but the newest hint. Between syncs the other slot follows
``log_durable`` through the page cache, which survives a killed process.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import threading
import zlib
from dataclasses import dataclass, replace
from typing import Any

from flaremq.errors import NotFoundError, StoreIOError
from flaremq.storage.files.filesystem import File, FileSystem, write_atomically

# RocketMQ's checkpoint file: 4,096 bytes, the rest zero; 4.9 knows the first three fields.
#
#   at  field
#    0  physic_msg_timestamp     store time of the last record flushed
#    8  logics_msg_timestamp     store time of the last record whose queue unit is flushed
#   16  index_msg_timestamp      store time of the last record whose index entries are flushed
#   24  master_flushed_offset    5.x replica
#   32  confirm_phy_offset       5.x
#   40  logics_physical_offset   5.5
CHECKPOINT = struct.Struct(">6q")
CHECKPOINT_SIZE = 4096
assert CHECKPOINT.size == 48


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """RocketMQ's checkpoint as a value."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0

    @property
    def recovery_time_ms(self) -> int:
        """Records stored before this need no second dispatch, by RocketMQ's rule."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - 3000)

    @classmethod
    def load(cls, filesystem: FileSystem, path: str) -> StoreCheckpoint:
        """All zero, which is always safe, if the file is absent or too short."""
        try:
            handle = filesystem.open(path, read_only=True)
        except NotFoundError:
            return cls()
        try:
            data = handle.read_at(0, CHECKPOINT.size)
        finally:
            handle.close()
        return cls(*CHECKPOINT.unpack(data)) if len(data) == CHECKPOINT.size else cls()

    def pack(self) -> bytes:
        """The whole file."""
        fields = (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
            self.logics_physical_offset,
        )
        return CHECKPOINT.pack(*fields).ljust(CHECKPOINT_SIZE, b"\0")


# One slot of flaremq.offsets; slot k stands at byte k * 4096. See docs/formats/flaremq.offsets.md.
_SLOT = struct.Struct(">8sqqqqqqqqqqii")
_CRC = struct.Struct(">I")
_MAGIC = b"FLAREMQ1"
_SLOT_DISTANCE = 4096


@dataclass(frozen=True, slots=True)
class DurableOffsets:
    """One state of flaremq.offsets."""

    log_durable: int = 0
    dispatched: int = 0
    log_end: int = -1
    session: int = 0  # process id of the writer, as it stands in ``abort`` while the store is open
    index_name: int = 0  # the 17 digits of the newest index file's name, 0 for none
    index_begin_timestamp: int = 0
    index_end_timestamp: int = 0
    index_begin_offset: int = 0
    index_end_offset: int = 0
    index_slot_count: int = 0
    index_count: int = 0

    def pack(self, sequence: int) -> bytes:
        data = _SLOT.pack(
            _MAGIC,
            sequence,
            self.log_durable,
            self.dispatched,
            self.log_end,
            self.session,
            self.index_name,
            self.index_begin_timestamp,
            self.index_end_timestamp,
            self.index_begin_offset,
            self.index_end_offset,
            self.index_slot_count,
            self.index_count,
        )
        return data + _CRC.pack(zlib.crc32(data))

    @classmethod
    def unpack(cls, data: bytes) -> tuple[int, DurableOffsets] | None:
        """(sequence, offsets), or None if these bytes are not a whole slot."""
        if len(data) < _SLOT.size + _CRC.size or data[:8] != _MAGIC:
            return None
        if _CRC.unpack_from(data, _SLOT.size)[0] != zlib.crc32(data[: _SLOT.size]):
            return None
        fields = _SLOT.unpack_from(data)
        return fields[1], cls(*fields[2:])


def write_abort(filesystem: FileSystem, path: str, session: int) -> None:
    """Mark the store as open by us. Replaced as a whole: a shorter process id must not leave digits of a longer one."""
    try:
        write_atomically(filesystem, path, _abort_text(session))
    except StoreIOError as error:
        if error.errno != errno.ENOSPC:
            raise
        # No room for the text: the name alone says that the store is open, and after a crash not by whom.
        filesystem.open(path, create=True).close()
        filesystem.sync_directory(os.path.dirname(path))


def is_our_abort(filesystem: FileSystem, path: str, offsets: DurableOffsets) -> bool:
    """Whether the process that did not close the store is the one of ours that wrote these offsets.

    RocketMQ leaves ``abort`` empty or with its process id alone. That may be the number we had: both are 1 in a
    container.
    """
    if offsets.log_end >= 0:
        return False  # we closed the store; whoever crashed opened it after us
    try:
        abort = filesystem.open(path, read_only=True)
    except NotFoundError:
        return False
    try:
        return abort.read_at(0, 64) == _abort_text(offsets.session)
    finally:
        abort.close()


def _abort_text(session: int) -> bytes:
    return b"%d flaremq" % session


def pack_hints(hints: dict[str, Any]) -> bytes:
    """flaremq.queues: the checksum of the JSON in hexadecimal, a line break, the JSON."""
    text = json.dumps(hints).encode()
    return b"%08x\n" % zlib.crc32(text) + text


def parse_hints(data: bytes) -> dict[str, Any]:
    """What ``pack_hints`` packed; ValueError if the checksum differs."""
    if data[:9] != b"%08x\n" % zlib.crc32(data[9:]):
        raise ValueError("checksum of flaremq.queues differs")
    hints: dict[str, Any] = json.loads(data[9:])
    return hints


def unindexed_from(filesystem: FileSystem, path: str) -> int | None:
    """From which physical offset on no keys were indexed, because indexing was off; None if it was on."""
    try:
        file = filesystem.open(path, read_only=True)
    except NotFoundError:
        return None
    try:
        found = parse_hints(file.read_at(0, file.size())).get("unindexedFrom")
    except ValueError:
        return None
    finally:
        file.close()
    return found if isinstance(found, int) else None


_Slot = tuple[int, DurableOffsets]  # sequence and state


def _read_slots(file: File) -> tuple[list[_Slot | None], _Slot | None]:
    """Both slots, None where one is not whole, and the newest of them."""
    slots = [DurableOffsets.unpack(file.read_at(k * _SLOT_DISTANCE, _SLOT_DISTANCE)) for k in (0, 1)]
    best = max((slot for slot in slots if slot), default=None, key=lambda s: (s[0], s[1].log_durable))
    return slots, best


class OffsetsFile:
    """flaremq.offsets, open for the life of a store. Any thread."""

    __slots__ = ("_file", "_free_slot", "_lock", "_sequence", "offsets")

    def __init__(self, file: File, free_slot: int, sequence: int, offsets: DurableOffsets) -> None:
        self._lock = threading.Lock()  # guards writing: a sync and a checkpoint may meet
        self._file = file
        self._free_slot = free_slot
        self._sequence = sequence
        self.offsets = offsets

    @classmethod
    def open(cls, filesystem: FileSystem, path: str, folder: str) -> OffsetsFile:
        existed = filesystem.exists(path)
        file = filesystem.open(path, create=True)
        if not existed or file.size() < 2 * _SLOT_DISTANCE:
            file.resize(2 * _SLOT_DISTANCE)
            file.reserve(0, 2 * _SLOT_DISTANCE)
            file.sync()
            filesystem.sync_directory(folder)
        slots, best = _read_slots(file)
        if best is None:
            return cls(file, 0, 0, DurableOffsets())
        return cls(file, 1 - slots.index(best), best[0], best[1])

    @staticmethod
    def peek(filesystem: FileSystem, path: str) -> DurableOffsets | None:
        """Read without opening for writing; None if there is no valid slot."""
        try:
            file = filesystem.open(path, read_only=True)
        except NotFoundError:
            return None
        try:
            best = _read_slots(file)[1]
        finally:
            file.close()
        return best[1] if best else None

    @property
    def is_known(self) -> bool:
        """Some earlier state of ours was found."""
        return self._sequence > 0

    def note_log_durable(self, offset: int) -> None:
        """The log was synced to here; a hint through the page cache, made durable by the next ``save``."""
        with self._lock:
            self.offsets = replace(self.offsets, log_durable=offset, log_end=-1)
            self._file.write_at(self._free_slot * _SLOT_DISTANCE, self.offsets.pack(self._sequence + 1))

    def save(self, offsets: DurableOffsets) -> None:
        """Make a new state durable; the previous one stays until it is."""
        with self._lock:
            self._file.write_at(self._free_slot * _SLOT_DISTANCE, offsets.pack(self._sequence + 1))
            self._file.sync()
            self._sequence += 1
            self._free_slot = 1 - self._free_slot
            self.offsets = offsets

    def close(self) -> None:
        self._file.close()

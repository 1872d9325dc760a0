"""Staging: what tasks write beside a closed store, and the decision to take it in.

Tasks of a write put their rows into files below ``flaremq.staging`` of the store, where RocketMQ ignores them:

    flaremq.staging/<write>/done                      the last batch of this write that is in the store
    flaremq.staging/<write>/<batch>/<partition>-<attempt>.rows
    flaremq.staging/<write>/<batch>/manifest          the files whose rows go into the store; once it is there, they do

A file of rows is a run of chunks, each a head and the parcel of a write stream:

    at  size  field        note
     0     4  MAGIC        "FMQS"
     4     4  CRC          of everything behind it, CRC-32
     8     4  CHUNKSIZE    head, topic and body
    12     4  QUEUEID      -1: chosen when it is taken in
    16     4  DELAYED      0 or 1
    20     4  FIRST        number of the first message
    24     4  COUNT        messages
    28     8  WRITTEN      milliseconds since the epoch: the messages' born time
    36    16  STEM         of the stream, as text
    52     2  TOPICLENGTH
    54     …  TOPIC, then the batch body
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import BinaryIO, Final
from zlib import crc32

from flaremq.client.streams.sending import Parcel
from flaremq.clock import SystemClock
from flaremq.errors import CorruptionError, NotFoundError, StoreIOError
from flaremq.message.write_stream import NOTHING_STORED, Stored
from flaremq.pipeline.sink.task import LaneKey, TaskIdentity
from flaremq.storage.files.filesystem import LocalFileSystem, write_atomically

STAGING: Final = "flaremq.staging"
MANIFEST: Final = "manifest"
_DONE: Final = "done"
_HEAD: Final = struct.Struct(">4sIiiiIIq16sH")
assert _HEAD.size == 54
_CRC_AFTER: Final = 8
_MAGIC: Final = b"FMQS"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """The rows of one task that succeeded; what a manifest lists."""

    name: str
    size: int
    partition: int
    rows: int


@dataclass(frozen=True, slots=True)
class StagedParcel:
    """A parcel and where it goes."""

    lane: LaneKey
    stem: str
    parcel: Parcel
    written_ms: int


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """Files to take in: what the file ``manifest`` says. ``keep_done`` remembers the batch for ever, because the same
    write may come again."""

    write: str
    batch_id: int
    write_id: str
    keep_done: bool
    files: tuple[StagedFile, ...]


class StagingTarget:
    """A SinkTarget that writes to a file of its own. Use inside ``with``."""

    def __init__(
        self, folder: str, task: TaskIdentity, attempt: str, check_lane: Callable[[LaneKey], None] = lambda _: None
    ) -> None:
        """``check_lane`` raises for rows that the store would not take: better now than when they are decided on."""
        self._folder = folder
        self._check_lane = check_lane
        self._task = task
        self.name = f"{task.partition:05d}-{attempt}.rows"
        self._file: BinaryIO | None = None
        self.size = 0
        self._clock = SystemClock()

    def __enter__(self) -> StagingTarget:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            if kind is not None:
                _forget(os.path.join(self._folder, self.name))

    def open(self, lane: LaneKey) -> Stored:
        self._check_lane(lane)
        return NOTHING_STORED  # what is stored is found out when the rows are taken in

    def chains(self, lane: LaneKey, numbers: Iterable[int]) -> dict[int, int]:
        raise AssertionError("nothing is stored as far as a staging file knows")

    def put(self, lane: LaneKey, parcel: Parcel) -> None:
        topic = lane.topic.encode()
        head = bytearray(
            _HEAD.pack(
                _MAGIC,
                0,
                _HEAD.size + len(topic) + len(parcel.body),
                lane.queue_id,
                int(lane.is_delayed),
                parcel.first,
                parcel.count,
                self._clock.now_ms(),
                lane.stem(self._task).encode(),
                len(topic),
            )
        )
        crc = crc32(parcel.body, crc32(topic, crc32(memoryview(head)[_CRC_AFTER:])))
        struct.pack_into(">I", head, 4, crc)
        path = os.path.join(self._folder, self.name)
        try:
            if self._file is None:
                os.makedirs(self._folder, exist_ok=True)
                self._file = open(path, "wb", buffering=1 << 20)  # noqa: SIM115  # closed by __exit__
            self._file.write(head)
            self._file.write(topic)
            self._file.write(parcel.body)
        except OSError as error:
            raise StoreIOError("write", path, error) from error
        self.size += len(head) + len(topic) + len(parcel.body)

    def finish(self) -> None:
        if self._file is None:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            _sync_folder(self._folder)
        except OSError as error:
            raise StoreIOError("sync", os.path.join(self._folder, self.name), error) from error


def write_folder(root: str, write: str) -> str:
    return os.path.join(root, STAGING, write)


def batch_folder(root: str, write: str, batch_id: int) -> str:
    return os.path.join(write_folder(root, write), str(batch_id))


def read_parcels(path: str, size: int) -> Iterator[StagedParcel]:
    """The parcels of a staged file, each checked before it is given."""
    try:
        with open(path, "rb") as file:
            at = 0
            while at < size:
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    raise CorruptionError("a staged file ends too early", path=path, offset=at)
                magic, crc, total, queue_id, delayed, first, count, written, stem, topic_size = _HEAD.unpack(head)
                rest = file.read(total - _HEAD.size) if magic == _MAGIC and total > _HEAD.size else b""
                if len(rest) != total - _HEAD.size or crc32(rest, crc32(head[_CRC_AFTER:])) != crc:
                    raise CorruptionError("a staged file is damaged", path=path, offset=at)
                lane = LaneKey(rest[:topic_size].decode(), queue_id, bool(delayed))
                yield StagedParcel(lane, stem.decode(), Parcel(first, count, rest[topic_size:]), written)
                at += total
    except FileNotFoundError:
        raise NotFoundError(
            f"{path}, which a task has written, is not visible here: path must be a directory that the driver and all "
            "executors share"
        ) from None
    except OSError as error:
        raise StoreIOError("read", path, error) from error


# Manifests and what is done


def decide(root: str, batch: StagedBatch) -> None:
    """Write the manifest, unless there is one: a decision once made stays."""
    folder = batch_folder(root, batch.write, batch.batch_id)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, MANIFEST)
    if not os.path.exists(path):
        write_atomically(LocalFileSystem(), path, json.dumps(asdict(batch), indent=1).encode())
        _sync_folder(os.path.dirname(folder))
        _sync_folder(os.path.dirname(os.path.dirname(folder)))
        _sync_folder(root)


def decided_batches(root: str) -> list[StagedBatch]:
    """Batches that were decided on and whose rows are not known to be in the store, in order."""
    staging = os.path.join(root, STAGING)
    found: list[StagedBatch] = []
    for write in sorted(_names(staging)):
        for batch_id in _names(os.path.join(staging, write)):
            path = os.path.join(staging, write, batch_id, MANIFEST)
            try:
                with open(path, "rb") as file:
                    value = json.loads(file.read())
                value["files"] = tuple(StagedFile(**entry) for entry in value["files"])
                found.append(StagedBatch(**value))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (ValueError, TypeError, KeyError) as error:
                raise CorruptionError(f"a manifest cannot be read: {error}", path=path) from None
    return sorted(found, key=lambda batch: (batch.write, batch.batch_id))


def last_done(root: str, write: str) -> int:
    """The last batch of a write that is in the store, -1 if none is."""
    path = os.path.join(write_folder(root, write), _DONE)
    try:
        with open(path, "rb") as file:
            return int(json.loads(file.read())["batchId"])
    except FileNotFoundError:
        return -1
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptionError(f"the mark of the last batch cannot be read: {error}", path=path) from None


def mark_done(root: str, batch: StagedBatch) -> None:
    """Remember the batch (if the write may come again) and remove its files."""
    folder = write_folder(root, batch.write)
    if batch.keep_done and last_done(root, batch.write) < batch.batch_id:
        document = {"writeId": batch.write_id, "batchId": batch.batch_id}
        write_atomically(LocalFileSystem(), os.path.join(folder, _DONE), json.dumps(document).encode())
    remove_batch(root, batch.write, batch.batch_id)


def remove_batch(root: str, write: str, batch_id: int, *, undecided_only: bool = False) -> None:
    """Remove what tasks left of a batch, and of earlier ones that never came to a decision."""
    folder = write_folder(root, write)
    if undecided_only and os.path.exists(os.path.join(folder, str(batch_id), MANIFEST)):
        return  # its rows are on their way into the store
    for name in _names(folder):
        place = os.path.join(folder, name)
        older = name.isdigit() and int(name) < batch_id and not os.path.exists(os.path.join(place, MANIFEST))
        if name == str(batch_id) or older:
            _forget(os.path.join(place, MANIFEST))
            shutil.rmtree(place, ignore_errors=True)
    for place in (folder, os.path.join(root, STAGING)):
        try:
            os.rmdir(place)  # only if nothing is left in it
        except OSError:
            pass


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _sync_folder(folder: str) -> None:
    LocalFileSystem().sync_directory(folder)

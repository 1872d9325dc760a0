"""ArchiveRoot: the directory of an archive, on a local disk or in a store PyArrow knows (``s3://``, ``gs://``, …).

A file appears under its name whole or not at all. On a local disk that takes a temporary name, a sync of the file, a
rename and a sync of the folder; an object store shows an object when its upload is complete. ``s3://`` is ``objects``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final
from urllib.parse import quote

from pyarrow import fs

from flaremq.errors import InvalidArgumentError, NotFoundError, StoreIOError, UnavailableError
from flaremq.pipeline.archive.objects import ObjectStore
from flaremq.pipeline.model.object_settings import is_s3

METADATA: Final = "_flaremq"  # a leading underscore: Spark, DuckDB and Hive look past it
_TEMPORARY: Final = ".tmp"
_FAILED: Final = "AWS Error"  # begins what PyArrow tells of a request that failed; a bad page has other words
_SET_ASIDE: Final = f"{METADATA}/replaced"
_REPLACED: Final = ".replaced"  # behind *.parquet: no reader takes it for a file of the archive


class ArchiveRoot:
    """Reads and writes below one directory; paths are relative to it, with ``/``."""

    def __init__(self, location: str, settings: Mapping[str, str] | None = None) -> None:
        """``settings`` say how object stores are reached, see ``object_settings``."""
        if not location:
            raise InvalidArgumentError("an archive needs a directory or a URI such as s3://bucket/folder")
        self.location = location
        self.settings = dict(settings or {})
        self._objects: ObjectStore | None = None
        try:
            if is_s3(location):
                self._objects = ObjectStore(location, self.settings)
                self._files, self.base = self._objects.files, self._objects.base
            elif "://" in location:
                self._files, self.base = fs.FileSystem.from_uri(location)
            else:
                self._files, self.base = fs.LocalFileSystem(), os.path.abspath(location)
        except (ValueError, OSError) as error:
            raise InvalidArgumentError(f"the archive {location!r} cannot be opened: {error}") from error
        self.is_local = isinstance(self._files, fs.LocalFileSystem)

    def full_path(self, path: str) -> str:
        return f"{self.base}/{path}" if path else self.base

    def open_input(self, path: str) -> Any:
        """A file to read at random; ``NotFoundError`` if there is none."""
        with self._translated("opening", path):
            return self._files.open_input_file(self.full_path(path))

    def raise_if_unreachable(self, path: str, error: Exception) -> None:
        """What went wrong in reading a file may have been the way to it: that is no damage."""
        if not self.is_local and isinstance(error, OSError) and _FAILED in str(error):
            raise StoreIOError("reading", self.full_path(path), error) from error

    def read_bytes(self, path: str) -> bytes:
        with self.open_input(path) as file, self._translated("reading", path):
            data: bytes = file.read()
            return data

    @contextlib.contextmanager
    def replacing(self, path: str) -> Iterator[IO[bytes]]:
        """A file to write that takes the place of ``path`` when the block ends well, and is gone if it does not.

        In an object store whatever had that name is gone with it, so there no two writers may use the same.
        """
        if not self.is_local:
            with self._translated("writing", path):
                stream = self._files.open_output_stream(self.full_path(path))
                try:
                    yield stream
                    self._complete(stream, path)
                except BaseException:
                    with contextlib.suppress(OSError):
                        stream.close()
                    with contextlib.suppress(StoreIOError):
                        self.delete(path)  # closing it has made an object of what was written so far
                    raise
            return
        full = self.full_path(path)
        folder, name = os.path.split(full)
        # Hidden, and not *.parquet: no reader takes a half-written file for one of the archive.
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex}{_TEMPORARY}")
        with self._translated("writing", path):
            self._make_folders(folder)
            try:
                with open(temporary, "wb", buffering=0) as file:
                    yield file
                    os.fsync(file.fileno())
                os.rename(temporary, full)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            _sync_folder(folder)

    def _complete(self, stream: Any, path: str) -> None:
        """Close the stream. If the answer to that was lost, the object is there all the same."""
        size = stream.tell()
        try:
            stream.close()
        except OSError:
            if self.size(path) != size:
                raise

    def write_bytes(self, path: str, data: bytes) -> None:
        with self.replacing(path) as file:
            file.write(data)

    def renew_bytes(self, path: str, data: bytes) -> None:
        """A small file, anew: if that fails, the one before stays. In an object store so little goes whole or not."""
        if self.is_local:
            self.write_bytes(path, data)
            return
        with self._translated("writing", path):
            stream = self._files.open_output_stream(self.full_path(path))
            try:
                stream.write(data)
                stream.close()
            except OSError:
                if self._found(path) != data:  # else only the answer was lost
                    raise

    def create_bytes(self, path: str, data: bytes) -> None:
        """A file that nobody else may make at the same time; UnavailableError if somebody did.

        On a local disk there is a lock, in S3 a conditional write. PyArrow has none for other stores: there two writers
        within the same moment are usually found out by reading back, and then at most one of them goes on.
        """
        if self.is_local:
            self.write_bytes(path, data)
            return
        if self._objects is not None:
            # The key is what lies behind the bucket's name.
            self._objects.create(self.full_path(path).partition("/")[2], data, lambda: self._found(path))
            return
        with self._translated("writing", path), self._files.open_output_stream(self.full_path(path)) as stream:
            stream.write(data)
        if self.read_bytes(path) != data:
            raise UnavailableError(f"{self.full_path(path)} was written by another job at the same time; start again")

    def _found(self, path: str) -> bytes | None:
        try:
            return self.read_bytes(path)
        except NotFoundError:
            return None

    def list(self, folder: str, *, recursive: bool = False) -> list[str]:
        """Paths of the files below a folder, sorted; none if there is no such folder."""
        selector = fs.FileSelector(self.full_path(folder), allow_not_found=True, recursive=recursive)
        with self._translated("listing", folder):
            found = self._files.get_file_info(selector)
        start = len(self.base) + 1
        return sorted(info.path[start:] for info in found if info.type == fs.FileType.File)

    def times_and_sizes(self, folder: str) -> dict[str, tuple[int, int]]:
        """When each file below a folder was last changed, in milliseconds, and how many bytes it has."""
        selector = fs.FileSelector(self.full_path(folder), allow_not_found=True, recursive=True)
        with self._translated("listing", folder):
            found = self._files.get_file_info(selector)
        start = len(self.base) + 1
        files = [info for info in found if info.type == fs.FileType.File]
        return {info.path[start:]: (info.mtime_ns // 1_000_000, int(info.size)) for info in files}

    def has(self, folder: str) -> bool:
        """Whether there is such a folder with something in it."""
        return self._first(folder) is not None

    def first_name(self) -> str | None:
        """What lies in the directory, one thing; ``None`` if nothing does."""
        return self._first("")

    def _first(self, folder: str) -> str | None:
        selector = fs.FileSelector(self.full_path(folder), allow_not_found=True)
        with self._translated("listing", folder):
            found = self._files.get_file_info(selector)
        return min((info.base_name for info in found), default=None)

    def size(self, path: str) -> int | None:
        """Bytes of a file, ``None`` if there is none."""
        with self._translated("looking at", path):
            info = self._files.get_file_info(self.full_path(path))
        return int(info.size) if info.type == fs.FileType.File else None

    def delete(self, path: str) -> None:
        """Remove a file; one that is gone already is fine."""
        with contextlib.suppress(NotFoundError), self._translated("removing", path):
            self._files.delete_file(self.full_path(path))

    def set_aside(self, path: str) -> None:
        """Keep a file that is no longer part of the archive for those who still look for it; fine if it is gone."""
        if self.size(path) is None:  # not every store has a proper answer to moving what is not there
            return
        kept = self.full_path(f"{_SET_ASIDE}/{path}{_REPLACED}")
        with contextlib.suppress(NotFoundError), self._translated("setting aside", path):
            if self.is_local:
                self._make_folders(os.path.dirname(kept))
                os.utime(self.full_path(path))  # the time of this, not of its writing
            self._files.move(self.full_path(path), kept)

    def open_set_aside(self, path: str) -> Any:
        return self.open_input(f"{_SET_ASIDE}/{path}{_REPLACED}")

    def remove_set_aside(self, older_than_ms: int) -> None:
        for path, (changed_ms, _) in self.times_and_sizes(_SET_ASIDE).items():
            if changed_ms < older_than_ms:
                self.delete(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Only one writer at a time; an object store has no locks, there it is up to the caller."""
        if not self.is_local:
            yield
            return
        folder = self.full_path(METADATA)
        with self._translated("locking", METADATA):
            self._make_folders(folder)
            descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UnavailableError(
                    f"the archive {self.location} is being written by another process; wait for it, or stop it"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def _make_folders(self, folder: str) -> None:
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for name in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name)
            _sync_folder(os.path.dirname(name))

    @contextlib.contextmanager
    def _translated(self, operation: str, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise NotFoundError(f"{self.full_path(path)} does not exist") from error
        except OSError as error:
            raise StoreIOError(operation, self.full_path(path), error) from error


def partition_folder(topic: str, day: str) -> str:
    """Where the files of a topic's day lie, spelled as Hive, Spark, DuckDB and Polars read it."""
    return f"{topic_folder(topic)}/day={day}"


def topic_folder(topic: str) -> str:
    return f"topic={quote(topic, safe='')}"


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The seam to the operating system: every byte the store reads or writes goes through here.

Production uses :class:`LocalFileSystem`; crash and fault tests put a simulated disk in its place. The interface is
small on purpose, and says which calls make what durable:

* ``File.sync`` makes the file's bytes (written or stored through a mapping) and its length durable;
* ``Mapping.sync`` does so for some of the bytes of a file whose length is durable;
* ``sync_directory`` makes names in that directory durable: a created, renamed or removed name counts only then;
* nothing else makes anything durable.

A mapping is plain memory: stores through it cannot fail cleanly, so space is reserved (``reserve``) before any byte
of it is touched; a full disk is then an ``OSError`` from ``reserve`` and never a signal.
All calls raise :class:`StoreIOError`; ``write_at`` writes everything or raises.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Protocol

from flaremq.errors import NotFoundError, StoreIOError
from flaremq.storage.files import locks as store_lock


class Mapping(Protocol):
    """A shared writable (or read-only) mapping of a file's first bytes.

    It is never closed: whoever is done lets go of it. The memory is unmapped, and the space of a deleted file free,
    when nobody refers to the mapping, its ``buffer`` or a slice of that any more.
    """

    @property
    def buffer(self) -> memoryview: ...

    def advise(self, advice: int, offset: int, length: int) -> None:
        """madvise; a hint, never an error."""

    def sync(self, offset: int, length: int) -> None:
        """Make these bytes of the file durable, however they were written; not those in other pages."""

    def lock(self, offset: int, length: int) -> bool:
        """mlock; False when the system does not allow it."""

    def unlock(self) -> None: ...

    def resident(self, offset: int, length: int) -> bytes:
        """One byte per page, lowest bit set if the page is in memory (mincore)."""


class File(Protocol):
    """An open file."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes; short only at the end of the file."""

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None: ...

    def resize(self, length: int) -> None:
        """Set the length; new bytes read as zeros and may have no space behind them."""

    def reserve(self, offset: int, length: int) -> None:
        """Make sure writing to this range cannot run out of space; never changes existing bytes."""

    def map(self, length: int, *, read_only: bool = False) -> Mapping: ...

    def sync(self) -> None: ...

    def start_writing(self, offset: int, length: int) -> None:
        """Write the dirty pages of this range in the background; a hint, which makes nothing durable."""

    def fileno(self) -> int:
        """The descriptor, for calls of the system that take one."""

    def data_end(self) -> int:
        """No byte from here to the end of the file was ever written (they read as zeros); may be too high."""

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """Names, sorted; empty if the directory does not exist."""

    def make_directories(self, path: str, *, sync: bool = True) -> None:
        """Create the directory and its parents and make their names durable."""

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace ``target``."""

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str) -> Lock:
        """Take the process lock on byte 0 of ``path`` or raise UnavailableError at once."""

    def lock_shared(self, path: str) -> Lock | None:
        """Keep others from ``lock``; None if there is no such file, which is not made."""

    def lock_folder(self, path: str, *, shared: bool = False) -> Lock | None:
        """Lock the folder under whatever name, against other locks and, as far as they show, those who do not lock."""

    def used_ratio(self, path: str) -> float:
        """Used share of the partition, 0..1; raises NotFoundError if the path does not exist."""


@contextlib.contextmanager
def _translated(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{operation}: {path} does not exist") from error
    except OSError as error:
        raise StoreIOError(operation, path, error) from error


def write_atomically(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Replace a small file so that after any crash it holds the old or the new content, never less."""
    temporary = path + ".tmp"
    if filesystem.exists(temporary):
        filesystem.remove(temporary)
    handle = filesystem.open(temporary, create=True)
    try:
        handle.write_at(0, data)
        handle.sync()
    finally:
        handle.close()
    filesystem.rename(temporary, path)
    filesystem.sync_directory(os.path.dirname(path))


class LocalFileSystem:
    """The machine's own file system."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT
        with _translated("open", path):
            return LocalFile(path, os.open(path, flags | store_lock.OPEN_FLAGS, 0o640))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreIOError("list", path, error) from error

    def make_directories(self, path: str, *, sync: bool = True) -> None:
        missing = []
        current = os.path.abspath(path)
        while not os.path.isdir(current):
            missing.append(current)
            current = os.path.dirname(current)
        for directory in reversed(missing):
            with _translated("mkdir", directory), contextlib.suppress(FileExistsError):
                os.mkdir(directory, 0o750)
            if sync:
                self.sync_directory(os.path.dirname(directory))

    def size(self, path: str) -> int:
        with _translated("stat", path):
            return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        with _translated("stat", path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def remove(self, path: str) -> None:
        with _translated("remove", path):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        with _translated("rmdir", path):
            os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        with _translated("rename", source):
            os.replace(source, target)

    def sync_directory(self, path: str) -> None:
        with _translated("sync directory", path):
            descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lock(self, path: str) -> Lock:
        return store_lock.lock_file(path)

    def lock_shared(self, path: str) -> Lock | None:
        return store_lock.lock_file_shared(path)

    def lock_folder(self, path: str, *, shared: bool = False) -> Lock | None:
        return store_lock.lock_folder(path, shared=shared)

    def used_ratio(self, path: str) -> float:
        with _translated("statvfs", path):
            blocks = os.statvfs(path)
        # As RocketMQ and df count: space kept for the administrator is neither used nor free.
        used = blocks.f_blocks - blocks.f_bfree
        entire = used + blocks.f_bavail
        return used / entire if entire else 0.0


class LocalFile:
    """A file descriptor and its path."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def _call(self, operation: str, call: Callable[[], object]) -> object:
        try:
            return call()
        except OSError as error:
            raise StoreIOError(operation, self.path, error) from error

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, offset)
            if len(data) == length or not data:
                return data
            parts = [data]
            done = len(data)
            while done < length:
                data = os.pread(self._descriptor, length - done, offset + done)
                if not data:
                    break
                parts.append(data)
                done += len(data)
            return b"".join(parts)
        except OSError as error:
            raise StoreIOError("read", self.path, error) from error

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        try:
            done = os.pwrite(self._descriptor, data, offset)
            view = memoryview(data)
            while done < len(view):
                step = os.pwrite(self._descriptor, view[done:], offset + done)
                if step == 0:
                    raise OSError(errno.EIO, "short write")
                done += step
        except OSError as error:
            raise StoreIOError("write", self.path, error) from error

    def resize(self, length: int) -> None:
        self._call("resize", lambda: os.ftruncate(self._descriptor, length))

    def reserve(self, offset: int, length: int) -> None:
        self._call("reserve", lambda: os.posix_fallocate(self._descriptor, offset, length))

    def map(self, length: int, *, read_only: bool = False) -> Mapping:
        access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
        if self._descriptor < 0:  # would map fresh memory instead of the file
            raise StoreIOError("map", self.path, OSError(errno.EBADF, os.strerror(errno.EBADF)))
        try:
            return LocalMapping(self.path, mmap.mmap(self._descriptor, length, access=access))
        except OSError as error:
            raise StoreIOError("map", self.path, error) from error
        except ValueError as error:  # file shorter than the length asked for
            raise StoreIOError("map", self.path, OSError(errno.EINVAL, str(error))) from error

    def sync(self) -> None:
        self._call("sync", lambda: os.fdatasync(self._descriptor))

    def start_writing(self, offset: int, length: int) -> None:
        # Waits for nothing: waiting would take an error of the disk away from the sync that has to report it.
        _libc().sync_file_range(
            self._descriptor, ctypes.c_int64(offset), ctypes.c_int64(length), _SYNC_FILE_RANGE_WRITE
        )

    def fileno(self) -> int:
        return self._descriptor

    def data_end(self) -> int:
        try:
            end = os.lseek(self._descriptor, 0, os.SEEK_END)
            position = 0
            while position < end:
                try:
                    data = os.lseek(self._descriptor, position, os.SEEK_DATA)
                except OSError as error:
                    if error.errno == errno.ENXIO:  # only a hole from here on
                        return position
                    raise
                position = os.lseek(self._descriptor, data, os.SEEK_HOLE)
            return end
        except OSError as error:
            if error.errno == errno.EINVAL:  # file system without SEEK_DATA
                return self.size()
            raise StoreIOError("seek", self.path, error) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # The handle cache only forgets a file; the last user's reference closes it, never under a reader.
        self.close()


_PAGE = mmap.PAGESIZE
_SYNC_FILE_RANGE_WRITE = 2
_MS_SYNC = 4


class LocalMapping:
    """An ``mmap`` and the one exported view of it."""

    __slots__ = ("_address", "_locked", "_map", "_path", "buffer")

    def __init__(self, path: str, mapping: mmap.mmap) -> None:
        self._path = path
        self._map = mapping
        self._locked = (0, 0)
        self.buffer: memoryview = memoryview(mapping)
        self._address = _buffer_address(self.buffer)

    def advise(self, advice: int, offset: int, length: int) -> None:
        start = offset // _PAGE * _PAGE
        length = min(length + offset - start, len(self.buffer) - start)
        # Not by mmap's own method: that keeps the GIL, for milliseconds where pages are made.
        _libc().madvise(ctypes.c_void_p(self._address + start), ctypes.c_size_t(length), advice)

    def sync(self, offset: int, length: int) -> None:
        start = offset // _PAGE * _PAGE
        length = min(length + offset - start, len(self.buffer) - start)
        # As fdatasync of that range. Not by mmap's own method: that keeps the GIL.
        if _msync()(self._address + start, length, _MS_SYNC) != 0:
            number = ctypes.get_errno()
            raise StoreIOError("sync", self._path, OSError(number, os.strerror(number)))

    def lock(self, offset: int, length: int) -> bool:
        if not lock_memory(self.buffer[offset : offset + length]):
            return False
        self._locked = (self._address + offset, length)
        return True

    def unlock(self) -> None:
        address, length = self._locked
        if length:
            _libc().munlock(ctypes.c_void_p(address), ctypes.c_size_t(length))
            self._locked = (0, 0)

    def resident(self, offset: int, length: int) -> bytes:
        start = offset // _PAGE * _PAGE
        pages = (offset + length - start + _PAGE - 1) // _PAGE
        vector = ctypes.create_string_buffer(pages)
        address = ctypes.c_void_p(self._address + start)
        if _libc().mincore(address, ctypes.c_size_t(offset + length - start), vector) != 0:
            number = ctypes.get_errno()
            raise StoreIOError("mincore", "mapping", OSError(number, os.strerror(number)))
        return vector.raw


def lock_memory(view: memoryview) -> bool:
    """Keep this memory from being paged out (mlock); False when the system does not allow it."""
    address = ctypes.c_void_p(_buffer_address(view))
    return int(_libc().mlock(address, ctypes.c_size_t(view.nbytes))) == 0


@functools.cache
def _msync() -> Callable[[int, int, int], int]:
    call: Callable[[int, int, int], int] = _libc().msync
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)  # type: ignore[attr-defined]
    return call


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class _PyBuffer(ctypes.Structure):
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _buffer_address(view: memoryview) -> int:
    """The address behind a view, read-only or not; valid as long as the mapping lives."""
    buffer = _PyBuffer()
    api = ctypes.pythonapi
    api.PyObject_GetBuffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
    if api.PyObject_GetBuffer(view, ctypes.byref(buffer), 0) != 0:
        raise BufferError("the mapping has no address")
    address = buffer.buf or 0
    api.PyBuffer_Release.argtypes = (ctypes.POINTER(_PyBuffer),)
    api.PyBuffer_Release(ctypes.byref(buffer))
    return address

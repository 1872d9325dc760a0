"""Locks that keep two processes, ours or RocketMQ's, out of one store; see ``store_claim`` for which are taken.

On a *file* a POSIX record lock on byte 0, as Java's FileLock takes it. Such locks belong to the process, and closing
*any* descriptor of the file drops them all. So this process opens a lock file once: all its readers share one
descriptor, and whoever asks for a file that is held here is answered from the table below without touching it.

On a *folder* ``flock`` on the folder itself: it needs no file, so it works in a folder in which RocketMQ takes every
file for a part of the log and on a read-only disk, and it sees through symbolic links, bind mounts and spellings.
RocketMQ does not take it; what its processes show instead is a file of the folder that is open for writing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import struct
import threading
from dataclasses import dataclass

from flaremq.errors import NotFoundError, StoreIOError, UnavailableError

_Identity = tuple[int, int]  # device and inode
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, process
_BUSY = (errno.EACCES, errno.EAGAIN)
# Answers of file systems (NFS) that have no flock for folders.
_NO_FOLDER_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_WRITABLE = os.O_WRONLY | os.O_RDWR
# For every file of a store. A pipe in the place of one would block for ever; without it, reading one is an error.
OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(slots=True)
class _Held:
    """A file or folder locked by this process."""

    descriptor: int
    shared: bool
    users: int = 1


_held: dict[_Identity, _Held] = {}
_guard = threading.Lock()  # guards the table, and makes looking, locking and noting one step


def _forget_all() -> None:
    """In a forked child: the locks are the parent's. A folder's would live on in the child's copy of the descriptor."""
    global _guard
    _guard = threading.Lock()
    for held in _held.values():
        with contextlib.suppress(OSError):
            os.close(held.descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_all)


class HeldLock:
    """A lock of this process; held until ``release``."""

    __slots__ = ("_identity",)

    def __init__(self, identity: _Identity) -> None:
        self._identity: _Identity | None = identity

    def release(self) -> None:
        with _guard:
            identity, self._identity = self._identity, None
            held = _held.get(identity) if identity is not None else None
            if identity is None or held is None:
                return
            held.users -= 1
            if held.users == 0:
                with contextlib.suppress(OSError):  # a folder's: the close alone leaves it to a child forked just now
                    fcntl.flock(held.descriptor, fcntl.LOCK_UN)
                # Known as ours until the descriptor is closed: another thread would lock anew and lose it by the close.
                os.close(held.descriptor)
                del _held[identity]


def lock_file(path: str) -> HeldLock:
    """Lock byte 0 of this file, made if need be, against all processes; UnavailableError if one has it."""
    with _guard:
        _refuse_ours(path, shared=False)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o640)
        except FileNotFoundError as error:
            raise NotFoundError(f"open: {path} does not exist") from error
        except OSError as error:
            raise StoreIOError("open", path, error) from error
        held = _lock_descriptor(path, descriptor, shared=False)
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, b"lock", 0)
        return held


def lock_file_shared(path: str) -> HeldLock | None:
    """Lock byte 0 against writers; None if there is no such file, hence no writer."""
    with _guard:
        ours = _refuse_ours(path, shared=True)
        if ours is not None:
            return ours
        try:
            descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreIOError("open", path, error) from error
        return _lock_descriptor(path, descriptor, shared=True)


def lock_folder(path: str, *, shared: bool = False) -> HeldLock | None:
    """Lock an existing folder; None where the file system has no such locks and only reading is wanted."""
    with _guard:
        ours = _refuse_ours(path, shared=shared)
        if ours is not None:
            return ours
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise NotFoundError(f"open: {path} does not exist") from error
        except OSError as error:
            raise StoreIOError("open", path, error) from error
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_FOLDER_LOCKS:
                raise _refusal(path, error, shared=shared) from error
        else:
            held = _note(descriptor, shared=shared)
            writer = foreign_writer(path)
            if writer is None:
                return held
            del _held[_identity_of(os.fstat(descriptor))]
            os.close(descriptor)
            raise UnavailableError(f"{path}: {writer}")
    beside = os.path.realpath(path) + ".lock"
    return lock_file_shared(beside) if shared else lock_file(beside)


def is_locked(path: str) -> bool:
    """Whether a process holds this lock file for writing; asked without taking the lock, even for a moment."""
    with _guard:
        try:
            held = _held.get(_identity_of(os.stat(path, follow_symlinks=False)))
            if held is not None:
                return not held.shared  # opening and closing the file here would drop our own lock
            descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS)
        except OSError:
            return False
        try:
            asked = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
            answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
            return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
        except OSError:
            return False
        finally:
            os.close(descriptor)


def foreign_writer(folder: str) -> str | None:
    """Another process that has a file of this folder open for writing, in words; None if none is seen.

    How a Java broker shows whose root is elsewhere: it keeps its log files open and locks nothing near them. Processes
    of other users, unless we are root, and of other containers are not seen. To look through all descriptors of a
    machine takes long (10 ms for 2,000), so the file system is asked first.
    """
    try:
        with os.scandir(folder) as entries:
            files = {_identity_of(entry.stat()): entry.name for entry in entries if _may_have_writer(entry)}
        processes = [name for name in os.listdir("/proc") if name.isdigit()] if files else []
    except OSError:
        return None
    for process in processes:
        if int(process) == os.getpid():
            continue
        try:
            numbers = os.listdir(f"/proc/{process}/fd")
        except OSError:
            continue  # not ours to look into, or gone meanwhile
        for number in numbers:
            with contextlib.suppress(OSError):
                name = files.get(_identity_of(os.stat(f"/proc/{process}/fd/{number}")))
                if name is not None and _is_writable(process, number):
                    return f"process {process} ({_name_of(process)}) writes to {name} there; stop it first"
    return None


def _may_have_writer(entry: os.DirEntry[str]) -> bool:
    """False if this is no file, or one that nobody at all has open or mapped for writing: only then there is a lease.

    True also where there are no leases for us: files of others, network file systems.
    """
    if not entry.is_file():
        return False
    try:
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        # Whoever opens it for writing in this moment waits for us, and we get a signal: one that nobody minds.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_writable(process: str, number: str) -> bool:
    with open(f"/proc/{process}/fdinfo/{number}", encoding="ascii") as lines:
        return any(line.startswith("flags:") and int(line[6:], 8) & _WRITABLE for line in lines)


def _name_of(process: str) -> str:
    with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def _refuse_ours(path: str, *, shared: bool) -> HeldLock | None:
    """A further share of what this process holds, if both want to read; UnavailableError if it holds it otherwise."""
    try:
        identity = _identity_of(os.stat(path, follow_symlinks=os.path.isdir(path)))
    except OSError:
        return None
    held = _held.get(identity)
    if held is None:
        return None
    if held.shared and shared:
        held.users += 1
        return HeldLock(identity)
    if shared:
        raise UnavailableError(f"{path}: this process has the store open; close it first")
    raise UnavailableError(f"{path}: this process already has the store open")


def _lock_descriptor(path: str, descriptor: int, *, shared: bool) -> HeldLock:
    try:
        fcntl.lockf(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        os.close(descriptor)
        raise _refusal(path, error, shared=shared) from error
    return _note(descriptor, shared=shared)


def _note(descriptor: int, *, shared: bool) -> HeldLock:
    identity = _identity_of(os.fstat(descriptor))
    _held[identity] = _Held(descriptor, shared)
    return HeldLock(identity)


def _refusal(path: str, error: OSError, *, shared: bool) -> Exception:
    if error.errno not in _BUSY:
        return StoreIOError("lock", path, error)
    if shared:
        return UnavailableError(f"{path}: a running process holds this store; stop it first, or work on a copy")
    return UnavailableError(f"{path}: another process holds the store open")


def _identity_of(stat: os.stat_result) -> _Identity:
    return stat.st_dev, stat.st_ino

"""A disk in memory that forgets: the file-system seam with power loss, torn pages and failing calls.

Every file has two images. The *volatile* one is what the program sees, a ``bytearray``; mappings are plain
views of it, so stores through them need no interception. The *durable* one is what a power loss leaves.
``File.sync`` copies the first to the second; which pages are dirty is found by comparing the two. Names
work alike: creating, renaming and removing change the volatile tree and queue an operation,
``sync_directory`` makes the queued ones of that folder durable. Nothing else makes anything durable, as the
seam promises, except ``writeback``, which does what a kernel may do at any moment.

``crash`` builds the disk a power loss could leave: each dirty page is old, new, zeroed, garbage or torn,
each queued name operation is done or not, any subset. Zeros and garbage only fall on bytes that an
unfinished write was changing, sector by sector: a device that destroys their neighbours could be survived
by no log that appends inside a page. ``kill`` is the milder sister: the process is gone, the page cache stays.

What would be a signal on a real machine is an ``AssertionError`` here and is kept in ``violations``: a
store through a mapping to a page that was never reserved (SIGBUS on a full disk), a file cut under a live
mapping.
"""

from __future__ import annotations

import errno
import functools
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from flaremq.errors import NotFoundError, StoreIOError, UnavailableError
from tests.support.crash_choices import ALL_KINDS, PAGE, Chooser, PageKind, RandomChooser, SubsetChooser

READ_CALLS = frozenset({"open", "read", "list", "map", "seek"})
SPACE_CALLS = frozenset({"create", "write", "reserve", "mkdir", "rename", "lock"})


class SimulatedCrash(BaseException):
    """The machine stopped. Not an ``Exception``: no handler of the program survives a power cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong at the ``at``-th counted call (1 is the first), or at the first one after it that it
    fits."""

    kind: Literal["crash", "eio", "enospc", "short"]
    at: int
    forever: bool = False
    operations: frozenset[str] | None = None

    def fits(self, operation: str) -> bool:
        if self.operations is not None and operation not in self.operations:
            return False
        if self.kind == "enospc":
            return operation in SPACE_CALLS
        if self.kind == "short":
            return operation == "write"
        return True


class _Inode:
    """One file's bytes, whatever its names."""

    __slots__ = (
        "allocated",
        "durable",
        "durable_allocated",
        "handles",
        "lost",
        "memory",
        "modified_ms",
    )

    def __init__(self, content: bytes = b"", allocated: Iterable[int] = (), modified_ms: int = 0) -> None:
        self.memory = bytearray(content)
        self.durable = bytes(content)
        self.allocated = set(allocated)
        self.durable_allocated = frozenset(self.allocated)
        # Pages a failed sync left behind: the kernel calls them clean, so only a new change gets them
        # written.
        self.lost: dict[int, bytes] = {}
        self.handles = 0
        self.modified_ms = modified_ms

    @property
    def is_mapped(self) -> bool:
        """Whether a mapping, or a view somebody took of one, is alive."""
        try:
            self.memory.append(0)
        except BufferError:
            return True
        self.memory.pop()
        return False

    def page(self, number: int) -> bytes:
        return bytes(self.memory[number * PAGE : (number + 1) * PAGE]).ljust(PAGE, b"\0")

    def durable_page(self, number: int) -> bytes:
        return self.durable[number * PAGE : (number + 1) * PAGE].ljust(PAGE, b"\0")

    def dirty_pages(self) -> list[int]:
        if self.memory == self.durable:
            return []
        pages = (max(len(self.memory), len(self.durable)) + PAGE - 1) // PAGE
        return [number for number in range(pages) if self.page(number) != self.durable_page(number)]

    def persist_pages(self, pages: range) -> None:
        """What a successful sync of some pages does; the length was durable before."""
        durable = bytearray(self.durable)
        for number in pages:
            page = self.page(number)[: len(durable) - number * PAGE]
            if self.lost.get(number) != self.page(number):
                self.lost.pop(number, None)
                durable[number * PAGE : number * PAGE + len(page)] = page
        self.durable = bytes(durable)
        self.durable_allocated = frozenset(self.allocated)

    def persist(self) -> None:
        """What a successful sync does."""
        content = bytes(self.memory)
        for number, page in list(self.lost.items()):
            if self.page(number) == page:
                stale = self.durable_page(number)[: max(len(content) - number * PAGE, 0)]
                content = content[: number * PAGE] + stale + content[number * PAGE + len(stale) :]
            else:
                del self.lost[number]
        self.durable = content
        self.durable_allocated = frozenset(self.allocated)

    def lose(self) -> None:
        """What a failed sync does: nothing is written and nothing is left to write."""
        for number in self.dirty_pages():
            self.lost[number] = self.page(number)

    def after_crash(self, chooser: Chooser) -> _Inode:
        length = len(self.durable)
        if len(self.memory) != length:
            length = chooser.length(length, len(self.memory))
        content = bytearray(self.durable[:length].ljust(length, b"\0"))
        allocated = set(self.durable_allocated)
        for number in self.dirty_pages():
            if number * PAGE < length:
                old, new = self.durable_page(number), self.page(number)
                kept = chooser.page(old, new)
                content[number * PAGE : (number + 1) * PAGE] = kept[: length - number * PAGE]
                if kept != old:
                    allocated.add(number)
        return _Inode(bytes(content), (n for n in allocated if n * PAGE < length), self.modified_ms)


class _Directory:
    __slots__ = ()


_DIRECTORY = _Directory()
_Node = _Inode | _Directory


@dataclass(slots=True)
class _NameChange:
    """A queued operation on names: all its effects or none."""

    label: str
    folder: str
    effects: dict[str, _Node | None]


@dataclass(slots=True)
class _Lock:
    _filesystem: CrashFS
    _path: str

    def release(self) -> None:
        self._filesystem.locks.discard(self._path)


@dataclass(slots=True)
class CrashFS:
    """The simulated disk; see the module docstring. ``observer`` runs before each counted call takes
    effect."""

    capacity: int | None = None
    now_ms: Callable[[], int] = lambda: 0
    faults: list[Fault] = field(default_factory=list)
    count_reads: bool = False
    writeback: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    observer: Callable[[str, str], None] | None = None
    calls: int = 0
    fired: int = 0
    dead: bool = False
    failed_syncs: list[str] = field(default_factory=list)
    locks: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    trace: list[tuple[str, str]] = field(default_factory=list)
    renamed: set[tuple[str, bytes]] = field(default_factory=set)  # every (target, content) a rename put in place
    _names: dict[str, _Node] = field(default_factory=lambda: {"/": _DIRECTORY})
    _durable_names: dict[str, _Node] = field(default_factory=lambda: {"/": _DIRECTORY})
    _queued: list[_NameChange] = field(default_factory=list)
    _opened: list[_Inode] = field(default_factory=list)

    # -- what a test does to the disk ------------------------------------------------------------------------

    def crash(self, choice: int | str | Chooser, kinds: Iterable[PageKind] = ALL_KINDS) -> CrashFS:
        """The disk after a power loss; this one stays as it is, so many crashes can be tried from one
        state."""
        chooser = RandomChooser(choice, kinds) if isinstance(choice, int | str) else choice
        names = dict(self._durable_names)
        for change in self._queued:
            if chooser.done(change.label):
                _apply(names, change.effects)
        renewed: dict[int, _Inode] = {}
        after: dict[str, _Node] = {}
        for path in sorted(names):
            node = names[path]
            if path != "/" and not isinstance(after.get(_folder(path)), _Directory):
                continue  # its folder is gone, and it with it
            if isinstance(node, _Inode):
                self._audit(path, node)
                if id(node) not in renewed:
                    renewed[id(node)] = node.after_crash(chooser)
                node = renewed[id(node)]
            after[path] = node
        return CrashFS(
            capacity=self.capacity,
            now_ms=self.now_ms,
            violations=self.violations,
            _names=after,
            _durable_names=dict(after),
        )

    def questions(self) -> int:
        """How many independent choices a crash has right now."""
        counter = SubsetChooser(0)
        self.crash(counter)
        return counter.asked

    def kill(self) -> CrashFS:
        """The process died, the machine did not: everything is still there, and still not durable."""
        copies: dict[int, _Inode] = {}

        def copy(node: _Node | None) -> _Node | None:
            if not isinstance(node, _Inode):
                return node
            if id(node) not in copies:
                twin = _Inode(bytes(node.memory), node.allocated, node.modified_ms)
                twin.durable, twin.durable_allocated = node.durable, node.durable_allocated
                twin.lost = dict(node.lost)
                copies[id(node)] = twin
            return copies[id(node)]

        def copy_names(names: dict[str, _Node]) -> dict[str, _Node]:
            return {path: node for path, old in names.items() if (node := copy(old)) is not None}

        for path, node in self._names.items():
            if isinstance(node, _Inode):
                self._audit(path, node)
        queued = [
            _NameChange(c.label, c.folder, {path: copy(node) for path, node in c.effects.items()}) for c in self._queued
        ]
        return CrashFS(
            capacity=self.capacity,
            now_ms=self.now_ms,
            violations=self.violations,
            _names=copy_names(self._names),
            _durable_names=copy_names(self._durable_names),
            _queued=queued,
        )

    def files(self) -> dict[str, bytes]:
        """Path to content, as a program would read it now."""
        return {path: bytes(node.memory) for path, node in self._names.items() if isinstance(node, _Inode)}

    def overwrite(self, path: str, content: bytes) -> None:
        """Damage from outside: the file holds this, durably."""
        node = self._inode("overwrite", path)
        allocated = node.durable_allocated | {n for n in range((len(content) + PAGE - 1) // PAGE)}
        twin = _Inode(content, allocated, node.modified_ms)
        self._names[_normal(path)] = self._durable_names[_normal(path)] = twin

    def used_bytes(self) -> int:
        living = {id(node): node for node in self._names.values() if isinstance(node, _Inode)}
        self._opened = [node for node in self._opened if id(node) in living or node.handles or node.is_mapped]
        living.update({id(node): node for node in self._opened})
        return sum(len(node.allocated) for node in living.values()) * PAGE

    def pending(self) -> list[str]:
        """Queued name operations, oldest first."""
        return [change.label for change in self._queued]

    # -- the seam --------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> CrashFile:
        path = _normal(path)
        node = self._names.get(path)
        self._begin("create" if create and node is None else "open", path)
        if isinstance(node, _Directory):
            raise StoreIOError("open", path, OSError(errno.EISDIR, "is a directory"))
        if node is None:
            if not create or _folder(path) not in self._names:
                raise NotFoundError(f"open: {path} does not exist")
            node = _Inode(modified_ms=self.now_ms())
            self._change(f"create {path}", _folder(path), {path: node})
        node.handles += 1
        self._opened.append(node)
        return CrashFile(self, path, node, read_only)

    def exists(self, path: str) -> bool:
        return _normal(path) in self._names

    def is_directory(self, path: str) -> bool:
        return isinstance(self._names.get(_normal(path)), _Directory)

    def list_directory(self, path: str) -> list[str]:
        path = _normal(path)
        self._begin("list", path)
        if not isinstance(self._names.get(path), _Directory):
            return []
        return sorted(_name(name) for name in self._names if name != "/" and _folder(name) == path)

    def make_directories(self, path: str, *, sync: bool = True) -> None:
        missing = []
        current = _normal(path)
        while not self.is_directory(current):
            missing.append(current)
            current = _folder(current)
        for folder in reversed(missing):
            self._begin("mkdir", folder)
            if isinstance(self._names.get(folder), _Inode):
                raise StoreIOError("mkdir", folder, OSError(errno.EEXIST, "is a file"))
            self._change(f"mkdir {folder}", _folder(folder), {folder: _DIRECTORY})
            if sync:
                self.sync_directory(_folder(folder))

    def size(self, path: str) -> int:
        return len(self._inode("stat", path).memory)

    def modified_ms(self, path: str) -> int:
        return self._inode("stat", path).modified_ms

    def remove(self, path: str) -> None:
        path = _normal(path)
        self._begin("remove", path)
        self._audit(path, self._inode("remove", path))
        self._change(f"remove {path}", _folder(path), {path: None})

    def remove_directory(self, path: str) -> None:
        path = _normal(path)
        self._begin("rmdir", path)
        if not isinstance(self._names.get(path), _Directory):
            raise NotFoundError(f"rmdir: {path} does not exist")
        if any(_folder(name) == path for name in self._names if name != "/"):
            raise StoreIOError("rmdir", path, OSError(errno.ENOTEMPTY, "not empty"))
        self._change(f"rmdir {path}", _folder(path), {path: None})

    def rename(self, source: str, target: str) -> None:
        source, target = _normal(source), _normal(target)
        self._begin("rename", source)
        node = self._inode("rename", source)
        if _folder(target) not in self._names:
            raise NotFoundError(f"rename: {target} does not exist")
        self.renamed.add((target, bytes(node.memory)))
        self._change(f"rename {source} {target}", _folder(target), {source: None, target: node})

    def sync_directory(self, path: str) -> None:
        path = _normal(path)
        try:
            self._begin("sync directory", path)
        except StoreIOError:
            self.failed_syncs.append(path)
            raise
        if not self.is_directory(path):
            raise NotFoundError(f"sync directory: {path} does not exist")
        waiting = []
        for change in self._queued:
            if change.folder == path:
                _apply(self._durable_names, change.effects)
            else:
                waiting.append(change)
        self._queued = waiting

    def lock(self, path: str) -> _Lock:
        path = _normal(path)
        self._begin("lock", path)
        if path in self.locks:
            raise UnavailableError(f"{path}: this process already has the store open")
        if path not in self._names:
            node = _Inode(modified_ms=self.now_ms())
            node.memory += b"lock"
            node.allocated.add(0)
            self._change(f"create {path}", _folder(path), {path: node})
        self.locks.add(path)
        return _Lock(self, path)

    def lock_shared(self, path: str) -> _Lock | None:
        path = _normal(path)
        if path in self.locks:
            raise UnavailableError(f"{path}: this process has the store open; close it first")
        return None

    def lock_folder(self, path: str, *, shared: bool = False) -> _Lock | None:
        path = _normal(path)
        if path in self.locks:
            raise UnavailableError(f"{path}: this process already has the store open")
        if shared:
            return None  # readers of a simulated disk come and go in one thread
        self.locks.add(path)
        return _Lock(self, path)

    def used_ratio(self, path: str) -> float:
        if not self.exists(path):
            raise NotFoundError(f"statvfs: {path} does not exist")
        return self.used_bytes() / self.capacity if self.capacity else 0.0

    # -- inside ----------------------------------------------------------------------------------------------

    def _begin(self, operation: str, path: str) -> Fault | None:
        """Count the call, let faults happen; a short write is the caller's to carry out."""
        if self.dead:
            raise SimulatedCrash(f"{operation} {path} after the crash")
        if operation in READ_CALLS and not self.count_reads:
            return None
        self.calls += 1
        self.trace.append((operation, path))
        if self.observer is not None:
            self.observer(operation, path)
        if self.writeback and self.chance.random() < self.writeback:
            self._write_back()
        for fault in self.faults:
            if self.calls < fault.at or not fault.fits(operation):
                continue
            if not fault.forever:
                self.faults = [other for other in self.faults if other is not fault]
            self.fired += 1
            if fault.kind == "crash":
                self.dead = True
                raise SimulatedCrash(f"call {self.calls}: {operation} {path}")
            if fault.kind == "short":
                return fault
            number = errno.ENOSPC if fault.kind == "enospc" else errno.EIO
            raise StoreIOError(operation, path, OSError(number, os.strerror(number)))
        return None

    def _begin_sync(self, path: str, node: _Inode) -> None:
        self._audit(path, node)
        try:
            self._begin("sync", path)
        except StoreIOError:
            node.lose()
            if any(node.memory):  # a file that was only being made holds nothing to lose
                self.failed_syncs.append(path)
            raise

    def _write_back(self) -> None:
        """What the kernel does unasked: some page, or the journal, reaches the disk early."""
        if self._queued and self.chance.random() < 0.3:
            _apply(self._durable_names, self._queued.pop(0).effects)
            return
        dirty = [
            (node, number)
            for path, node in sorted(self._names.items(), key=lambda item: item[0])
            if isinstance(node, _Inode) and len(node.memory) == len(node.durable)
            for number in node.dirty_pages()
            if node.lost.get(number) != node.page(number)
        ]
        if dirty:
            node, number = self.chance.choice(dirty)
            page = node.page(number)[: len(node.memory) - number * PAGE]
            node.durable = node.durable[: number * PAGE] + page + node.durable[number * PAGE + len(page) :]
            node.durable_allocated |= {number}

    def _change(self, label: str, folder: str, effects: dict[str, _Node | None]) -> None:
        _apply(self._names, effects)
        self._queued.append(_NameChange(label, folder, effects))

    def _inode(self, operation: str, path: str) -> _Inode:
        node = self._names.get(_normal(path))
        if not isinstance(node, _Inode):
            raise NotFoundError(f"{operation}: {path} does not exist")
        return node

    def _audit(self, path: str, node: _Inode) -> None:
        """Refuse a disk state that only a lucky program reaches."""
        for number in node.dirty_pages():
            if number not in node.allocated and number * PAGE < len(node.memory) and any(node.page(number)):
                self._violation(
                    f"{path}: page {number} was stored to but never reserved; would be SIGBUS on a full disk"
                )

    def _violation(self, text: str) -> None:
        self.violations.append(text)
        raise AssertionError(text)

    def _allocate(self, node: _Inode, pages: range) -> bool:
        """Take space for these pages; False if the disk cannot hold them all (then none is taken)."""
        wanted = set(pages) - node.allocated
        if self.capacity is not None and wanted and self.used_bytes() + len(wanted) * PAGE > self.capacity:
            return False
        node.allocated |= wanted
        return True


class CrashFile:
    """An open file of a :class:`CrashFS`."""

    __slots__ = ("_filesystem", "_node", "_open", "_read_only", "path")

    def __init__(self, filesystem: CrashFS, path: str, node: _Inode, read_only: bool) -> None:
        self.path = path
        self._filesystem = filesystem
        self._node = node
        self._read_only = read_only
        self._open = True

    def size(self) -> int:
        return len(self._node.memory)

    def read_at(self, offset: int, length: int) -> bytes:
        self._filesystem._begin("read", self.path)
        return bytes(self._node.memory[offset : offset + length])

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        self._check_writable("write")
        content = bytes(data)
        fault = self._filesystem._begin("write", self.path)
        if fault is not None:
            self._store(offset, content[: len(content) // 2])
            raise StoreIOError("write", self.path, OSError(errno.EIO, "short write"))
        for start in range(offset // PAGE * PAGE, offset + len(content), PAGE):
            if not self._filesystem._allocate(self._node, range(start // PAGE, start // PAGE + 1)):
                self._store(offset, content[: max(start - offset, 0)])
                raise StoreIOError("write", self.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        self._store(offset, content)

    def resize(self, length: int) -> None:
        self._check_writable("resize")
        self._filesystem._begin("resize", self.path)
        self._set_length(length)

    def reserve(self, offset: int, length: int) -> None:
        self._check_writable("reserve")
        self._filesystem._begin("reserve", self.path)
        if length <= 0 or offset < 0:
            raise StoreIOError("reserve", self.path, OSError(errno.EINVAL, os.strerror(errno.EINVAL)))
        if not self._filesystem._allocate(self._node, range(offset // PAGE, (offset + length + PAGE - 1) // PAGE)):
            raise StoreIOError("reserve", self.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        if offset + length > len(self._node.memory):
            self._set_length(offset + length)

    def map(self, length: int, *, read_only: bool = False) -> CrashMapping:
        self._filesystem._begin("map", self.path)
        if not 0 < length <= len(self._node.memory):
            raise StoreIOError("map", self.path, OSError(errno.EINVAL, "mapping longer than the file"))
        if self._read_only and not read_only:
            raise StoreIOError("map", self.path, OSError(errno.EACCES, os.strerror(errno.EACCES)))
        view = memoryview(self._node.memory)[:length]
        return CrashMapping(self._filesystem, self.path, self._node, view.toreadonly() if read_only else view)

    def sync(self) -> None:
        self._filesystem._begin_sync(self.path, self._node)
        self._node.persist()

    def start_writing(self, offset: int, length: int) -> None:
        """Any page may reach the disk at any time here, asked for or not."""

    def fileno(self) -> int:
        raise StoreIOError("descriptor", self.path, OSError("a simulated file has none"))

    def data_end(self) -> int:
        self._filesystem._begin("seek", self.path)
        return min((max(self._node.allocated, default=-1) + 1) * PAGE, len(self._node.memory))

    def close(self) -> None:
        if self._open:
            self._open = False
            self._node.handles -= 1

    def __del__(self) -> None:
        self.close()

    def _check_writable(self, operation: str) -> None:
        if self._read_only or not self._open:
            raise StoreIOError(operation, self.path, OSError(errno.EBADF, os.strerror(errno.EBADF)))

    def _store(self, offset: int, content: bytes) -> None:
        node = self._node
        if content and offset + len(content) > len(node.memory):
            self._set_length(offset + len(content))
        node.memory[offset : offset + len(content)] = content
        pages = range(offset // PAGE, (offset + len(content) + PAGE - 1) // PAGE)
        node.allocated.update(pages)
        for number in pages:
            node.lost.pop(number, None)  # written again, so the next sync writes it, even if no byte differs
        node.modified_ms = self._filesystem.now_ms()

    def _set_length(self, length: int) -> None:
        memory = self._node.memory
        grown = length - len(memory)
        try:
            if grown < 0:
                del memory[length:]
                self._node.allocated = {n for n in self._node.allocated if n * PAGE < length}
            elif grown > 0:
                memory.extend(bytes(grown))
        except BufferError:
            self._filesystem._violation(f"{self.path}: length changed to {length} under a live mapping")


class CrashMapping:
    """A mapping: a view of the volatile image."""

    __slots__ = ("_filesystem", "_node", "_path", "buffer")

    def __init__(self, filesystem: CrashFS, path: str, node: _Inode, buffer: memoryview) -> None:
        self._filesystem = filesystem
        self._path = path
        self._node = node
        self.buffer = buffer

    def sync(self, offset: int, length: int) -> None:
        node = self._node
        self._filesystem._begin_sync(self._path, node)
        assert len(node.memory) == len(node.durable), "the length is not durable"
        node.persist_pages(range(offset // PAGE, -(-(offset + length) // PAGE)))

    def advise(self, advice: int, offset: int, length: int) -> None:
        return

    def lock(self, offset: int, length: int) -> bool:
        return False

    def unlock(self) -> None:
        return

    def resident(self, offset: int, length: int) -> bytes:
        return b"\x01" * ((offset % PAGE + length + PAGE - 1) // PAGE)


def _apply(names: dict[str, _Node], effects: dict[str, _Node | None]) -> None:
    for path, node in effects.items():
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node


# Paths are few and asked for millions of times.
_normal = functools.cache(os.path.abspath)
_folder = functools.cache(os.path.dirname)
_name = functools.cache(os.path.basename)

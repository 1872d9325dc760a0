"""Which locks make a store one's own: its root, the folders of its log wherever they lie, and roots around those.

The log is what two processes destroy, and the lock of a root says nothing about a log elsewhere. So a claim locks

1. ``lock`` of the root: what every RocketMQ takes, and we against older versions of ourselves;
2. each folder of the log itself, also those in which no file is made: retention deletes there too;
3. for a log outside of the root, ``lock`` of each store root above it: a Java broker with that root locks nothing else,
   and ``commitlog`` is its log unless it was told otherwise.

A claim to read takes the same locks shared, makes no file, and so goes along with other readers but no writer.
"""

from __future__ import annotations

import os

from flaremq.errors import InvalidArgumentError, NotFoundError, StoreIOError
from flaremq.storage.files import layout
from flaremq.storage.files.filesystem import FileSystem, Lock
from flaremq.storage.files.layout import StoreLayout

_ROOT_SIGNS = (layout.CHECKPOINT, layout.ABORT, layout.CONSUME_QUEUE, layout.CONFIG)


class StoreClaim:
    """The locks of one store, taken together; UnavailableError if another process has one of them."""

    __slots__ = ("_locks",)

    def __init__(self, locks: list[Lock]) -> None:
        self._locks = locks

    @classmethod
    def to_write(cls, filesystem: FileSystem, store: StoreLayout) -> StoreClaim:
        """Keep everybody else out. Makes the folders of the log, and lock files."""
        claim = cls([])
        try:
            claim._add(filesystem.lock(store.lock))
            seen: dict[str, str] = {}
            for folder in store.commit_log_paths:
                filesystem.make_directories(folder)
                if seen.setdefault(os.path.realpath(folder), folder) is not folder:
                    twin = seen[os.path.realpath(folder)]
                    raise InvalidArgumentError(f"storePathCommitLog names one folder twice: {twin} and {folder}")
                claim._add(filesystem.lock_folder(folder))
            for root, is_default in _other_roots(filesystem, store).items():
                claim._add(_lock_root(filesystem, root, is_default=is_default))
        except BaseException:
            claim.release()
            raise
        return claim

    @classmethod
    def to_read(cls, filesystem: FileSystem, store: StoreLayout) -> StoreClaim:
        """Keep writers out. Leaves no trace."""
        claim = cls([])
        try:
            claim._add(filesystem.lock_shared(store.lock))
            for folder in store.commit_log_paths:
                if filesystem.is_directory(folder):
                    claim._add(filesystem.lock_folder(folder, shared=True))
            for root in _other_roots(filesystem, store):
                claim._add(filesystem.lock_shared(os.path.join(root, layout.LOCK)))
        except BaseException:
            claim.release()
            raise
        return claim

    def release(self) -> None:
        while self._locks:
            self._locks.pop().release()

    def _add(self, lock: Lock | None) -> None:
        if lock is not None:
            self._locks.append(lock)


def _other_roots(filesystem: FileSystem, store: StoreLayout) -> dict[str, bool]:
    """Folders that may be the root of another store to which a folder of our log belongs; whether by default.

    A log below its own root is nobody else's. ``commitlog`` in a folder is by default the log of the store there.
    """
    own = os.path.realpath(store.root)
    roots: dict[str, bool] = {}
    for folder in store.commit_log_paths:
        above = os.path.realpath(folder)
        if os.path.commonpath((own, above)) == own:
            continue
        if os.path.basename(above) == layout.COMMIT_LOG:
            roots[os.path.dirname(above)] = True
        while above != os.path.dirname(above):
            above = os.path.dirname(above)
            if filesystem.exists(os.path.join(above, layout.LOCK)) and any(
                filesystem.exists(os.path.join(above, sign)) for sign in _ROOT_SIGNS
            ):
                roots.setdefault(above, False)
    return roots


def _lock_root(filesystem: FileSystem, root: str, *, is_default: bool) -> Lock | None:
    path = os.path.join(root, layout.LOCK)
    if not is_default:
        return filesystem.lock_shared(path)  # logs of several stores may lie below it under names of their own
    try:
        return filesystem.lock(path)  # made if need be: a Java broker of that root shall find it taken
    except (StoreIOError, NotFoundError):
        return None  # a folder we may not write to, so no broker of this user has its root there

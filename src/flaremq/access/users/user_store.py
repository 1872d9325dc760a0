"""User store: the tables in memory and the file they come from.

A change is made durable first and seen second: the new tables are written, synced and renamed into place, and then
replace the old ones in one step, so that no reader ever sees half of a change, and none that a power cut takes back.
What people change in the file is taken over by ``poll``, all or nothing; a file that cannot be used leaves everything
as it is, and no change is made on top of it, for that would overwrite what somebody is about to repair.

Synchronous, any thread; ``tables`` may be read at any time without a lock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from weakref import WeakSet

from flaremq.access.files.folder_lock import folder_lock
from flaremq.access.users import user_file
from flaremq.access.users.tables import Tables
from flaremq.atomic_file import replace_file
from flaremq.errors import FlareMQError, StoreIOError

_log = logging.getLogger(__name__)
# Servers of one process that share a folder (``flaremq up``) see each other's changes at once.
_open: WeakSet[UserStore] = WeakSet()
_open_lock = threading.Lock()  # guards the set


class UserStore:
    """Users and policies of one server, in ``users.json`` of a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Read the file, if there is one. CorruptionError, InvalidArgumentError, StoreIOError: do not start."""
        self.path = os.path.join(os.path.abspath(folder), user_file.FILE_NAME)
        self.tables = Tables.of((), ())
        self._lock = threading.Lock()  # guards the file, _mark and _reported, and who may replace tables
        self._mark: user_file.Mark | None = None  # of the file when it was last read or written, usable or not
        self._reported: str | None = None  # the last error logged
        if user_file.find_mark(self.path) is not None:
            self._load()
        with _open_lock:
            _open.add(self)

    def change(self, edit: Callable[[Tables], Tables]) -> Tables:
        """Replace the tables by what ``edit`` makes of them; it is durable when this returns.

        Errors of ``edit`` go to the caller and change nothing. An edit that returns its argument writes nothing.
        """
        with self._lock, folder_lock(os.path.dirname(self.path)):
            mark = user_file.find_mark(self.path)
            if mark is not None and (mark != self._mark or self._reported is not None):
                self._load()
            tables = edit(self.tables)
            is_changed = tables is not self.tables
            if is_changed:
                self._write(tables)
        if is_changed:
            with _open_lock:
                others = [store for store in _open if store is not self and store.path == self.path]
            for other in others:
                other.poll()  # with no lock of ours held: it may be about to change the file as well
        return tables

    def poll(self) -> bool:
        """Take over what was changed by hand; whether anything was. A bad file is logged once and changes nothing."""
        with self._lock:
            try:
                mark = user_file.find_mark(self.path)
                if mark == self._mark:
                    return False
                if mark is None:
                    self._mark = None
                    self._report(f"{self.path} is gone; the users it had remain until the server is started anew")
                    return False
                self._mark = mark  # read once, whatever comes of it
                self._load()
            except FlareMQError as error:
                self._report(f"{error}; the users and policies before that remain")
                return False
            _log.warning("%s was changed: %d users", self.path, len(self.tables.users))
            return True

    def _load(self) -> None:
        data, mark = user_file.read_bytes(self.path)
        self.tables = user_file.parse(data, self.path)
        self._mark = mark
        self._reported = None

    def _write(self, tables: Tables) -> None:
        data = user_file.render(tables)
        try:
            replace_file(self.path, data)
        except OSError as error:
            raise StoreIOError("write", self.path, error) from error
        self.tables = tables
        self._reported = None
        try:  # somebody may have written at the same moment: the next poll looks at that
            written, mark = user_file.read_bytes(self.path)
        except FlareMQError:
            self._mark = None
            return
        self._mark = mark if written == data else None

    def _report(self, sentence: str) -> None:
        if sentence != self._reported:
            self._reported = sentence
            _log.error("%s", sentence)

"""PlainAclStore: the ACL files of one home folder, read, watched and changed.

There is one truth, the files, and one state, the snapshot. A reload reads all files anew and replaces the snapshot in
one step, or leaves it: an account that is in no file any more is gone, and a broken file changes nothing. A change by a
request starts from the files as they are now, checks the whole outcome before a byte is written, is durable when it
returns, and is in effect then. No change is made while a file is broken: it would be built on a state that is not the
files' own.

Synchronous, any thread; ``snapshot`` may be read at any time without a lock.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from flaremq.access.files.folder_lock import folder_lock
from flaremq.access.plain import acl_file
from flaremq.access.plain.account import ACCOUNT_FIELDS, MASK
from flaremq.access.plain.acl_document import Document
from flaremq.access.plain.acl_file import AclFile, FileVersion, Fingerprint
from flaremq.access.plain.changes import AccountChange, with_account, with_white_list, without_account
from flaremq.access.plain.migrated import migrated_accounts
from flaremq.access.plain.snapshot import Snapshot, build_snapshot, has_account
from flaremq.access.users.migration import MigratedAccount
from flaremq.clock import Clock
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError, UnavailableError

_log = logging.getLogger(__name__)


class PlainAclStore:
    """Accounts of ACL 1.0 of one server."""

    def __init__(self, home: str | os.PathLike[str], clock: Clock, *, makes_default: bool = True) -> None:
        """Read all files; any error means: do not start. A missing ``conf/plain_acl.yml`` is made, without accounts."""
        self.home = os.path.abspath(home)
        self.default_path = os.path.join(self.home, acl_file.DEFAULT_FILE)
        self._clock = clock
        self._lock = threading.Lock()  # guards the files, _seen and _reported, and who may replace the snapshot
        self._reported: str | None = None  # the last error logged
        if makes_default and not os.path.lexists(self.default_path):
            acl_file.make_default(self.home)
            _log.warning("there was no %s: made one without accounts", self.default_path)
        self.snapshot: Snapshot = build_snapshot([])
        # The files as last looked at, usable or not; None: look again whatever they are.
        self._seen: dict[str, Fingerprint | None] | None = None
        with self._lock:
            self._install(self._read())

    # Reading

    def reload(self) -> Snapshot:
        """Read all files. An error leaves everything as it is."""
        with self._lock:
            self._install(self._read())
            return self.snapshot

    def poll(self) -> bool:
        """Reload if anything was changed; whether there is a new state. What is wrong is logged, once."""
        with self._lock:
            looked_at = None
            try:
                looked_at = self._look()
                if looked_at == self._seen:
                    return False
                snapshot = self._read()
            except InvalidArgumentError as error:
                self._seen = looked_at  # such a file stays what it is until somebody changes it
                self._report(error)
                return False
            except FlareMQError as error:
                self._report(error)
                return False
            self._install(snapshot)
            accounts, files = len(snapshot.accounts), len(snapshot.files)
            _log.warning("the ACL files were changed: %d accounts in %d files", accounts, files)
            return True

    def _look(self) -> dict[str, Fingerprint | None]:
        return {path: acl_file.find_fingerprint(path) for path in acl_file.find_files(self.home)}

    def _read(self) -> Snapshot:
        paths = acl_file.find_files(self.home)
        known = {file.path: file for file in self.snapshot.files}
        if self.default_path in known and self.default_path not in paths:
            raise UnavailableError(f"{self.default_path} is gone; to have no accounts, write accounts: [] into it")
        files = [acl_file.read_file(path) for path in paths]
        for file in files:
            before = known.get(file.path)
            # Whoever writes in place empties a file first: that moment must not take all accounts away.
            if file.document is None and before is not None and before.document is not None:
                raise InvalidArgumentError(f"{file.path} is empty; to have no accounts, write accounts: [] into it")
        return build_snapshot(files)

    def _install(self, snapshot: Snapshot) -> None:
        for warning in snapshot.warnings:
            if warning not in self.snapshot.warnings:
                _log.warning("%s", warning)
        self.snapshot = snapshot
        self._seen = {file.path: file.fingerprint for file in snapshot.files}
        self._reported = None

    def _report(self, error: FlareMQError) -> None:
        sentence = str(error)
        if sentence != self._reported:
            self._reported = sentence
            _log.error("%s; the accounts and white lists before that remain", sentence)

    # Changing

    def put_account(self, change: AccountChange) -> None:
        """Make or change an account, in the file that has it, else in ``conf/plain_acl.yml``."""
        change.check()
        with self._lock, folder_lock(os.path.dirname(self.default_path)):
            snapshot = self._read()
            file = snapshot.file_of(change.access_key) or self._default(snapshot)
            self._change(snapshot, [file], lambda document: with_account(document, change))

    def delete_account(self, access_key: str) -> None:
        """NotFoundError if there is none. It is taken out of every file, or one behind another would come to light."""
        with self._lock, folder_lock(os.path.dirname(self.default_path)):
            snapshot = self._read()
            files = [file for file in snapshot.files if has_account(file, access_key)]
            if not files:
                raise NotFoundError(f"no account {access_key[:64]!r}")
            # The one in use last: after a crash in between it is still that one.
            self._change(snapshot, files[::-1], lambda document: without_account(document, access_key))

    def set_white_list(self, patterns: Sequence[str], path: str | None = None) -> None:
        """Replace the global white list of one file: ``conf/plain_acl.yml`` unless one is named that is in use."""
        with self._lock, folder_lock(os.path.dirname(self.default_path)):
            snapshot = self._read()
            file = self._named(snapshot, path) if path else self._default(snapshot)
            self._change(snapshot, [file], lambda document: with_white_list(document, patterns))

    def _change(self, snapshot: Snapshot, files: Sequence[AclFile], edit: Callable[[Document], Document]) -> None:
        """Write the edited files in this order. Without an error all are written, and what was written is in effect."""
        after = {file.path: file for file in snapshot.files}
        writes = []
        for file in files:
            version = FileVersion(file.version.counter + 1, self._clock.now_ms())
            data = acl_file.render_file(edit(file.document or {}), version)
            # Checked as it will be read, before it is written.
            after[file.path] = acl_file.parse_file(file.path, data, fingerprint=(), changed_ms=version.timestamp)
            writes.append((self._real_path(file.path), data))
        build_snapshot(list(after.values()))
        try:
            for path, data in writes:
                acl_file.write_file(path, data)
            for file in files:
                after[file.path] = acl_file.read_file(file.path)
            self._install(build_snapshot(list(after.values())))
        except FlareMQError:
            self._seen = None  # some may be written, or written by somebody else: the next poll reads them
            raise

    def _default(self, snapshot: Snapshot) -> AclFile:
        for file in snapshot.files:
            if file.path == self.default_path:
                return file
        raise NotFoundError(f"there is no {self.default_path}")

    def _named(self, snapshot: Snapshot, path: str) -> AclFile:
        """The file in use that a request names. Only such a file: a request never opens a path of its own."""
        real = os.path.realpath(path)
        for file in snapshot.files:
            if os.path.isabs(path) and os.path.realpath(file.path) == real:
                return file
        raise NotFoundError(f"{path[:255]!r} is not an ACL file of this server")

    def _real_path(self, path: str) -> str:
        """Where to write: a link stays a link, and none leads out of the home folder."""
        real = os.path.realpath(path)
        if os.path.commonpath([real, os.path.realpath(self.home)]) != os.path.realpath(self.home):
            raise InvalidArgumentError(f"{path} is a link to {real}, outside of {self.home}: it is read, not written")
        return real

    # Showing

    def migrated(self) -> list[MigratedAccount]:
        """What users and policies are made of."""
        return migrated_accounts(self.snapshot)

    def version(self) -> FileVersion:
        """Of ``conf/plain_acl.yml``."""
        return self.snapshot.versions().get(self.default_path) or FileVersion(0, 0)

    def versions(self) -> dict[str, FileVersion]:
        """Of every file, by its path."""
        return self.snapshot.versions()

    def to_config(self) -> dict[str, Any]:
        """Everything, as RocketMQ's AclConfig; secrets are masked."""
        snapshot = self.snapshot
        return {
            "globalWhiteAddrs": [pattern.text for pattern in snapshot.white_list],
            "plainAccessConfigs": [
                _to_config(account.fields, is_admin=account.is_admin) for account in snapshot.accounts.values()
            ],
        }


def _to_config(fields: Any, *, is_admin: bool) -> dict[str, Any]:
    shown = {**fields, "admin": is_admin, "secretKey": MASK}
    return {name: shown[name] for name in sorted(ACCOUNT_FIELDS) if shown.get(name) is not None}

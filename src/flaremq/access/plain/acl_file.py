"""ACL files: where they lie below a home folder, reading one with every check, writing one.

``conf/acl`` with its sub-folders comes first, then ``conf/plain_acl.yml``: the first file that has an access key wins.
Names that start with a dot are passed over, as are links to folders. A file that others than its owner can read is not
read: it holds secrets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.access.files.private_file import check_private
from flaremq.access.plain.account import text_list
from flaremq.access.plain.acl_document import Document, field_name, parse_document, render_document
from flaremq.atomic_file import replace_file
from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError

DEFAULT_FILE: Final = os.path.join("conf", "plain_acl.yml")
FOLDER: Final = os.path.join("conf", "acl")
_SUFFIXES: Final = (".yml", ".yaml")
_FILE_SIZE_MAX: Final = 16 << 20
_FILES_MAX: Final = 1000
_TOP_FIELDS: Final = ("globalWhiteRemoteAddresses", "accounts", "dataVersion")
_VERSION_FIELDS: Final = frozenset(("counter", "timestamp", "stateVersion"))
_NO_ACCOUNTS: Final = b"# Accounts of ACL 1.0. Keep this file readable by its owner alone (chmod 600).\naccounts: []\n"

Fingerprint = tuple[int, ...]  # changes whenever the file, or who may read it, does


@dataclass(frozen=True, slots=True)
class FileVersion:
    """How often a file was changed by requests, and when last."""

    counter: int
    timestamp: int

    def to_value(self) -> dict[str, int]:
        return {"counter": self.counter, "timestamp": self.timestamp}


@dataclass(frozen=True, slots=True)
class AclFile:
    """One file as read. The document is never changed: a change makes a new one."""

    path: str
    fingerprint: Fingerprint
    document: Document | None = field(repr=False)  # with secrets; None: there is nothing in the file
    version: FileVersion

    def accounts(self) -> list[Any]:
        return list((self.document or {}).get("accounts") or ())

    def white_list(self) -> list[str]:
        return text_list(self.document or {}, "globalWhiteRemoteAddresses")


def find_files(home: str) -> list[str]:
    """All files there are, in the order in which they count; ``conf/plain_acl.yml`` is the last, if it exists."""
    found: list[str] = []

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise StoreIOError("list", error.filename or home, error)

    for folder, folders, names in os.walk(os.path.join(home, FOLDER), onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith(_SUFFIXES) and name[0] != "."]
        if len(found) > _FILES_MAX:
            raise InvalidArgumentError(f"more than {_FILES_MAX} files in {os.path.join(home, FOLDER)}")
    default = os.path.join(home, DEFAULT_FILE)
    return [*found, default] if os.path.lexists(default) else found


def make_default(home: str) -> str:
    """A default file without accounts."""
    path = os.path.join(home, DEFAULT_FILE)
    write_file(path, _NO_ACCOUNTS)
    return path


def find_fingerprint(path: str) -> Fingerprint | None:
    """None if the file is gone."""
    try:
        return _fingerprint(os.stat(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreIOError("look at", path, error) from error


def read_file(path: str) -> AclFile:
    """Read and check one file. InvalidArgumentError names it and what is wrong; UnavailableError: being written."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would block
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _check_status(path, status)
            data = file.read(_FILE_SIZE_MAX + 1)
            if _fingerprint(os.fstat(descriptor)) != _fingerprint(status) or len(data) != status.st_size:
                raise UnavailableError(f"{path} is being written")
    except OSError as error:
        raise StoreIOError("read", path, error) from error
    return parse_file(path, data, fingerprint=_fingerprint(status), changed_ms=status.st_mtime_ns // 1_000_000)


def parse_file(path: str, data: bytes, *, fingerprint: Fingerprint, changed_ms: int) -> AclFile:
    """The file that has this content."""
    try:
        document = parse_document(data.decode())
        _check_document(document or {})
        version = _version(document or {}, changed_ms)
        return AclFile(path, fingerprint, document, version)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path}: byte {error.start} is not UTF-8") from None
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}") from None


def render_file(document: Document, version: FileVersion) -> bytes:
    """What to write for a document at that version."""
    accounts = [{**entry, "admin": _as_flag(entry.get("admin"))} for entry in document.get("accounts") or ()]
    written: Document = {**document, "accounts": accounts, "dataVersion": [version.to_value()]}
    return render_document(written).encode()


def write_file(path: str, data: bytes) -> None:
    """Replace a file: it is durable when this returns, and for its owner alone."""
    try:
        replace_file(path, data)
    except OSError as error:
        raise StoreIOError("write", path, error) from error


def _fingerprint(status: os.stat_result) -> Fingerprint:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)


def _check_status(path: str, status: os.stat_result) -> None:
    check_private(path, status)
    if status.st_size > _FILE_SIZE_MAX:
        raise InvalidArgumentError(f"{path} has {status.st_size} bytes, at most {_FILE_SIZE_MAX} are read")


def _check_document(document: Document) -> None:
    unknown = [field_name(name) for name in document if name not in _TOP_FIELDS]
    if unknown:
        raise InvalidArgumentError(f"unknown field {unknown[0]}; those known are {', '.join(_TOP_FIELDS)}")
    text_list(document, "globalWhiteRemoteAddresses")
    if not isinstance(document.get("accounts") or [], list):
        raise InvalidArgumentError("accounts must be a list")


def _version(document: Mapping[str, Any], changed_ms: int) -> FileVersion:
    """What ``dataVersion`` says; without one the file was never changed by a request."""
    value = document.get("dataVersion")
    if value is None or value == []:
        return FileVersion(0, changed_ms)
    last = value[-1] if isinstance(value, list) else None
    if not isinstance(last, dict) or not _VERSION_FIELDS.issuperset(last):
        raise InvalidArgumentError("dataVersion must be a list of a map with counter and timestamp")
    try:
        return FileVersion(int(last.get("counter") or 0), int(last.get("timestamp") or 0))
    except (TypeError, ValueError):
        raise InvalidArgumentError("counter and timestamp of dataVersion must be numbers") from None


def _as_flag(text: object) -> bool:
    return str(text).strip().lower() in ("true", "yes", "on")

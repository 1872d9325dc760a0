"""User file: users and policies as JSON, for the server and for people with an editor.

``docs/formats/users.md`` describes it. Passwords stand in it as they are, for they are keys of signatures, so the file
must be its owner's alone: one that others may read or write is not used. Reading is strict. A file that is damaged, or
says anything that is not understood, is refused as a whole, for "no users" or "half of the policies" would be a verdict
of its own. No error quotes a value of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from flaremq.access.files.private_file import check_private
from flaremq.access.users.policy import Acl, parse_policies
from flaremq.access.users.tables import Tables
from flaremq.access.users.user import User, UserStatus, UserType, checked_user, find_name, text_of
from flaremq.errors import CorruptionError, InvalidArgumentError, StoreIOError

_Value = TypeVar("_Value")

FILE_NAME: Final = "users.json"
VERSION: Final = 1
_FILE_SIZE_MAX: Final = 64 << 20  # some hundred thousand users

_SUBJECT: Final = "User:"
_FILE_KEYS: Final = ("version", "users", "acls")
_USER_KEYS: Final = ("username", "password", "userType", "userStatus")
_ACL_KEYS: Final = ("subject", "policies")
_POLICY_KEYS: Final = ("policyType", "entries")
_ENTRY_KEYS: Final = ("resource", "actions", "sourceIps", "decision")


class Mark(NamedTuple):
    """What tells one state of a file from another without reading it."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int  # also by chmod, which may be what a refused file was waiting for


def find_mark(path: str) -> Mark | None:
    """None if there is no such file."""
    try:
        return _mark(os.stat(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreIOError("stat", path, error) from error


def read_bytes(path: str) -> tuple[bytes, Mark]:
    """The content, if the file is its owner's alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would block
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            check_private(path, status)
            if status.st_size > _FILE_SIZE_MAX:
                raise InvalidArgumentError(f"{path} has {status.st_size} bytes, at most {_FILE_SIZE_MAX} are read")
            return file.read(_FILE_SIZE_MAX + 1), _mark(status)
    except OSError as error:
        raise StoreIOError("read", path, error) from error


def render(tables: Tables) -> bytes:
    """The content of the file, in lines that people can change."""
    document = {
        "version": VERSION,
        "users": [_user_document(tables.users[name]) for name in sorted(tables.users)],
        "acls": [_acl_document(tables.acls[name]) for name in sorted(tables.acls)],
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def parse(data: bytes, path: str) -> Tables:
    """What the content says. CorruptionError names the path and the reason."""
    try:
        document = json.loads(data.decode(), object_pairs_hook=_object)
    except UnicodeDecodeError:
        raise CorruptionError("text that is not UTF-8", path=path) from None
    except json.JSONDecodeError as error:
        # Not chained: the exception carries the whole text.
        raise CorruptionError(f"no JSON ({error.msg}, line {error.lineno})", path=path) from None
    except RecursionError:
        raise CorruptionError("no users: JSON that is nested too deeply", path=path) from None
    except InvalidArgumentError as error:
        raise CorruptionError(str(error), path=path) from None
    try:
        return _tables(document)
    except InvalidArgumentError as error:
        raise CorruptionError(str(error), path=path) from None


def _mark(status: os.stat_result) -> Mark:
    return Mark(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _user_document(user: User) -> dict[str, str]:
    return {
        "username": user.username,
        "password": user.password,
        "userType": user.type.value,
        "userStatus": user.status.value,
    }


def _acl_document(acl: Acl) -> dict[str, Any]:
    return dict(sorted(acl.to_info().items(), reverse=True))  # the subject first


# Reading


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise InvalidArgumentError("a key that stands twice in one object")
    return document


def _tables(document: Any) -> Tables:
    _check_keys(document, "the file", _FILE_KEYS, needed=_FILE_KEYS)
    if document["version"] != VERSION or isinstance(document["version"], bool):
        raise InvalidArgumentError(f"a version that is not {VERSION}")
    users: dict[str, User] = {}
    for at, item in _items(document["users"], "users"):
        user = _within(f"users[{at}]", _parse_user, item)
        if user.username in users:
            raise InvalidArgumentError(f"users[{at}]: the user {user.username!r} once more")
        users[user.username] = user
    acls: dict[str, Acl] = {}
    for at, item in _items(document["acls"], "acls"):
        acl = _within(f"acls[{at}]", _parse_acl, item)
        if acl.username in acls:
            raise InvalidArgumentError(f"acls[{at}]: policies of the user {acl.username!r} once more")
        if acl.username not in users:
            raise InvalidArgumentError(f"acls[{at}]: policies of the user {acl.username!r}, who does not exist")
        acls[acl.username] = acl
    return Tables.of(users.values(), acls.values())


def _parse_user(document: Any) -> User:
    _check_keys(document, "a user", _USER_KEYS, needed=_USER_KEYS)
    type = find_name(UserType, text_of(document, "userType") or "")
    status = find_name(UserStatus, text_of(document, "userStatus") or "")
    if type is None or status is None:
        raise InvalidArgumentError("userType is Super or Normal, userStatus is enable or disable")
    username, password = text_of(document, "username") or "", text_of(document, "password") or ""
    return checked_user(username, password, type=type, status=status)


def _parse_acl(document: Any) -> Acl:
    _check_keys(document, "an acl", _ACL_KEYS, needed=_ACL_KEYS)
    subject = text_of(document, "subject") or ""
    if not subject.startswith(_SUBJECT):
        raise InvalidArgumentError(f"the subject does not start with {_SUBJECT}")
    for _, policy in _items(document["policies"], "policies"):
        _check_keys(policy, "a policy", _POLICY_KEYS, needed=_POLICY_KEYS)
        for _, entry in _items(policy["entries"], "entries"):
            _check_keys(entry, "an entry", _ENTRY_KEYS, needed=("resource", "actions", "decision"))
    return Acl(subject.removeprefix(_SUBJECT), parse_policies(document["policies"]))


def _within(place: str, parse_item: Callable[[Any], _Value], item: Any) -> _Value:
    try:
        return parse_item(item)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{place}: {error}") from None


def _items(value: Any, key: str) -> Iterable[tuple[int, Any]]:
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{key} is not a list")
    return enumerate(value)


def _check_keys(document: Any, what: str, known: Collection[str], *, needed: Collection[str]) -> None:
    if not isinstance(document, dict):
        raise InvalidArgumentError(f"{what} is not an object")
    if strange := sorted(document.keys() - set(known)):
        raise InvalidArgumentError(f"{what} has a key that is not known: {strange[0][:64]!r}")
    if missing := [key for key in needed if key not in document]:
        raise InvalidArgumentError(f"{what} has no {missing[0]}")

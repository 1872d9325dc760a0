"""Changes: what administrators ask for, as functions from tables to tables, in RocketMQ's order of checks and words.

The sentences are RocketMQ's, mistakes included, wherever it has one: tools show them and people search for them. Two
things it lets happen are refused: a password that is the mask of our replies, and the end of the last Super user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from flaremq.access.users.policy import Acl, PolicyType, parse_policies, parse_policy_type
from flaremq.access.users.resource import parse_resource
from flaremq.access.users.tables import Tables
from flaremq.access.users.user import (
    User,
    UserStatus,
    UserType,
    check_password,
    check_username,
    checked_user,
    find_name,
    text_of,
)
from flaremq.errors import InvalidArgumentError, RequestError
from flaremq.protocol.codes import ResponseCode

_USER: Final = "user"


def create_user(tables: Tables, username: str, info: Mapping[str, Any]) -> Tables:
    """``info`` is a UserInfo; its own username does not count. An unknown type or status is Normal, enable."""
    try:
        user = checked_user(
            username,
            text_of(info, "password") or "",
            type=find_name(UserType, text_of(info, "userType") or "") or UserType.NORMAL,
            status=find_name(UserStatus, text_of(info, "userStatus") or "") or UserStatus.ENABLE,
        )
    except InvalidArgumentError as error:
        raise _refused(str(error)) from None
    if username in tables.users:
        raise _refused("The user is existed")
    return tables.with_user(user)


def update_user(tables: Tables, username: str, info: Mapping[str, Any]) -> Tables:
    """Change what ``info`` gives. A type or status that is none is refused: who disables a user must not err."""
    user = tables.users.get(username)
    try:
        check_username(username)
        if user is None:
            raise InvalidArgumentError("The user is not exist")
        changed = _updated(user, info)
    except InvalidArgumentError as error:
        raise _refused(str(error)) from None
    return _with_super(tables, tables.with_user(changed), username)


def delete_user(tables: Tables, username: str) -> Tables:
    """The user and what he may; nothing if there is no such user."""
    if username not in tables.users:
        return tables
    return _with_super(tables, tables.without_user(username), username)


def put_acl(tables: Tables, subject: str, info: Mapping[str, Any]) -> Tables:
    """Create or update: entries of a resource that has one replace it. The subject in ``info`` wins."""
    try:
        username = username_of(text_of(info, "subject") or subject)
        policies = parse_policies(info.get("policies"))
    except InvalidArgumentError as error:
        raise _refused(str(error)) from None
    if username not in tables.users:
        raise _refused(f"The subject of User:{username} is not exist.")
    old = tables.acls.get(username)
    return tables.with_acl(Acl(username, policies) if old is None else old.merged(policies))


def delete_acl(tables: Tables, subject: str, *, policy_type: str | None, resource: str | None) -> Tables:
    """All policies of a subject, or the entries of one resource."""
    username = username_of(subject)
    acl = find_acl(tables, username)
    if acl is None:
        raise _refused("The acl is not exist.")
    if not resource:
        return tables.without_acl(username)
    parsed = parse_resource(resource)
    if parsed is None:  # RocketMQ deletes everything then
        raise _refused("The resource is null.")
    try:
        type = parse_policy_type(policy_type) if policy_type else PolicyType.CUSTOM
    except InvalidArgumentError as error:
        raise _refused(str(error)) from None
    rest = acl.without(type, parsed)
    if rest == acl:
        return tables
    return tables.with_acl(rest) if rest.policies else tables.without_acl(username)


def find_acl(tables: Tables, username: str) -> Acl | None:
    """The policies of a user, who must exist."""
    if username not in tables.users:
        raise _refused("The subject is not exist.")
    return tables.acls.get(username)


def username_of(subject: str) -> str:
    """``User:name``; there are no other subjects."""
    kind, colon, name = subject.partition(":")
    if kind.casefold() != _USER or not colon:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "An system error occurred, please try again later.")
    return name


def _updated(user: User, info: Mapping[str, Any]) -> User:
    password, type_text, status_text = (text_of(info, key) or "" for key in ("password", "userType", "userStatus"))
    if password.strip():
        check_password(password)
        user = replace(user, password=password)
    if type_text:
        type = find_name(UserType, type_text)
        if type is None:
            raise InvalidArgumentError("The user type is neither Super nor Normal.")
        user = replace(user, type=type)
    if status_text:
        status = find_name(UserStatus, status_text)
        if status is None:
            raise InvalidArgumentError("The user status is neither enable nor disable.")
        user = replace(user, status=status)
    return user


def _with_super(before: Tables, after: Tables, username: str) -> Tables:
    if before.has_super and not after.has_super:
        raise _refused(
            f"User:{username} is the last enabled Super user: without one nobody could administer this server."
        )
    return after


def _refused(remark: str) -> RequestError:
    return RequestError(ResponseCode.NO_PERMISSION, remark)

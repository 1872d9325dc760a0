"""Initial users: those that the configuration names, created as Super where they do not exist yet.

A user that exists stays as it is: later edits of the option change nothing, as in RocketMQ.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from flaremq.access.users.tables import Tables
from flaremq.access.users.user import User, UserType, checked_user
from flaremq.access.users.user_store import UserStore
from flaremq.errors import InvalidArgumentError
from flaremq.secret_place import secret_value

_log = logging.getLogger(__name__)


def parse_initial_user(text: str) -> User:
    """The value of ``initAuthenticationUser``. No error quotes it."""
    return _parse(text, "initAuthenticationUser", name_key="username", secret_key="password")


def parse_inner_credentials(text: str) -> User:
    """The value of ``innerClientAuthenticationCredentials``: as whom this server signs. No error quotes it."""
    return _parse(text, "innerClientAuthenticationCredentials", name_key="accessKey", secret_key="secretKey")


def create_missing(store: UserStore, users: Iterable[User]) -> None:
    """Create those that do not exist; waits for the file."""
    wanted = list(users)

    def edit(tables: Tables) -> Tables:
        for user in wanted:
            if user.username not in tables.users:
                tables = tables.with_user(user)
                _log.warning("user %r is created as Super", user.username)
        return tables

    tables = store.change(edit)
    for user in wanted:
        held = tables.users[user.username]
        if not held.is_enabled_super or held.password != user.password:
            _log.warning("%r of %s counts; the configuration names another one", held, store.path)
    if not tables.has_super:
        _log.warning("%s has no enabled Super user: nobody can administer this server", store.path)


def _parse(text: str, option: str, *, name_key: str, secret_key: str) -> User:
    wanted = f'{option} is a JSON object {{"{name_key}":…,"{secret_key}":…}}'
    try:
        document = json.loads(secret_value(text.strip(), option))
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"{wanted}, and its value is no JSON") from None
    if not isinstance(document, dict):
        raise InvalidArgumentError(f"{wanted}, and its value is no object")
    name, secret = document.get(name_key), document.get(secret_key)
    if not isinstance(name, str) or not isinstance(secret, str):
        raise InvalidArgumentError(f"{wanted}, and one of the two is missing or no text")
    try:
        return checked_user(name, secret, type=UserType.SUPER)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{option}: {error}") from None

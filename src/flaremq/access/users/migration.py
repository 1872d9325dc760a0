"""Migration: accounts of ACL 1.0 become users.

Their white addresses are not taken over: here an address never replaces a signature. A migrated user lacks Get, which
nothing of 1.0 corresponds to.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from flaremq.access.needs import Action, ResourceType
from flaremq.access.users.policy import Acl, Decision, PolicyEntry, PolicyType
from flaremq.access.users.resource import Pattern, Resource, parse_resource
from flaremq.access.users.tables import Tables
from flaremq.access.users.user import User, UserType, checked_user
from flaremq.access.users.user_store import UserStore
from flaremq.errors import InvalidArgumentError
from flaremq.message.topics import RETRY_PREFIX

_log = logging.getLogger(__name__)

# Permissions of 1.0. What is not among them denies, there and here.
_ACTIONS: Final = {
    "PUB": (Action.PUB,),
    "SUB": (Action.SUB,),
    "PUB|SUB": (Action.PUB, Action.SUB),
    "SUB|PUB": (Action.PUB, Action.SUB),
}


@dataclass(frozen=True, slots=True)
class MigratedAccount:
    """An account of 1.0 as plain values: permissions are DENY, PUB, SUB, PUB|SUB; an empty default says nothing."""

    access_key: str
    secret_key: str
    is_admin: bool = False
    topic_perms: tuple[tuple[str, str], ...] = ()  # topic, permission
    group_perms: tuple[tuple[str, str], ...] = ()  # group, permission
    default_topic_perm: str = ""
    default_group_perm: str = ""

    def __repr__(self) -> str:
        return f"<account {self.access_key!r}>"  # never the secret


def migrate(store: UserStore, accounts: Iterable[MigratedAccount]) -> list[str]:
    """Make users of the accounts whose names are none yet, all of them or none; their names. Waits for the file.

    InvalidArgumentError names the account that cannot be one.
    """
    created: list[str] = []
    given = list(accounts)

    def edit(tables: Tables) -> Tables:
        users, acls = dict(tables.users), dict(tables.acls)
        for account in given:
            if account.access_key in users:
                continue
            user = _user(account)
            users[user.username] = user
            policies = _policies(account)
            if policies:
                acls[user.username] = Acl(user.username, policies)
            created.append(user.username)
        return Tables.of(users.values(), acls.values()) if created else tables

    store.change(edit)
    if created:
        _log.warning("%d accounts of ACL 1.0 are users now: %s", len(created), ", ".join(created))
    return created


def _user(account: MigratedAccount) -> User:
    type = UserType.SUPER if account.is_admin else UserType.NORMAL
    try:
        return checked_user(account.access_key, account.secret_key, type=type)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"the account {account.access_key!r} cannot become a user: {error}") from None


def _policies(account: MigratedAccount) -> dict[PolicyType, tuple[PolicyEntry, ...]]:
    custom = [_entry(_literal(*_topic(name)), perm) for name, perm in account.topic_perms]
    custom += [_entry(_literal(ResourceType.GROUP, name), perm) for name, perm in account.group_perms]
    default = [
        _entry(Resource(type, Pattern.ANY, ""), perm)
        for type, perm in (
            (ResourceType.TOPIC, account.default_topic_perm),
            (ResourceType.GROUP, account.default_group_perm),
        )
        if perm.strip()
    ]
    both = {
        PolicyType.CUSTOM: tuple(entry for entry in custom if _is_writable(account, entry)),
        PolicyType.DEFAULT: tuple(default),
    }
    return {type: entries for type, entries in both.items() if entries}


def _topic(name: str) -> tuple[ResourceType, str]:
    """1.0 keeps the permission for a group as one for its retry topic."""
    if name.startswith(RETRY_PREFIX):
        return ResourceType.GROUP, name.removeprefix(RETRY_PREFIX)
    return ResourceType.TOPIC, name


def _literal(type: ResourceType, name: str) -> Resource:
    return Resource(type, Pattern.LITERAL, name)


def _entry(resource: Resource, perm: str) -> PolicyEntry:
    actions = _ACTIONS.get(perm.strip())
    if actions is None:
        return PolicyEntry(resource, (Action.ALL,), Decision.DENY)
    return PolicyEntry(resource, actions, Decision.ALLOW)


def _is_writable(account: MigratedAccount, entry: PolicyEntry) -> bool:
    """Names that would be read back as a pattern. No topic or group has one, so the entry never met anything."""
    if parse_resource(str(entry.resource)) == entry.resource:
        return True
    _log.warning("account %r has a permission for %r: no policy can name it", account.access_key, entry.resource.name)
    return False

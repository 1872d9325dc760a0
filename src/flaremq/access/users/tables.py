"""Tables: all users and policies as they are at one moment. Never changed: a change makes new tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from flaremq.access.judge import Account
from flaremq.access.users.policy import Acl
from flaremq.access.users.rule_table import RuleTable
from flaremq.access.users.user import User, UserStatus, UserType

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Tables:
    """By user name. ``accounts`` and ``rules`` are the same once more, as they are asked for with each request."""

    users: Mapping[str, User]
    acls: Mapping[str, Acl]
    accounts: Mapping[str, Account]
    rules: Mapping[str, RuleTable]

    @classmethod
    def of(cls, users: Iterable[User], acls: Iterable[Acl]) -> Tables:
        by_name = {user.username: user for user in users}
        acls_by_name = {acl.username: acl for acl in acls}
        return cls(
            by_name,
            acls_by_name,
            {name: _account(user) for name, user in by_name.items()},
            {name: RuleTable(acl) for name, acl in acls_by_name.items()},
        )

    @property
    def has_super(self) -> bool:
        """Whether anybody could change anything."""
        return any(user.is_enabled_super for user in self.users.values())

    def with_user(self, user: User) -> Tables:
        name = user.username
        users, accounts = {**self.users, name: user}, {**self.accounts, name: _account(user)}
        return Tables(users, self.acls, accounts, self.rules)

    def without_user(self, name: str) -> Tables:
        """The user's policies go too: who gets the name next does not inherit them."""
        rest = self.without_acl(name)
        return Tables(_without(rest.users, name), rest.acls, _without(rest.accounts, name), rest.rules)

    def with_acl(self, acl: Acl) -> Tables:
        name = acl.username
        acls, rules = {**self.acls, name: acl}, {**self.rules, name: RuleTable(acl)}
        return Tables(self.users, acls, self.accounts, rules)

    def without_acl(self, name: str) -> Tables:
        return Tables(self.users, _without(self.acls, name), self.accounts, _without(self.rules, name))

    def __repr__(self) -> str:
        return f"<tables of {len(self.users)} users>"


def _account(user: User) -> Account:
    return Account(
        user.username,
        user.password.encode(),
        is_super=user.type is UserType.SUPER,
        is_enabled=user.status is UserStatus.ENABLE,
    )


def _without(table: Mapping[str, _Value], name: str) -> dict[str, _Value]:
    return {key: value for key, value in table.items() if key != name}

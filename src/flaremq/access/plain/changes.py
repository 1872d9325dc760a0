"""Changes: what a request does to the document of a file. Pure; the store writes the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flaremq.access.plain.account import MASK, check_keys
from flaremq.access.plain.acl_document import Document
from flaremq.access.plain.address_patterns import parse_pattern
from flaremq.access.plain.permissions import checked_permission, split_entry
from flaremq.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChange:
    """An account as a request gives it. What is empty is not given, but for ``is_admin``, which always is."""

    access_key: str
    secret_key: str
    is_admin: bool = False
    white_remote_address: str = ""
    default_topic_perm: str = ""
    default_group_perm: str = ""
    topic_perms: tuple[str, ...] = ()
    group_perms: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<change of account {self.access_key!r}>"  # never the secret

    def check(self) -> None:
        """InvalidArgumentError, in RocketMQ's words, for what no account may have."""
        if self.secret_key == MASK:
            raise InvalidArgumentError(
                f"secretKey={MASK} stands for a secret that is not shown; give the secret itself"
            )
        check_keys(self.access_key, self.secret_key)
        for entry in (*self.topic_perms, *self.group_perms):
            _, permission = split_entry(entry)
            checked_permission(permission, entry)
        for permission in (self.default_topic_perm, self.default_group_perm):
            if permission:
                checked_permission(permission, permission)
        parse_pattern(self.white_remote_address)

    def fields(self) -> dict[str, Any]:
        """What is given, by the names of the file."""
        given: dict[str, Any] = {
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "whiteRemoteAddress": self.white_remote_address,
            "admin": "true" if self.is_admin else "false",
            "defaultTopicPerm": self.default_topic_perm,
            "defaultGroupPerm": self.default_group_perm,
            "topicPerms": list(self.topic_perms),
            "groupPerms": list(self.group_perms),
        }
        return {name: value for name, value in given.items() if value}


def with_account(document: Document, change: AccountChange) -> Document:
    """Given fields replace those of the account, which is made if need be."""
    accounts = list(document.get("accounts") or ())
    for at, entry in enumerate(accounts):
        if entry.get("accessKey") == change.access_key:
            accounts[at] = {**entry, **change.fields()}
            break
    else:
        accounts.append(change.fields())
    return {**document, "accounts": accounts}


def without_account(document: Document, access_key: str) -> Document:
    kept = [entry for entry in document.get("accounts") or () if entry.get("accessKey") != access_key]
    return {**document, "accounts": kept}


def with_white_list(document: Document, patterns: Sequence[str]) -> Document:
    for pattern in patterns:
        parse_pattern(pattern)
    return {**document, "globalWhiteRemoteAddresses": list(patterns)}

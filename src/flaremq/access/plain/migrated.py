"""Accounts of ACL 1.0 as what users and policies are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flaremq.access.plain.account import text_list
from flaremq.access.plain.permissions import split_entry
from flaremq.access.plain.snapshot import Snapshot
from flaremq.access.users.migration import MigratedAccount


def migrated_accounts(snapshot: Snapshot) -> list[MigratedAccount]:
    """Every account in use; white lists have no counterpart."""
    return [
        MigratedAccount(
            access_key=known.account.name,
            secret_key=known.account.secret.decode(),
            is_admin=known.is_admin,
            topic_perms=_entries(known.fields, "topicPerms"),
            group_perms=_entries(known.fields, "groupPerms"),
            default_topic_perm=known.fields.get("defaultTopicPerm") or "",
            default_group_perm=known.fields.get("defaultGroupPerm") or "",
        )
        for known in snapshot.accounts.values()
    ]


def _entries(fields: Mapping[str, Any], name: str) -> tuple[tuple[str, str], ...]:
    return tuple(split_entry(entry) for entry in text_list(fields, name))

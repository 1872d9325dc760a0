"""PlainJudge: what the accounts of ACL 1.0 may do.

Here an address can replace a signature: an entry of ``globalWhiteRemoteAddresses`` or ``whiteRemoteAddress`` says just
that, and nothing else does. Needs come in the words of RocketMQ 5; of topics and groups 1.0 knows PUB and SUB alone,
and everything else is for administrators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flaremq.access.judge import Account
from flaremq.access.needs import Need, Refusal, ResourceType
from flaremq.access.plain.account import PlainAccount
from flaremq.access.plain.acl_store import PlainAclStore
from flaremq.access.plain.permissions import DENY, PUB, needed
from flaremq.message.topics import RETRY_PREFIX, TRACE_TOPIC

_NAME_MAX: Final = 255  # of a name that a refusal repeats


class PlainJudge:
    """Answers from the store's present snapshot; table look-ups only."""

    def __init__(self, store: PlainAclStore) -> None:
        self._store = store

    def trusts(self, address: str, access_key: str | None) -> bool:
        snapshot = self._store.snapshot
        for pattern in snapshot.white_list:
            if pattern.matches(address):
                return True
        account = snapshot.accounts.get(access_key) if access_key else None
        return account is not None and account.white.matches(address)

    def find(self, access_key: str) -> Account | None:
        found = self._store.snapshot.accounts.get(access_key)
        return None if found is None else found.account

    def decide(self, account: Account, needs: Sequence[Need], address: str) -> Refusal | None:
        known = self._store.snapshot.accounts.get(account.name)
        if known is None:  # deleted since its signature was checked
            return Refusal(f"No acl config for {account.name}", "no account")
        for need in needs:
            refusal = _refusal(known, need)
            if refusal is not None:
                return refusal
        return None


def _refusal(known: PlainAccount, need: Need) -> Refusal | None:
    wanted = DENY
    if need.type is ResourceType.TOPIC or need.type is ResourceType.GROUP:
        wanted = needed(need.actions)
    if not wanted:
        if known.is_admin:
            return None
        return Refusal(f"Need admin permission, but accessKey={known.account.name} is not", "not admin")
    name = need.name
    if need.type is ResourceType.GROUP:
        key, group = RETRY_PREFIX + name, name
    elif name.startswith(RETRY_PREFIX):
        key, group = name, name[len(RETRY_PREFIX) :]
    else:
        if name == TRACE_TOPIC and wanted & PUB:
            return None
        owned = known.permissions.get(name)
        if owned is None:
            owned, rule = known.topic_default, "defaultTopicPerm"
        else:
            rule = "topicPerms"
        return None if owned & wanted else Refusal(f"No default permission for topic:{name[:_NAME_MAX]}", rule)
    owned = known.permissions.get(key)
    if owned is None:
        owned, rule = known.group_default, "defaultGroupPerm"
    else:
        rule = "groupPerms"
    return None if owned & wanted else Refusal(f"No default permission for group:{group[:_NAME_MAX]}", rule)

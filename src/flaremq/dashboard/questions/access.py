"""Users, policies and accounts, as the brokers tell them: never a secret, whatever a broker answers."""

from __future__ import annotations

from typing import Any

from flaremq.client.admin.access import Acl, PlainAccount, User
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.reasons import reason_of
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.page import Missing, Page, because, page, why
from flaremq.errors import FlareMQError

Row = dict[str, Any]


async def access_page(state: ClusterState, reader: ClusterReader, now_ms: int) -> Page:
    missing: Missing = {}
    users: dict[str, Row] = {}
    policies: dict[str, Row] = {}
    accounts: list[Row] = []
    white_list: list[str] = []
    generations = {generation for broker in state.masters if (generation := _generation(broker.config))}
    for broker in [broker for broker in state.brokers.values() if broker.is_up]:
        try:
            for user in await reader.list_users(broker.address):
                row = _user(user)
                users.setdefault(row["id"], row)["brokers"].append(broker.address)
            for acl in await reader.list_acls(broker.address):
                for row in _policies(acl):
                    policies.setdefault(row["id"], row)["brokers"].append(broker.address)
        except FlareMQError as error:
            missing["users"] = because("off") if state.has_access_control is False else why(reason_of(error))
        if "1.0" in generations:
            try:
                white, found = await reader.acl_config(broker.address)
            except FlareMQError as error:
                missing["accounts"] = why(reason_of(error))
            else:
                white_list += [address for address in white if address not in white_list]
                accounts += [_account(account, broker.name) for account in found]
    return page(state, now_ms, missing=missing) | {
        "on": state.has_access_control,
        "generation": max(generations, default=None),
        "users": sorted(users.values(), key=lambda row: row["id"]),
        "policies": sorted(policies.values(), key=lambda row: row["id"]),
        "accounts": accounts,
        "white_list": white_list,
    }


def _generation(config: Any) -> str | None:
    if not config:
        return None
    if config.get("authenticationEnabled") == "true":
        return "2.0"
    return "1.0" if config.get("aclEnable") == "true" else None


def _user(user: User) -> Row:
    return {
        "id": f"{user.username}/{user.user_type}/{user.user_status}",
        "user": user.username,
        "type": user.user_type,
        "status": user.user_status,
        "brokers": [],
    }


def _policies(acl: Acl) -> list[Row]:
    return [
        {
            "id": f"{acl.subject}/{entry.resource}/{kind}/{','.join(entry.actions)}/{entry.decision}",
            "subject": acl.subject,
            "resource": entry.resource,
            "actions": list(entry.actions),
            "decision": entry.decision,
            "sources": None if entry.source_ips is None else list(entry.source_ips),
            "policy_type": kind,
            "brokers": [],
        }
        for kind, entry in acl.entries
    ]


def _account(account: PlainAccount, broker: str) -> Row:
    return {
        "id": f"{broker}/{account.access_key}",
        "access_key": account.access_key,
        "admin": account.is_admin,
        "topic_perm": account.default_topic_perm,
        "group_perm": account.default_group_perm,
        "topic_perms": list(account.topic_perms),
        "group_perms": list(account.group_perms),
        "white_address": account.white_remote_address,
        "broker": broker,
    }

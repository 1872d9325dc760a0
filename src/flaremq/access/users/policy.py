"""Policies: what a user may do to which resources, in the JSON shape of requests, replies and the file.

A subject (``User:name``) has at most one Custom and one Default policy, each a list of entries. Reading one is strict:
what is not understood is refused with RocketMQ's sentence where it has one, so that no policy says less than its author
believes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from flaremq.access.needs import Action
from flaremq.access.users.resource import Resource, parse_resource
from flaremq.access.users.source_addresses import is_source_address
from flaremq.access.users.user import find_name, text_of
from flaremq.errors import InvalidArgumentError

_ACTIONS: Final = {action.name.casefold(): action for action in Action if action is not Action.UNKNOWN}


class Decision(Enum):
    """What an entry says to those it meets."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    """Default is asked only where nothing of Custom matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One line of a policy. No source addresses: it counts from everywhere."""

    resource: Resource
    actions: tuple[Action, ...]
    decision: Decision
    source_ips: tuple[str, ...] = ()

    def to_info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "actions": [action.name.capitalize() for action in self.actions],
            "decision": self.decision.value,
            "resource": str(self.resource),
        }
        return info | {"sourceIps": list(self.source_ips)} if self.source_ips else info


@dataclass(frozen=True, slots=True)
class Acl:
    """All policies of a user, in the order they were given; no type without entries."""

    username: str
    policies: Mapping[PolicyType, tuple[PolicyEntry, ...]] = field(default_factory=dict)

    def merged(self, policies: Mapping[PolicyType, tuple[PolicyEntry, ...]]) -> Acl:
        """With these entries: one of a resource that has an entry replaces it, others are added."""
        result = dict(self.policies)
        for type, entries in policies.items():
            old = result.get(type, ())
            place = {entry.resource: at for at, entry in reversed(list(enumerate(old)))}
            new = list(old)
            for entry in entries:
                at = place.setdefault(entry.resource, len(new))
                new[at : at + 1] = [entry]
            result[type] = tuple(new)
        return Acl(self.username, result)

    def without(self, type: PolicyType, resource: Resource) -> Acl:
        """With no entry left of this resource. Not one of several, as in RocketMQ: what is deleted grants nothing."""
        kept = {
            held: tuple(entry for entry in entries if held is not type or entry.resource != resource)
            for held, entries in self.policies.items()
        }
        return self._with(kept)

    def filtered(self, resource_filter: str) -> Acl:
        """Only the entries whose resource has this text in it."""
        return self._with(
            {
                type: tuple(entry for entry in entries if resource_filter in str(entry.resource))
                for type, entries in self.policies.items()
            }
        )

    def to_info(self) -> dict[str, Any]:
        """RocketMQ's AclInfo."""
        policies = [
            {"entries": [entry.to_info() for entry in entries], "policyType": type.value}
            for type, entries in self.policies.items()
        ]
        return {"policies": policies, "subject": f"User:{self.username}"}

    def _with(self, policies: Mapping[PolicyType, tuple[PolicyEntry, ...]]) -> Acl:
        return Acl(self.username, {type: entries for type, entries in policies.items() if entries})


def parse_policies(document: Any) -> dict[PolicyType, tuple[PolicyEntry, ...]]:
    """The value of ``policies``. InvalidArgumentError says what is wrong with it."""
    policies: dict[PolicyType, tuple[PolicyEntry, ...]] = {}
    for policy in _objects(document, "policies"):
        type = _parse_type(text_of(policy, "policyType"))
        entries = tuple(_parse_entry(entry) for entry in _objects(policy.get("entries"), "entries"))
        if entries:
            policies[type] = policies.get(type, ()) + entries
    if not policies:
        raise InvalidArgumentError("The policies is empty.")
    return policies


def parse_policy_type(text: str) -> PolicyType:
    type = find_name(PolicyType, text)
    if type is None:
        raise InvalidArgumentError("The policy type is neither Custom nor Default.")
    return type


def _parse_type(text: str | None) -> PolicyType:
    return parse_policy_type(text) if text else PolicyType.CUSTOM


def _parse_entry(document: Mapping[str, Any]) -> PolicyEntry:
    """In RocketMQ's order of checks."""
    resource = parse_resource(text_of(document, "resource") or "")
    if resource is None:
        raise InvalidArgumentError("The resource is null.")
    actions = _parse_actions(_texts(document.get("actions"), "actions"))
    source_ips = tuple(_texts(document.get("sourceIps"), "sourceIps"))
    for address in source_ips:
        if not address.strip():
            raise InvalidArgumentError("The source ip is empty.")
        if not is_source_address(address):
            raise InvalidArgumentError("The source ip is invalid.")
    decision = find_name(Decision, text_of(document, "decision") or "")
    if decision is None:
        raise InvalidArgumentError("The decision is null or illegal.")
    return PolicyEntry(resource, actions, decision, source_ips)


def _parse_actions(texts: list[str]) -> tuple[Action, ...]:
    known = [_ACTIONS.get(text.casefold()) for text in texts]
    actions = tuple(dict.fromkeys(action for action in known if action is not None))
    if not actions:
        raise InvalidArgumentError("The actions is empty.")
    if Action.ANY in actions:
        raise InvalidArgumentError("The actions can not be Any.")
    if None in known:
        raise InvalidArgumentError(f"The action number {known.index(None) + 1} is unknown.")
    return actions


def _objects(value: Any, key: str) -> Iterable[Mapping[str, Any]]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidArgumentError(f"{key} is not a list of objects")
    return value


def _texts(value: Any, key: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidArgumentError(f"{key} is not a list of texts")
    return value

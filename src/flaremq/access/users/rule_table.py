"""Rule table: the policies of one user, arranged so that a decision does not depend on how many there are.

All entries of one resource are one rule. Which rules speak of a name is found by look-ups, one for the name itself and
one for each length of prefix there is, and comes out in the order in which they are asked:

1. Custom before Default;
2. entries with a type before ``*``;
3. the name itself, a longer prefix, a shorter one, all of the type;
4. within a rule Deny before Allow.

The first one that has something to say about the action and the address decides. This is the order of RocketMQ 5.5.0;
5.3 has another one by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from flaremq.access.needs import Action, ResourceType
from flaremq.access.users.policy import Acl, Decision, PolicyEntry, PolicyType
from flaremq.access.users.resource import EVERYTHING, Pattern, Resource
from flaremq.access.users.source_addresses import SourceAddresses, parse_address

_ALL: Final = 1 << Action.ALL
_ANY: Final = Action.ANY
_ANY_MASK: Final = -1  # meets every entry


def mask_of(actions: Iterable[Action]) -> int:
    """The bits of a need: those of its actions. Whoever asks for Any is content with any entry."""
    mask = 0
    for action in actions:
        mask |= _ANY_MASK if action is _ANY else _ALL | 1 << action
    return mask


class Rule:
    """What one policy says about one resource."""

    __slots__ = ("_allowed", "_allowed_from", "_denied", "_denied_from", "resource", "type")

    def __init__(self, type: PolicyType, resource: Resource, entries: Sequence[PolicyEntry]) -> None:
        self.type = type
        self.resource = resource
        self._denied, self._denied_from = _sides(entries, Decision.DENY)
        self._allowed, self._allowed_from = _sides(entries, Decision.ALLOW)

    def verdict(self, mask: int, address: str) -> bool | None:
        """Whether it allows; None if it says nothing about these actions from there."""
        if self._denied & mask:
            return False
        if self._denied_from or self._allowed_from:
            return self._verdict_from(mask, address)
        return True if self._allowed & mask else None

    def _verdict_from(self, mask: int, address: str) -> bool | None:
        peer = parse_address(address)
        for bits, addresses in self._denied_from:
            # Who hides where he comes from is not let past a Deny.
            if bits & mask and (peer is None or peer in addresses):
                return False
        if self._allowed & mask:
            return True
        for bits, addresses in self._allowed_from:
            if bits & mask and peer is not None and peer in addresses:
                return True
        return None


class RuleTable:
    """The rules of one user; never changed."""

    __slots__ = ("_policies",)

    def __init__(self, acl: Acl) -> None:
        self._policies = tuple(
            _PolicyRules(type, acl.policies[type])
            for type in (PolicyType.CUSTOM, PolicyType.DEFAULT)
            if type in acl.policies
        )

    def chain(self, type: ResourceType, name: str) -> tuple[Rule, ...]:
        """The rules that speak of a resource, the first one to ask first."""
        found: list[Rule] = []
        for policy in self._policies:
            policy.add_to(found, type, name)
        return tuple(found)


class _PolicyRules:
    """One policy: for each type the rules of names, of prefixes, and of all names."""

    __slots__ = ("_everything", "_of_names", "_of_prefixes", "_of_types")

    def __init__(self, type: PolicyType, entries: Iterable[PolicyEntry]) -> None:
        by_resource: dict[Resource, list[PolicyEntry]] = {}
        for entry in entries:
            by_resource.setdefault(entry.resource, []).append(entry)
        self._everything: Rule | None = None
        self._of_types: dict[ResourceType, Rule] = {}
        self._of_names: dict[ResourceType, dict[str, Rule]] = {}
        prefixes: dict[ResourceType, dict[str, Rule]] = {}
        for resource, group in by_resource.items():
            rule = Rule(type, resource, group)
            if resource == EVERYTHING:
                self._everything = rule
            elif resource.pattern is Pattern.ANY:
                self._of_types[resource.type] = rule
            else:
                tables = self._of_names if resource.pattern is Pattern.LITERAL else prefixes
                tables.setdefault(resource.type, {})[resource.name] = rule
        # With the lengths there are, longest first.
        self._of_prefixes = {
            held: (tuple(sorted({len(prefix) for prefix in table}, reverse=True)), table)
            for held, table in prefixes.items()
        }

    def add_to(self, found: list[Rule], type: ResourceType, name: str) -> None:
        names = self._of_names.get(type)
        if names is not None and name in names:
            found.append(names[name])
        if type in self._of_prefixes:
            lengths, prefixes = self._of_prefixes[type]
            # A length past the end gives the whole name, which is no prefix of that length.
            found += [prefixes[name[:n]] for n in lengths if n <= len(name) and name[:n] in prefixes]
        if type in self._of_types:
            found.append(self._of_types[type])
        if self._everything is not None:
            found.append(self._everything)


def _sides(entries: Iterable[PolicyEntry], decision: Decision) -> tuple[int, tuple[tuple[int, SourceAddresses], ...]]:
    """The actions decided so from everywhere; and those from some addresses, entries with equal actions as one."""
    everywhere = 0
    somewhere: dict[int, list[str]] = {}
    for entry in entries:
        if entry.decision is decision:
            bits = sum(1 << action for action in entry.actions)
            if entry.source_ips:
                somewhere.setdefault(bits, []).extend(entry.source_ips)
            else:
                everywhere |= bits
    return everywhere, tuple((bits, SourceAddresses(texts)) for bits, texts in somewhere.items())

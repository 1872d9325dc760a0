"""Permissions: what ACL 1.0 can say of a topic or group, and what of it a need asks for."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from flaremq.access.needs import Action
from flaremq.errors import InvalidArgumentError

Permission = int  # bits; plain numbers, for every request is decided by them
DENY: Final[Permission] = 0
PUB: Final[Permission] = 1
SUB: Final[Permission] = 2
_EITHER: Final = PUB | SUB
_BY_TEXT: Final = {
    "DENY": DENY,
    "PUB": PUB,
    "SUB": SUB,
    "PUB|SUB": _EITHER,
    "SUB|PUB": _EITHER,
}
_READS: Final = frozenset((Action.GET, Action.LIST))


def parse_permission(text: str | None) -> Permission | None:
    """None if it is not a permission; to have none at all is DENY."""
    if text is None or not text.strip():
        return DENY
    return _BY_TEXT.get(text.strip())


def checked_permission(text: str, entry: str) -> Permission:
    """The permission; the sentence of the error is RocketMQ's."""
    permission = parse_permission(text) if text.strip() else None
    if permission is None:
        raise InvalidArgumentError(
            f"Parse resource permission error for {entry[:255]}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        )
    return permission


def split_entry(entry: str) -> tuple[str, str]:
    """Name and permission of ``name=PERM``; the sentence of the error is RocketMQ's."""
    name, equals, permission = (part.strip() for part in entry.partition("="))
    if not name or not equals or not permission or "=" in permission:
        raise InvalidArgumentError(
            f"Parse resource format error for {entry[:255]}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    return name, permission


@lru_cache(maxsize=256)
def needed(actions: tuple[Action, ...]) -> Permission:
    """Of which permissions one is enough for one of these actions; DENY: only an administrator may.

    1.0 knows no reading without consuming: where a request may be sent by who consumes *or* reads, SUB is asked for.
    What merely reads is for everybody who has anything to do with the topic or group.
    """
    wanted = DENY
    if Action.SUB in actions:
        wanted |= SUB
    if Action.PUB in actions:
        wanted |= PUB
    if not wanted and actions and _READS.issuperset(actions):
        wanted = _EITHER
    return wanted

"""Need: what a request wants to do to which resource. The words are those of RocketMQ 5's policies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ResourceType(IntEnum):
    """Kinds of resources; the numbers are those RocketMQ stores."""

    UNKNOWN = 0
    ANY = 1
    CLUSTER = 2
    NAMESPACE = 3
    TOPIC = 4
    GROUP = 5


class Action(IntEnum):
    """What may be done; the numbers are those RocketMQ stores."""

    UNKNOWN = 0
    ALL = 1
    ANY = 2
    PUB = 3
    SUB = 4
    CREATE = 5
    UPDATE = 6
    DELETE = 7
    GET = 8
    LIST = 9


@dataclass(frozen=True, slots=True)
class Need:
    """One resource and the actions of which one must be allowed on it."""

    type: ResourceType
    name: str
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.type.name.capitalize()}:{self.name}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served: the sentence for the peer, and the rule for the audit log."""

    remark: str
    rule: str
    is_for_now: bool = False  # the same request may be let in later: clients try again

"""Resource: what an entry of a policy speaks of, a name, all names with a prefix, a whole type, or everything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from flaremq.access.needs import ResourceType

_TYPES: Final = {member.name.casefold(): member for member in ResourceType}
_ASTERISK: Final = "*"


class Pattern(IntEnum):
    """How names are compared; the numbers are those RocketMQ stores."""

    ANY = 1
    LITERAL = 2
    PREFIXED = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """``Topic:abc``, ``Topic:abc*``, ``Topic:*`` or ``*``. The name is empty where the pattern is ANY."""

    type: ResourceType
    pattern: Pattern
    name: str

    def matches(self, type: ResourceType, name: str) -> bool:
        if self.type is ResourceType.ANY:
            return True
        if self.type is not type:
            return False
        match self.pattern:
            case Pattern.LITERAL:
                return name == self.name
            case Pattern.PREFIXED:
                return name.startswith(self.name)
            case _:
                return True

    def __str__(self) -> str:
        if self.type is ResourceType.ANY:
            return _ASTERISK
        star = "" if self.pattern is Pattern.LITERAL else _ASTERISK
        return f"{self.type.name.capitalize()}:{self.name}{star}"


EVERYTHING: Final = Resource(ResourceType.ANY, Pattern.ANY, "")


def parse_resource(text: str) -> Resource | None:
    """None if the text names no resource.

    ``Any:name`` is none: RocketMQ takes it for everything, which nobody who writes a name can mean.
    """
    if text == _ASTERISK:
        return EVERYTHING
    type_text, colon, name = text.partition(":")
    type = _TYPES.get(type_text.casefold())
    if type is None or not colon or not name or not name.isprintable():
        return None
    if type is ResourceType.ANY:
        return EVERYTHING if name == _ASTERISK else None
    if name == _ASTERISK:
        return Resource(type, Pattern.ANY, "")
    if name.endswith(_ASTERISK):
        return Resource(type, Pattern.PREFIXED, name.partition(_ASTERISK)[0])
    return Resource(type, Pattern.LITERAL, name)

"""Attributes of topics (RocketMQ 5): named settings beyond queue counts and permissions.

An administrator sends changes, ``+message.type=FIFO,-reserve.time``. A name RocketMQ does not know is refused, and so
is a value that would need something this broker does not have: a topic that says it is compacted must be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.broker.catalog.attribute_limits import check_attribute_limits
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError

MESSAGE_TYPE: Final = "message.type"
MIXED: Final = "MIXED"
_TEXT_MAX: Final = 4096  # characters of one list of changes


@dataclass(frozen=True, slots=True)
class _Attribute:
    allows: Callable[[str], bool]
    form: str
    is_changeable: bool


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda text: text in values


def _is_time(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18 and int(text) >= -1


_ATTRIBUTES: Final[Mapping[str, _Attribute]] = {
    MESSAGE_TYPE: _Attribute(
        _one_of("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", MIXED),
        "one of UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION, MIXED",
        True,
    ),
    "queue.type": _Attribute(_one_of("SimpleCQ"), "SimpleCQ; this broker writes no other queues", False),
    "cleanup.policy": _Attribute(_one_of("DELETE"), "DELETE; this broker does not compact topics", False),
    "reserve.time": _Attribute(_is_time, "a number of milliseconds, or -1", True),
}


def changed_attributes(current: Mapping[str, str], changes: str | None, *, is_new: bool) -> dict[str, str]:
    """The attributes after the changes; RequestError (29) if one of them cannot be."""
    return _apply(current, _parse(changes or ""), is_new=is_new)


def check_attributes(current: Mapping[str, str], wanted: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    """The same for a whole topic sent as a body: its keys may or may not carry the signs."""
    check_attribute_limits(wanted)
    changes = {key if key[:1] in ("+", "-") else f"+{key}": value for key, value in wanted.items()}
    return _apply(current, changes, is_new=is_new)


def _parse(text: str) -> dict[str, str]:
    if len(text) > _TEXT_MAX:
        raise _refused(f"the attributes have {len(text)} characters, at most {_TEXT_MAX} are read")
    changes = {}
    for part in text.split(","):
        if not part.strip():
            continue
        key, equals, value = part.strip().partition("=")
        if (key[:1] == "+") != bool(equals) or key[:1] not in ("+", "-") or len(key) < 2 or key in changes:
            raise _refused(f"{part.strip()[:128]!r} is neither +name=value nor -name, or comes twice")
        changes[key] = value
    return changes


def _apply(current: Mapping[str, str], changes: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    result = dict(current)
    for key, value in changes.items():
        sign, name = key[0], key[1:]
        attribute = _ATTRIBUTES.get(name)
        if attribute is None:
            raise _refused(f"unknown attribute {name[:64]!r}, allowed are {', '.join(_ATTRIBUTES)}")
        if ("-" if sign == "+" else "+") + name in changes:
            raise _refused(f"{name} is both set and removed")
        if sign == "-":
            if is_new or name not in current:
                raise _refused(f"{name} cannot be removed: the topic does not have it")
            if not attribute.is_changeable:
                raise _refused(f"{name} cannot be removed once a topic has it")
            del result[name]
            continue
        if result.get(name) == value:
            continue
        if not attribute.allows(value):
            raise _refused(f"{name}={value[:64]!r} is not allowed: {attribute.form}")
        if not is_new and not attribute.is_changeable:
            raise _refused(f"{name} cannot be changed after a topic was created")
        result[name] = value
    check_attribute_limits(result)
    return result


def _refused(sentence: str) -> RequestError:
    return RequestError(ResponseCode.INVALID_PARAMETER, sentence)

"""Expressions of the property filter and their evaluation: three-valued logic over text properties.

An operand is a property (text, or None when the message has none of that name), a literal, or a condition. Only
literals have other types than text, so which conversion a comparison needs is known when it is built. A condition is
True, False or None for "unknown", and only True delivers.

Text that does not convert is an error of the whole evaluation, not an unknown: it raises ValueError through every
AND and OR that did not stop before. That and the odd corners (two missing properties are equal, a bare property is
false once it exists, a boolean compares with text only from the right) are RocketMQ's: a subscription must select the
same messages here as there. The one mistake not repeated is that it refuses the number ``0.0``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from flaremq.broker.filter.java_text import compare_doubles, read_boolean, read_double, read_integer, read_long

Properties = Mapping[str, str]
Value = str | int | float | bool | None
Truth = bool | None
Comparison = Callable[..., int]


class Kind(Enum):
    """What an operand yields when it is not missing."""

    TEXT = auto()
    INTEGER = auto()
    LONG = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    NOTHING = auto()


NUMBERS = frozenset((Kind.INTEGER, Kind.LONG, Kind.DOUBLE))


class Operand(Protocol):
    """Anything that may stand on a side of a comparison."""

    @property
    def kind(self) -> Kind: ...

    @property
    def depth(self) -> int: ...

    def evaluate(self, properties: Properties) -> Value: ...


class Condition(Protocol):
    """An operand that is true, false or unknown."""

    @property
    def kind(self) -> Kind: ...

    @property
    def depth(self) -> int: ...

    def evaluate(self, properties: Properties) -> Truth: ...


class Property:
    """A property of the message by name."""

    __slots__ = ("name",)
    kind = Kind.TEXT
    depth = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def evaluate(self, properties: Properties) -> str | None:
        return properties.get(self.name)


class Literal:
    """A number or text; ``is_written`` is False for the result of a minus sign."""

    __slots__ = ("is_written", "kind", "value")
    depth = 1

    def __init__(self, kind: Kind, value: Value, *, is_written: bool = True) -> None:
        self.kind = kind
        self.value = value
        self.is_written = is_written

    def evaluate(self, properties: Properties) -> Value:
        return self.value


class TruthLiteral:
    """TRUE, FALSE or NULL: a literal that is a condition as well."""

    __slots__ = ("value",)
    kind = Kind.BOOLEAN
    depth = 1

    def __init__(self, value: Truth) -> None:
        self.value = value

    def evaluate(self, properties: Properties) -> Truth:
        return self.value


class Nothing:
    """The negative of something that is no number: always missing."""

    __slots__ = ("depth",)
    kind = Kind.NOTHING

    def __init__(self, of: Operand) -> None:
        self.depth = of.depth + 1

    def evaluate(self, properties: Properties) -> None:
        return None


class PropertyCondition:
    """A property in the place of a condition: unknown when missing, else false, for no property is a boolean."""

    __slots__ = ("_name",)
    kind = Kind.BOOLEAN
    depth = 2

    def __init__(self, of: Property) -> None:
        self._name = of.name

    def evaluate(self, properties: Properties) -> Truth:
        return False if self._name in properties else None


class Not:
    __slots__ = ("_condition", "depth")
    kind = Kind.BOOLEAN

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self.depth = condition.depth + 1

    def evaluate(self, properties: Properties) -> Truth:
        truth = self._condition.evaluate(properties)
        return None if truth is None else not truth


class _Several:
    __slots__ = ("_conditions", "depth")
    kind = Kind.BOOLEAN

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = tuple(conditions)
        self.depth = 1 + max(condition.depth for condition in conditions)


class And(_Several):
    """All of several conditions, from left to right; stops at the first that is false."""

    __slots__ = ()

    def evaluate(self, properties: Properties) -> Truth:
        result: Truth = True
        for condition in self._conditions:
            truth = condition.evaluate(properties)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result


class Or(_Several):
    """Any of several conditions, from left to right; stops at the first that is true."""

    __slots__ = ()

    def evaluate(self, properties: Properties) -> Truth:
        result: Truth = False
        for condition in self._conditions:
            truth = condition.evaluate(properties)
            if truth is True:
                return True
            if truth is None:
                result = None
        return result


class IsNull:
    __slots__ = ("_operand", "depth")
    kind = Kind.BOOLEAN

    def __init__(self, operand: Operand) -> None:
        self._operand = operand
        self.depth = operand.depth + 1

    def evaluate(self, properties: Properties) -> Truth:
        return self._operand.evaluate(properties) is None


class Equal:
    """``=``: a missing left side is unknown, a missing right side unequal, both missing equal."""

    __slots__ = ("_compare", "_left", "_right", "depth")
    kind = Kind.BOOLEAN

    def __init__(self, left: Operand, right: Operand) -> None:
        self._left = left
        self._right = right
        self._compare = _comparison(left.kind, right.kind)
        self.depth = 1 + max(left.depth, right.depth)

    def evaluate(self, properties: Properties) -> Truth:
        left = self._left.evaluate(properties)
        right = self._right.evaluate(properties)
        if left is None:
            return True if right is None else None
        if right is None:
            return False
        return self._compare(left, right) == 0


class Ordered:
    """``<``, ``<=``, ``>`` and ``>=``: numbers only; two properties are both read as doubles."""

    __slots__ = ("_compare", "_holds", "_left", "_right", "depth")
    kind = Kind.BOOLEAN

    def __init__(self, left: Operand, right: Operand, holds: Callable[[int, int], bool]) -> None:
        self._left = left
        self._right = right
        self._holds = holds
        both_text = left.kind is Kind.TEXT and right.kind is Kind.TEXT
        self._compare: Comparison = _compare_texts_as_doubles if both_text else _comparison(left.kind, right.kind)
        self.depth = 1 + max(left.depth, right.depth)

    def evaluate(self, properties: Properties) -> Truth:
        left = self._left.evaluate(properties)
        if left is None:
            return None
        right = self._right.evaluate(properties)
        if right is None:
            return None
        return self._holds(self._compare(left, right), 0)


class In:
    """``[NOT] IN``: unknown for a missing property in either form."""

    __slots__ = ("_is_in", "_name", "_texts")
    kind = Kind.BOOLEAN
    depth = 2

    def __init__(self, of: Property, texts: Sequence[str], *, negated: bool) -> None:
        self._name = of.name
        self._texts = frozenset(texts)
        self._is_in = not negated

    def evaluate(self, properties: Properties) -> Truth:
        value = properties.get(self._name)
        return None if value is None else (value in self._texts) is self._is_in


class TextMatch:
    """``[NOT] CONTAINS``, ``STARTSWITH`` and ``ENDSWITH``: false, negated or not, without text on either side."""

    __slots__ = ("_is_match", "_matches", "_operand", "_search", "depth")
    kind = Kind.BOOLEAN

    def __init__(self, operand: Operand, search: str, matches: Callable[[str, str], bool], *, negated: bool) -> None:
        self._operand = operand
        self._search = search
        self._matches = matches
        self._is_match = not negated
        self.depth = operand.depth + 1

    def evaluate(self, properties: Properties) -> Truth:
        value = self._operand.evaluate(properties)
        if not self._search or not isinstance(value, str):
            return False
        return self._matches(value, self._search) is self._is_match


# CPython searches texts of at least this length in time linear to it; in shorter ones it may compare the whole search
# at each place, so a text and a search made for that multiply their lengths.
_LINEAR_LENGTH = 30_000
_PRODUCT_MAX = 1 << 16


def _contains(text: str, search: str) -> bool:
    size = len(text)
    if size >= _LINEAR_LENGTH or size * len(search) <= _PRODUCT_MAX:
        return search in text
    at = text.ljust(_LINEAR_LENGTH).find(search)  # the first place is before any that reaches into the blanks
    return 0 <= at <= size - len(search)


ORDER_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TEXT_MATCHES: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": _contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def compare_numbers(left: Literal, right: Literal) -> int:
    """Order of two number literals."""
    return _comparison(left.kind, right.kind)(left.value, right.value)


def _comparison(left: Kind, right: Kind) -> Comparison:
    """How values of these kinds compare: below, at or above 0, and -1 for what cannot be compared."""
    if left is Kind.TEXT and right is Kind.TEXT:
        return _compare
    if left is Kind.TEXT and right in _READERS:
        return _converting_left(_READERS[right], _comparison(right, right))
    if right is Kind.TEXT and left in NUMBERS:
        return _converting_right(_READERS[left], _comparison(left, left))
    if right is Kind.TEXT and left is Kind.BOOLEAN:
        return _fail
    if left in NUMBERS and right in NUMBERS:
        return _compare_as_doubles if Kind.DOUBLE in (left, right) else _compare
    if left is Kind.BOOLEAN and right is Kind.BOOLEAN:
        return _compare
    return _incomparable


_READERS: Mapping[Kind, Callable[[str], Value]] = {
    Kind.INTEGER: read_integer,
    Kind.LONG: read_long,
    Kind.DOUBLE: read_double,
    Kind.BOOLEAN: read_boolean,
}


def _converting_left(read: Callable[[str], Value], compare: Comparison) -> Comparison:
    return lambda left, right: compare(read(left), right)


def _converting_right(read: Callable[[str], Value], compare: Comparison) -> Comparison:
    return lambda left, right: compare(left, read(right))


def _compare(left: int, right: int) -> int:
    return (left > right) - (left < right)


def _compare_as_doubles(left: float, right: float) -> int:
    return compare_doubles(float(left), float(right))


def _compare_texts_as_doubles(left: str, right: str) -> int:
    return compare_doubles(read_double(left), read_double(right))


def _incomparable(left: Value, right: Value) -> int:
    return -1


def _fail(left: Value, right: Value) -> int:
    raise ValueError("a boolean on the left of text")

"""MessageFilter: one subscription's choice of messages, asked in two steps.

``matches_unit`` looks at the tag code of a queue unit, which costs nothing; ``matches`` looks at the properties of the
record, which must be read and parsed for it, and is asked only where ``needs_properties`` says so. A tag filter decides
by the hash alone, as every RocketMQ broker does: the client compares the tags themselves and drops a collision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from flaremq.broker.filter.expression import Condition
from flaremq.broker.filter.sql import parse_weighed
from flaremq.broker.filter.syntax_error import FilterSyntaxError
from flaremq.errors import InvalidArgumentError
from flaremq.message.java_hash import java_hash
from flaremq.message.tags import SQL92, TAG, split_tags

EXPRESSION_BYTES_MAX: Final = 2048


class MessageFilter(Protocol):
    """Immutable, so one filter may serve any number of pulls at once."""

    @property
    def needs_properties(self) -> bool:
        """A unit that matches is not enough: ask ``matches`` as well."""

    @property
    def codes(self) -> tuple[int, ...] | None:
        """The tag codes that match, as Java ints, for those who look at many units at once; None: any may."""

    @property
    def comparisons(self) -> int:
        """How many comparisons ``matches`` makes for a message at most."""

    def matches_unit(self, tags_code: int) -> bool:
        """Whether a message with this tag code in its queue unit may match."""

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties matches."""


def compile_filter(
    expression_type: str | None, expression: str | None, *, bytes_max: int = EXPRESSION_BYTES_MAX
) -> MessageFilter:
    """The filter of a subscription; a missing or empty type means TAG. Raises FilterSyntaxError."""
    text = expression or ""
    if len(text) > bytes_max or len(text.encode("utf-8", "replace")) > bytes_max:
        raise FilterSyntaxError(f"more than {bytes_max} bytes", text)
    return _compile(expression_type or TAG, text)


# Some clients send their expression with every pull: the same few texts again and again.
@lru_cache(maxsize=1024)
def _compile(expression_type: str, expression: str) -> MessageFilter:
    if expression_type == TAG:
        try:
            tags = split_tags(expression)
        except InvalidArgumentError:
            raise FilterSyntaxError("no tag in it", expression) from None
        return _TagFilter(tags) if tags else EVERYTHING
    if expression_type != SQL92:
        raise FilterSyntaxError(f"its type {expression_type[:32]!r} is neither TAG nor SQL92", expression)
    if not expression.strip():
        raise FilterSyntaxError("a property filter needs an expression", expression)
    return _PropertyFilter(*parse_weighed(expression))


class _Everything:
    """No choice at all."""

    __slots__ = ()
    needs_properties = False
    codes = None
    comparisons = 0

    def matches_unit(self, tags_code: int) -> bool:
        return True

    def matches(self, properties: Mapping[str, str]) -> bool:
        return True


EVERYTHING: Final = _Everything()


class _TagFilter:
    """Messages with one of several tags: ``A || B``."""

    __slots__ = ("_codes", "_tags", "codes")
    needs_properties = False
    comparisons = 1

    def __init__(self, tags: Sequence[str]) -> None:
        self._tags = frozenset(tags)
        self.codes: tuple[int, ...] | None = tuple(sorted(map(java_hash, self._tags)))
        self._codes = frozenset(code & 0xFFFFFFFF for code in self.codes)

    def matches_unit(self, tags_code: int) -> bool:
        return tags_code & 0xFFFFFFFF in self._codes

    def matches(self, properties: Mapping[str, str]) -> bool:
        return properties.get("TAGS") in self._tags


class _PropertyFilter:
    """Messages whose properties make a condition true."""

    __slots__ = ("_condition", "comparisons")
    needs_properties = True
    codes = None

    def __init__(self, condition: Condition, comparisons: int) -> None:
        self._condition = condition
        self.comparisons = comparisons

    def matches_unit(self, tags_code: int) -> bool:
        return True

    def matches(self, properties: Mapping[str, str]) -> bool:
        try:
            return self._condition.evaluate(properties) is True
        except ValueError:  # a property that is no number where one is needed
            return False

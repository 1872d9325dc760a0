"""Tag expressions: ``A || B``, read as RocketMQ's FilterAPI reads them.

Nothing and a bare ``*`` mean all messages. Anything else is tags separated by ``||``, blanks around each dropped and
empty ones skipped: a star with blanks around it, or ``* || A``, names a tag that is a star. One difference on purpose:
an expression of separators and blanks alone is refused; RocketMQ refuses some of them and lets others match nothing.
"""

from __future__ import annotations

from typing import Final

from flaremq.errors import InvalidArgumentError

TAG: Final = "TAG"  # the types of filter expressions
SQL92: Final = "SQL92"

ALL_TAGS: Final = "*"
SEPARATOR: Final = "||"
_BLANK: Final = "".join(map(chr, range(33)))  # what Java's trim takes off
_SHOWN_MAX: Final = 64


def split_tags(expression: str | None) -> tuple[str, ...]:
    """The tags of an expression, each once, in their order; none means all messages, tagged or not."""
    if not expression or expression == ALL_TAGS:
        return ()
    tags = tuple(dict.fromkeys(tag for part in expression.split(SEPARATOR) if (tag := part.strip(_BLANK))))
    if not tags:
        raise InvalidArgumentError(f"the tag expression {expression[:_SHOWN_MAX]!r} names no tag")
    return tags

"""FilterSyntaxError: a subscription's expression cannot be used."""

from __future__ import annotations

from typing import ClassVar

from flaremq.errors import InvalidArgumentError
from flaremq.protocol.codes import ResponseCode

_SHOWN_MAX = 80  # characters of an expression that a message repeats


class FilterSyntaxError(InvalidArgumentError):
    """The expression does not parse, contradicts itself, or is too large. Its reply is SUBSCRIPTION_PARSE_FAILED."""

    code: ClassVar[int] = ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def __init__(self, reason: str, expression: str, position: int | None = None) -> None:
        shown = expression if len(expression) <= _SHOWN_MAX else expression[:_SHOWN_MAX] + "…"
        place = "" if position is None else f" at character {position + 1}"
        super().__init__(f"the filter {shown!r} is not usable: {reason}{place}")

"""One pull on its way: what it asks for, and the filter that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from flaremq.broker.filter.message_filter import compile_filter
from flaremq.broker.filter.subscription import check_size
from flaremq.broker.filter.syntax_error import FilterSyntaxError
from flaremq.broker.filter.work import FilterWork
from flaremq.broker.long_polling.waiting_room import WaitingRequest
from flaremq.broker.options import BrokerOptions
from flaremq.message.tags import TAG
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.storage.status import GetMessageStatus

_Status = GetMessageStatus
_CODES: Mapping[GetMessageStatus, ResponseCode] = {
    _Status.FOUND: ResponseCode.SUCCESS,
    _Status.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    _Status.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    _Status.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    _Status.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    _Status.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    _Status.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def pull_code(status: GetMessageStatus, offset: int) -> ResponseCode:
    """How a pull from an offset is answered."""
    code = _CODES.get(status)
    if code is not None:
        return code
    # No queue yet, or an empty one: the beginning is right, everything else is not.
    return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED


@dataclass(slots=True, eq=False)
class PullFilter:
    """What a subscription wants of a queue, in the form the store takes: tag hashes, or a look at the properties."""

    codes: Sequence[int] | None
    matches: Callable[[Mapping[str, str]], bool] | None
    comparisons: int = 0  # that ``matches`` makes for a message

    def work(self) -> FilterWork | None:
        """What one pull may ask about properties; None if it asks nothing. Not for the event loop."""
        return None if self.matches is None else FilterWork(self.matches, self.comparisons)


EVERYTHING = PullFilter(None, None)
_ANY_LENGTH = 1 << 31


@lru_cache(maxsize=1024)
def wanted_by(expression_type: str | None, expression: str | None) -> PullFilter:
    """The filter of an expression, whose length was checked before; raises FilterSyntaxError if it is none."""
    chosen = compile_filter(expression_type, expression, bytes_max=_ANY_LENGTH)
    if chosen.needs_properties:
        return PullFilter(None, chosen.matches, chosen.comparisons)
    return EVERYTHING if chosen.codes is None else PullFilter(chosen.codes, None)


def check_filter_allowed(options: BrokerOptions, expression_type: str | None) -> None:
    """RequestError for a filter over properties where they are off; RocketMQ's sentence, and what to do about it."""
    if (expression_type or TAG) != TAG and not options.enable_property_filter:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {str(expression_type)[:32]}: "
            "enablePropertyFilter is off; set enablePropertyFilter=true in the broker's configuration",
        )


def checked_wanted(options: BrokerOptions, expression_type: str | None, expression: str | None) -> PullFilter:
    """The filter of an expression as a request brings it; RequestError if it is none, too long or not allowed."""
    check_filter_allowed(options, expression_type)
    if expression is not None:
        check_size(expression, options.filter_expression_bytes_max)  # before anything of it is parsed, or kept
    try:
        return wanted_by(expression_type, expression)
    except FilterSyntaxError as error:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from None


@dataclass(slots=True, eq=False)
class HeldPull(WaitingRequest):
    """A pull that waits for messages. ``offset`` moves on over messages its filter does not want."""

    offset: int
    max_count: int
    max_bytes: int
    wanted: PullFilter
    sent_bytes: int = 0  # of its answer
    is_late: bool = False  # its time is over, but its client does not read
    is_busy: bool = False  # its property filter is asked, on another thread
    is_wanted: bool = False  # something arrived that it was not asked about

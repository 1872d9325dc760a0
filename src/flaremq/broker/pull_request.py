"""One pull on its way: what it asks for, and the filter that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from flaremq.broker.filter import FilterSyntaxError, compile_filter
from flaremq.broker.options import BrokerOptions
from flaremq.broker.subscription import TAG, check_size, parse_tags
from flaremq.message.java_hash import java_hash
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.connection import Connection


class Wanted:
    """What a subscription wants of a queue, in the form the store takes: tag hashes, or a look at the properties."""

    __slots__ = ("codes", "matches")

    def __init__(self, codes: Sequence[int] | None, matches: Callable[[Mapping[str, str]], bool] | None) -> None:
        self.codes = codes
        self.matches = matches


EVERYTHING = Wanted(None, None)


@lru_cache(maxsize=1024)
def wanted_by(expression_type: str | None, expression: str | None) -> Wanted:
    """The filter of an expression; raises FilterSyntaxError or RequestError (23) if it is none."""
    if (expression_type or TAG) == TAG:
        tags = parse_tags(expression)
        return Wanted([java_hash(tag) for tag in tags], None) if tags else EVERYTHING
    return Wanted(None, compile_filter(expression_type, expression).matches)


def checked_wanted(options: BrokerOptions, expression_type: str | None, expression: str | None) -> Wanted:
    """The filter of an expression as a request brings it; RequestError if it is none, too long or not allowed."""
    if (expression_type or TAG) != TAG and not options.enable_property_filter:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {str(expression_type)[:32]}: "
            "enablePropertyFilter is off",
        )
    if expression is not None:
        check_size(expression, options.filter_expression_bytes_max)  # before anything of it is parsed, or kept
    try:
        return wanted_by(expression_type, expression)
    except FilterSyntaxError as error:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}"
        ) from None


class HeldPull:
    """A pull that waits for messages. ``offset`` moves on over messages its filter does not want."""

    __slots__ = (
        "connection",
        "group",
        "is_late",
        "is_over",
        "max_bytes",
        "max_count",
        "offset",
        "queue_id",
        "request",
        "sent_bytes",
        "topic",
        "wanted",
    )

    def __init__(
        self,
        connection: Connection,
        request: RemotingCommand,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        wanted: Wanted,
    ) -> None:
        self.connection = connection
        self.request = request
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset
        self.max_count = max_count
        self.max_bytes = max_bytes
        self.wanted = wanted
        self.sent_bytes = 0  # of its answer
        self.is_late = False  # its time is over, but its client does not read
        self.is_over = False

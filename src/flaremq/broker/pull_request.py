"""One pull on its way: what it asks for, and the filter that goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from flaremq.broker.filter import compile_filter
from flaremq.broker.subscription import TAG, parse_tags
from flaremq.message.java_hash import java_hash
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection


class Wanted:
    """What a subscription wants of a queue, in the form the store takes: tag hashes, or a look at the properties."""

    __slots__ = ("codes", "matches")

    def __init__(self, codes: Sequence[int] | None, matches: Callable[[Mapping[str, str]], bool] | None) -> None:
        self.codes = codes
        self.matches = matches


EVERYTHING = Wanted(None, None)


@lru_cache(maxsize=4096)
def wanted_by(expression_type: str | None, expression: str | None) -> Wanted:
    """The filter of an expression; raises FilterSyntaxError or RequestError (23) if it is none."""
    if (expression_type or TAG) == TAG:
        tags = parse_tags(expression)
        return Wanted([java_hash(tag) for tag in tags], None) if tags else EVERYTHING
    return Wanted(None, compile_filter(expression_type, expression).matches)


class HeldPull:
    """A pull that waits for messages. ``offset`` moves on over messages its filter does not want."""

    __slots__ = (
        "connection",
        "group",
        "is_over",
        "max_bytes",
        "max_count",
        "offset",
        "queue_id",
        "request",
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
        self.is_over = False

"""What a read by queue offset answers, and the tag filter it takes."""

from __future__ import annotations

from collections.abc import Sequence

from flaremq.message.java_hash import tags_code
from flaremq.message.message_ext import MessageExt
from flaremq.message.tags import split_tags
from flaremq.storage.dispatch.record_views import inner_count
from flaremq.storage.status import GetMessageStatus


class GetResult:
    """What a read by queue offset found."""

    __slots__ = ("bytes", "max_offset", "messages", "min_offset", "next_offset", "status", "suggest_slave")

    def __init__(
        self,
        status: GetMessageStatus,
        next_offset: int,
        min_offset: int,
        max_offset: int,
        messages: Sequence[MessageExt] = (),
        size: int = 0,
        suggest_slave: bool = False,
    ) -> None:
        self.status = status
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.messages = list(messages)
        self.bytes = size
        self.suggest_slave = suggest_slave

    @property
    def message_count(self) -> int:
        """Messages found; an inner batch counts as many."""
        return sum(inner_count(message.properties) if message.is_inner_batch else 1 for message in self.messages)

    def __repr__(self) -> str:
        return (
            f"GetResult({self.status.name}, {len(self.messages)} messages, next_offset={self.next_offset}, "
            f"range=[{self.min_offset}, {self.max_offset}))"
        )


def parse_tags(expression: str | None) -> dict[int, set[str]] | None:
    """Tag hash -> tags of an expression such as ``A || B``; None for "everything"."""
    wanted: dict[int, set[str]] = {}
    for tag in split_tags(expression):
        wanted.setdefault(tags_code(tag) & 0xFFFFFFFF, set()).add(tag)
    return wanted or None


def tag_matches(message: MessageExt, wanted: dict[int, set[str]]) -> bool:
    """Whether the record's own tag is among the wanted ones."""
    tags = message.tags
    return tags is not None and tags in wanted.get(tags_code(tags) & 0xFFFFFFFF, ())

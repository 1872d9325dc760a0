"""What a consumer wants of a topic: by tags, or by an SQL expression over the properties.

Brokers compare hashes of tags; the exact comparison is the consumer's, so that a collision of hashes delivers nothing
it did not ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.client.arguments import check_topic
from flaremq.errors import InvalidArgumentError
from flaremq.message.java_hash import java_hash
from flaremq.message.tags import ALL_TAGS, SQL92, split_tags
from flaremq.protocol.bodies.client import SubscriptionData

# A comparison with a number or a quoted text, or one of SQL92's words between blanks.
_SQL_LIKE: Final = re.compile(
    r"(?:<>|<=|>=|[=<>])\s*(?:[-+]?[0-9.]|')|\s(?:and|or|is|in|not|between|like|contains)[\s(]|\s(?:<>|<=|>=|[=<>])\s",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """An SQL92 expression over the properties, such as ``amount > 10 AND region = 'eu'``.

    Brokers evaluate it if ``enablePropertyFilter`` is on.
    """

    expression: str


Expression = str | SqlFilter
Subscription = Mapping[str, Expression] | Sequence[str] | str


def parse_subscription(subscribe: Subscription | None) -> dict[str, Expression]:
    """Expressions by topic; a topic alone means all of its messages."""
    if subscribe is None:
        return {}
    if isinstance(subscribe, str):
        subscribe = {subscribe: ALL_TAGS}
    elif not isinstance(subscribe, Mapping | Iterable):
        raise InvalidArgumentError(f"subscriptions are topics, or filters by topic, not {subscribe!r}")
    elif not isinstance(subscribe, Mapping):
        subscribe = dict.fromkeys(subscribe, ALL_TAGS)
    for topic, expression in subscribe.items():
        check_topic(topic)
        if isinstance(expression, str):
            check_tags(topic, expression)
        elif not isinstance(expression, SqlFilter):
            raise InvalidArgumentError(f"the filter of {topic!r} is a list of tags or an SqlFilter, not {expression!r}")
    return dict(subscribe)


def check_tags(topic: str, expression: str) -> None:
    """InvalidArgumentError for tags that nobody means: an SQL condition would be taken as the name of a tag."""
    for tag in split_tags(expression):
        if _SQL_LIKE.search(tag):
            raise InvalidArgumentError(
                f"the filter {expression!r} of topic {topic!r} looks like SQL, but text is a list of tags (a || b): "
                f"write SqlFilter({expression!r}) for a condition on properties"
            )


def subscription_data(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """The subscription as a broker wants it; tags are separated by ``||``."""
    if isinstance(expression, SqlFilter):
        if not expression.expression.strip():
            raise InvalidArgumentError(f"the SQL filter of topic {topic!r} is empty")
        return SubscriptionData(
            topic=topic, sub_string=expression.expression, expression_type=SQL92, sub_version=version
        )
    tags = frozenset(split_tags(expression))
    return SubscriptionData(
        topic=topic,
        sub_string=expression if tags else ALL_TAGS,
        tags_set=tags,
        code_set=frozenset(java_hash(tag) for tag in tags),
        sub_version=version,
    )

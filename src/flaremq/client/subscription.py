"""What a consumer wants of a topic: by tags, or by an SQL expression over the properties.

Brokers compare hashes of tags; the exact comparison is the consumer's, so that a collision of hashes delivers nothing
it did not ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.errors import InvalidArgumentError
from flaremq.message.java_hash import java_hash
from flaremq.message.tags import ALL_TAGS, split_tags
from flaremq.message.topics import validate_topic
from flaremq.protocol.bodies import SubscriptionData

EVERYTHING: Final = ALL_TAGS
TAG: Final = "TAG"
SQL92: Final = "SQL92"


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
        subscribe = {subscribe: EVERYTHING}
    elif not isinstance(subscribe, Mapping):
        subscribe = dict.fromkeys(subscribe, EVERYTHING)
    for topic in subscribe:
        validate_topic(topic)
    return dict(subscribe)


def subscription_data(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """The subscription as a broker wants it; tags are separated by ``||``."""
    if isinstance(expression, SqlFilter):
        if not expression.expression.strip():
            raise InvalidArgumentError(f"the SQL filter of topic {topic!r} is empty")
        return SubscriptionData(
            topic=topic, sub_string=expression.expression, expression_type=SQL92, sub_version=version
        )
    tags = tags_of(expression)
    return SubscriptionData(
        topic=topic,
        sub_string=expression if tags else EVERYTHING,
        tags_set=tags,
        code_set=frozenset(java_hash(tag) for tag in tags),
        sub_version=version,
    )


def tags_of(expression: str) -> frozenset[str]:
    """The tags of an expression; none means all messages."""
    return frozenset(split_tags(expression))

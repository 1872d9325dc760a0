"""Filter expressions of subscriptions: what a group wants of a topic.

For tags the broker compares hashes from the queue, so the hashes must be right whoever computed them: they are made
here from the expression, never taken from a client. SQL92 expressions are only carried; compiling is the filter's.
"""

from __future__ import annotations

from dataclasses import replace

from flaremq.errors import InvalidArgumentError
from flaremq.message.java_hash import java_hash
from flaremq.message.tags import ALL_TAGS, TAG, split_tags
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError

EXPRESSION_BYTES_MAX = 2048


def build_subscription(
    topic: str,
    expression: str | None,
    expression_type: str | None = TAG,
    sub_version: int = 0,
    *,
    bytes_max: int = EXPRESSION_BYTES_MAX,
) -> SubscriptionData:
    """The subscription an expression means; RequestError (23) if it means none."""
    if expression is not None:
        check_size(expression, bytes_max)
    if (expression_type or TAG) == TAG:
        try:
            tags = split_tags(expression)
        except InvalidArgumentError as error:
            raise _bad(str(error)) from None
        return SubscriptionData(
            topic=topic,
            sub_string=expression or ALL_TAGS,
            expression_type=TAG,
            tags_set=frozenset(tags),
            code_set=frozenset(map(java_hash, tags)),
            sub_version=sub_version,
        )
    if not expression:
        raise _bad("an expression of another kind than TAG cannot be empty")
    return SubscriptionData(
        topic=topic, sub_string=expression, expression_type=expression_type or TAG, sub_version=sub_version
    )


def checked_subscription(data: SubscriptionData, *, bytes_max: int = EXPRESSION_BYTES_MAX) -> SubscriptionData:
    """A subscription of a heartbeat, with the hashes that belong to its expression."""
    built = build_subscription(data.topic, data.sub_string, data.expression_type, data.sub_version, bytes_max=bytes_max)
    return replace(built, class_filter_mode=data.class_filter_mode)


def check_size(expression: str, bytes_max: int) -> None:
    """RequestError (23) for an expression that is too long to be looked at."""
    size = len(expression.encode("utf-8", "surrogatepass"))
    if size > bytes_max:
        raise _bad(f"the expression has {size} bytes, at most {bytes_max} are allowed")


def _bad(sentence: str) -> RequestError:
    return RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {sentence}")

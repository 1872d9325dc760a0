"""Filter expressions of subscriptions."""

from __future__ import annotations

import pytest

from flaremq.broker.filter.subscription import build_subscription, checked_subscription
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_everything(expression: str | None) -> None:
    data = build_subscription("T", expression, sub_version=3)
    assert data == SubscriptionData(topic="T", sub_string="*", expression_type="TAG", sub_version=3)
    assert not data.tags_set and not data.code_set


@pytest.mark.parametrize(
    ("expression", "codes"),
    [
        ("TagA", {"TagA": 2598919}),
        ("TagA || TagB", {"TagA": 2598919, "TagB": 2598920}),
        (" TagA||TagB ||", {"TagA": 2598919, "TagB": 2598920}),
        ("null", {"null": 3392903}),
        ("polygenelubricants", {"polygenelubricants": -2147483648}),
        ("标签", {"标签": 857175}),
        ("|", {"|": 124}),
        ("a|b", {"a|b": 98 + 31 * (124 + 31 * 97)}),
    ],
)
def test_tags_are_split_trimmed_and_hashed_as_java_does(expression: str, codes: dict[str, int]) -> None:
    data = build_subscription("T", expression, None)
    assert data.tags_set == set(codes) and data.code_set == set(codes.values())
    assert data.sub_string == expression and data.is_tag_type


@pytest.mark.parametrize("expression", ["||", "||||", " || "])
def test_separators_alone_are_no_expression(expression: str) -> None:
    with pytest.raises(RequestError) as caught:
        build_subscription("T", expression)
    assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_sql_is_carried_unread() -> None:
    data = build_subscription("T", "a > 1", "SQL92", 7)
    assert (data.sub_string, data.expression_type, data.code_set) == ("a > 1", "SQL92", frozenset())
    assert not data.is_tag_type


@pytest.mark.parametrize("expression", [None, ""])
def test_empty_sql_is_refused(expression: str | None) -> None:
    with pytest.raises(RequestError) as caught:
        build_subscription("T", expression, "SQL92")
    assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_expression_of_too_many_bytes_is_refused(kind: str) -> None:
    build_subscription("T", "ü" * 1024, kind)
    with pytest.raises(RequestError, match="2049 bytes") as caught:
        build_subscription("T", "ü" * 1024 + "x", kind)
    assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_hashes_of_a_client_are_replaced_by_the_right_ones() -> None:
    sent = SubscriptionData(
        topic="T", sub_string="TagA", tags_set=frozenset({"TagA"}), code_set=frozenset({1}), sub_version=9
    )
    assert checked_subscription(sent) == build_subscription("T", "TagA", "TAG", 9)

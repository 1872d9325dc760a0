"""Subscriptions as brokers want them."""

from __future__ import annotations

import pytest

from flaremq.client.consumer.subscription import SqlFilter, parse_subscription, subscription_data
from flaremq.errors import InvalidArgumentError


@pytest.mark.parametrize("expression", ["*", ""])
def test_star_and_nothing_mean_everything(expression: str) -> None:
    data = subscription_data("T", expression, 1)
    assert (data.sub_string, data.tags_set, data.code_set, data.expression_type) == (
        "*",
        frozenset(),
        frozenset(),
        "TAG",
    )


def test_tags_are_split_trimmed_and_hashed_as_in_java() -> None:
    data = subscription_data("T", " TagA ||TagB|| || 标签", 7)
    assert data.tags_set == {"TagA", "TagB", "标签"}
    assert data.code_set == {2598919, 2598920, 857175}
    assert (data.sub_version, data.topic) == (7, "T")


def test_expression_without_a_tag_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="names no tag"):
        subscription_data("T", "||", 1)


def test_sql_goes_to_the_broker_as_it_is() -> None:
    data = subscription_data("T", SqlFilter("a > 1"), 1)
    assert (data.sub_string, data.expression_type, data.tags_set) == ("a > 1", "SQL92", frozenset())
    with pytest.raises(InvalidArgumentError, match="is empty"):
        subscription_data("T", SqlFilter(" "), 1)


def test_topics_may_be_given_as_one_as_several_and_with_expressions() -> None:
    assert parse_subscription(None) == {}
    assert parse_subscription("T") == {"T": "*"}
    assert parse_subscription(["T", "U"]) == {"T": "*", "U": "*"}
    assert parse_subscription({"T": "a"}) == {"T": "a"}
    with pytest.raises(InvalidArgumentError, match="not legal"):
        parse_subscription({"no spaces": "a"})


@pytest.mark.parametrize(
    "expression", ["a > 5", "a>5", "a = 'x'", "a BETWEEN 1 AND 3", "paid || a <> 3", "a is not null", "x in ('a')"]
)
def test_condition_given_as_tags_is_refused_with_the_way_to_say_it(expression: str) -> None:
    with pytest.raises(InvalidArgumentError, match="SqlFilter"):
        parse_subscription({"T": expression})


@pytest.mark.parametrize("expression", ["paid || shipped", "k=v", "in", "and more", "订单", "a-b.c", "<new>", "*", ""])
def test_unusual_tags_are_tags(expression: str) -> None:
    assert parse_subscription({"T": expression}) == {"T": expression}

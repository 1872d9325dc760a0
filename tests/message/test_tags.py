"""Tag expressions: the one reading of them that broker, store and client share."""

from __future__ import annotations

import pytest

from flaremq.broker.filter.message_filter import compile_filter
from flaremq.broker.filter.subscription import build_subscription
from flaremq.broker.long_polling.pull_request import EVERYTHING, wanted_by
from flaremq.client.consumer.subscription import subscription_data
from flaremq.errors import InvalidArgumentError
from flaremq.message.java_hash import java_hash
from flaremq.message.tags import split_tags
from flaremq.storage.get.get_result import parse_tags


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_nothing_and_a_bare_star_mean_all_messages(expression: str | None) -> None:
    assert split_tags(expression) == ()


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("A", ("A",)),
        ("A||B", ("A", "B")),
        (" A || B ||", ("A", "B")),
        ("A||A", ("A",)),
        (" * ", ("*",)),  # FilterAPI compares with "*" before it trims
        ("*||A", ("*", "A")),
        ("A|B", ("A|B",)),
        ("A|||B", ("A", "|B")),
        ("\x01A\x1f", ("A",)),  # Java's trim takes off everything up to the blank
        ("\u3000A\xa0", ("\u3000A\xa0",)),  # and nothing else
    ],
)
def test_tags_are_split_and_trimmed_as_filter_api_does(expression: str, tags: tuple[str, ...]) -> None:
    assert split_tags(expression) == tags


@pytest.mark.parametrize("expression", ["||", " ", " || ", "||||"])
def test_expression_that_names_no_tag_is_refused(expression: str) -> None:
    with pytest.raises(InvalidArgumentError, match="names no tag"):
        split_tags(expression)


@pytest.mark.parametrize("expression", ["*", "", " * ", "* || A", "A|||B", "\u3000A", " A||B "])
def test_broker_store_and_client_read_an_expression_alike(expression: str) -> None:
    tags = frozenset(split_tags(expression))
    codes = frozenset(map(java_hash, tags))
    built = build_subscription("T", expression)
    assert (built.tags_set, built.code_set) == (tags, codes)
    assert frozenset(compile_filter("TAG", expression).codes or ()) == codes
    assert frozenset(wanted_by("TAG", expression).codes or ()) == codes
    assert (wanted_by("TAG", expression) is EVERYTHING) == (not tags)
    assert frozenset().union(*(parse_tags(expression) or {}).values()) == tags
    assert subscription_data("T", expression, 0).tags_set == tags

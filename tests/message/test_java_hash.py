from __future__ import annotations

import pytest

from flaremq.message.java_hash import (
    continue_hash,
    fold_index_hash,
    index_hash,
    java_hash,
    tags_code,
    topic_prefix_hash,
)


def hash_by_definition(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for at in range(0, len(units), 2):
        h = (31 * h + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("订单", 1129459),
        ("\U0001f600", 1772899),
        ("TopicTest#key1", -1655984460),
        ("polygenelubricants", -2147483648),
    ],
)
def test_known_strings_hash_as_in_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7, 8, 63, 64, 65, 127, 128, 129, 1000, 5000])
@pytest.mark.parametrize("character", ["a", "~", "\x00", "\x7f", "é", "订", "\U0001f600", "\ud800"])
def test_every_length_and_alphabet_follows_the_definition(size: int, character: str) -> None:
    text = character * size + "x1"
    assert java_hash(text) == hash_by_definition(text)


@pytest.mark.parametrize(
    ("prefix", "text"),
    [("", "key"), ("topic#", ""), ("topic#", "k"), ("topic#", "键" * 40), ("题#", "y" * 200)],
)
def test_hash_continues_from_the_hash_of_a_prefix(prefix: str, text: str) -> None:
    assert continue_hash(java_hash(prefix), text) == hash_by_definition(prefix + text)


def test_index_hash_is_the_absolute_value_over_topic_and_key() -> None:
    assert index_hash("TopicTest", "key1") == 1655984460
    assert index_hash("TopicTest", "key1") % 5_000_000 == 984460


def test_index_hash_without_a_positive_counterpart_becomes_zero() -> None:
    assert fold_index_hash(java_hash("polygenelubricants")) == 0
    assert fold_index_hash(-1) == 1
    assert fold_index_hash(5) == 5


def test_tags_code_of_no_tag_is_zero() -> None:
    assert tags_code("") == 0
    assert tags_code("TagA") == 2598919


def test_topic_prefix_hash_includes_the_separator() -> None:
    assert topic_prefix_hash("TopicTest") == hash_by_definition("TopicTest#")

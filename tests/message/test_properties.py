from __future__ import annotations

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.properties import (
    edit_properties,
    encode_properties,
    find_property,
    join_properties,
    parse_properties,
    strip_unstored,
)


def test_encoding_keeps_the_final_separator() -> None:
    assert encode_properties({"a": "1", "b": "2"}) == b"a\x011\x02b\x012\x02"


def test_no_properties_are_no_bytes() -> None:
    assert encode_properties({}) == b""
    assert parse_properties(b"") == {}


@pytest.mark.parametrize("data", [b"a\x011\x02b\x012\x02", b"a\x011\x02b\x012"])
def test_parsing_takes_both_endings(data: bytes) -> None:
    assert parse_properties(data) == {"a": "1", "b": "2"}


def test_pieces_without_key_or_value_are_dropped() -> None:
    assert parse_properties(b"\x01v\x02k\x01\x02alone\x02\x02ok\x011\x02") == {"ok": "1"}


def test_last_duplicate_wins() -> None:
    assert parse_properties(b"WAIT\x01true\x02x\x011\x02WAIT\x01false\x02") == {"WAIT": "false", "x": "1"}


def test_only_the_first_separator_splits_a_piece() -> None:
    assert parse_properties(b"k\x01a\x01b\x02") == {"k": "a\x01b"}


def test_invalid_utf8_becomes_the_replacement_character() -> None:
    assert parse_properties(b"k\x01a\xffb\x02") == {"k": "a�b"}
    assert parse_properties(b"k\x01a\xe8\x02l\x01c\x02") == {"k": "a�", "l": "c"}


def test_parsing_takes_a_view() -> None:
    assert parse_properties(memoryview(b"k\x01v\x02")) == {"k": "v"}


@pytest.mark.parametrize(
    "properties",
    [
        {"a\x01": "1"},
        {"a": "1\x02"},
        {"\x02": "1"},
        {"a": "b\x01c"},
        {"": "1"},
        {"a": ""},
        {"ok": "1", "b": ""},
    ],
)
def test_what_cannot_be_read_back_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="property"):
        encode_properties(properties)


def test_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="surrogate"):
        encode_properties({"k": "\ud800"})


def test_value_that_is_no_string_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must be str"):
        encode_properties({"k": 5})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"TAGS\x01a\x02", b"a"),
        (b"TAGS\x01a", b"a"),
        (b"x\x011\x02TAGS\x01a\x02y\x012\x02", b"a"),
        (b"TAGS\x01a\x02TAGS\x01b\x02", b"b"),
        (b"TAGS\x01a\x02TAGS\x01\x02", b"a"),
        (b"MYTAGS\x01a\x02", None),
        (b"k\x01TAGS\x01a\x02", None),
        (b"", None),
        (b"TAGS", None),
    ],
)
def test_finding_one_property_agrees_with_parsing_all(data: bytes, expected: bytes | None) -> None:
    assert find_property(data, b"TAGS") == expected
    parsed = parse_properties(data).get("TAGS")
    assert parsed == (None if expected is None else expected.decode())


def test_joining_adds_a_missing_separator() -> None:
    assert join_properties(b"a\x011", b"b\x012\x02") == b"a\x011\x02b\x012\x02"
    assert join_properties(b"a\x011\x02", b"b\x012\x02") == b"a\x011\x02b\x012\x02"
    assert join_properties(b"", b"b\x012") == b"b\x012"
    assert join_properties(b"a\x011", b"") == b"a\x011"


def test_editing_leaves_other_properties_byte_for_byte() -> None:
    odd = b"k\x01a\x01b\x02bad\x01\xff\x02"
    assert edit_properties(odd + b"DELAY\x013", {"DELAY": None, "WAIT": "false"}) == odd + b"WAIT\x01false\x02"


def test_editing_replaces_every_duplicate() -> None:
    assert edit_properties(b"a\x011\x02b\x012\x02a\x013\x02", {"a": "9"}) == b"b\x012\x02a\x019\x02"


def test_editing_may_leave_nothing() -> None:
    assert edit_properties(b"a\x011\x02", {"a": None}) == b""
    assert edit_properties(b"", {}) == b""


def test_checksum_and_transient_properties_are_not_stored_again() -> None:
    data = b"a\x011\x02__RMQ.TRANSIENT.x\x01y\x02__CRC32#\x010780607090\x02"
    assert strip_unstored(data) == b"a\x011\x02"
    assert strip_unstored(b"__CRC32#\x010780607090\x02") == b""
    assert strip_unstored(b"a\x011") == b"a\x011"
    assert strip_unstored(b"note\x01see __CRC32#\x01 there\x02") == b"note\x01see __CRC32#\x01 there\x02"

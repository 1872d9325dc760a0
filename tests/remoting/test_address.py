"""Addresses as people write them."""

from __future__ import annotations

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.remoting.address import parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:1", ("h", 1)),
        (" 127.0.0.1:9876 ", ("127.0.0.1", 9876)),
        ("[::1]:9876", ("::1", 9876)),
        ("::1:2", ("::1", 2)),
    ],
)
def test_host_and_port_are_taken_apart(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["h", "h:", ":1", "h:65536", "h:-1", "http://127.0.0.1:9876", "a b:1", "h/x:1", ""])
def test_what_is_no_address_is_refused_before_anybody_is_asked(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not an address like"):
        parse_address(text)


def test_lists_are_told_apart_by_semicolons_or_commas() -> None:
    assert parse_addresses("a:1; b:2,c:3;") == ["a:1", "b:2", "c:3"]

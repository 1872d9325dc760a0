"""Address patterns of white lists: RocketMQ's, row by row."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.access.plain.address_patterns import parse_pattern, split_patterns
from flaremq.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("", "", "127.0.0.1 ::1 anything"),
        ("   ", "", "127.0.0.1 ::1"),
        ("*", "127.0.0.1 ::1 fe80::1", ""),
        ("*.*.*.*", "127.0.0.1 ::1", ""),
        ("*:*:*:*:*:*:*:*", "127.0.0.1 ::1", ""),
        ("10.0.0.{1,2}", "10.0.0.1 10.0.0.2", "10.0.0.3 10.0.0.12 10.0.1.1"),
        ("10.0.0.{ 1, 20}", "10.0.0.1 10.0.0.20", "10.0.0.2"),
        ("fe80::{1,a}", "fe80::1 fe80::A fe80:0:0:0:0:0:0:1", "fe80::2"),
        ("10.0.0.1,10.0.0.9", "10.0.0.1 10.0.0.9", "10.0.0.2"),
        ("10.0.0.1,fe80::1", "10.0.0.1 fe80:0000::0001", "fe80::2"),
        ("10.0.0.*", "10.0.0.0 10.0.0.255", "10.0.1.0 110.0.0.1"),
        ("10.0.*.*", "10.0.0.0 10.0.255.7", "10.1.0.0"),
        ("10.*.0.1", "10.0.0.0 10.7.8.9", "11.0.0.1"),
        ("10.0.0.5-20", "10.0.0.5 10.0.0.20", "10.0.0.4 10.0.0.21"),
        ("10.0.5-20.*", "10.0.5.0 10.0.20.255", "10.0.4.0"),
        ("10.1-5.0.9", "10.1.0.9 10.5.7.8", "10.0.0.9 10.6.0.9"),  # what is behind the range is not looked at
        ("10.0.0.0-0", "10.0.0.0", "10.0.0.1"),
        ("fe80::*", "fe80::1 fe80::ffff", "fe80::1:1 10.0.0.1"),
        ("fe80::1-2f", "fe80::1 fe80::2f", "fe80::30 fe80::0"),
        ("fe80::1-2f:*", "fe80::1:0 fe80::2f:ffff", "fe80::30:0"),
        ("1050:0:0:0:5:600:300C:*", "1050::5:600:300c:1", "1050::5:600:300d:1"),
        ("::*", "::1 ::ffff", "::1:1"),
        ("2001:db8:*", "2001:db8:1::1 2001:db8::", "2001:db9::1"),
        ("10.0.0.1", "10.0.0.1 ::ffff:10.0.0.1", "10.0.0.2 10.0.0.10"),
        ("FE80::1", "fe80::1 fe80:0:0::1 fe80::1%eth0", "fe80::2"),
    ],
)
def test_pattern_means_these_addresses_and_not_those(pattern: str, inside: str, outside: str) -> None:
    parsed = parse_pattern(pattern)
    assert [host for host in inside.split() if not parsed.matches(host)] == []
    assert [host for host in outside.split() if parsed.matches(host)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "localhost",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.1.2",
        "10.0.0.1:10911",
        "*.0.0.1",
        "10.*",
        "10.0.*x.1",
        "10.0.0.20-5",
        "10.0.0.-5",
        "10.0.0.5-",
        "10.0.0.1-256",
        "10.0.0.{1,256}",
        "10.0.0{1,2}",
        "10.0.{1,2}",
        "{1,2}",
        "10.0.0.{}",
        "10.0.0.1,",
        "10.0.0.*,10.0.0.1",
        "10.*.x.1",
        "10.0.0.a-f",
        "*:1::2",
        "fe80::*:1",
        "fe80::1::*",
        "fe80::1-10000",
        "1:2:3:4:5:6:7:8:*",
        "fe80::zz",
        "10.0.0.1/8",
        "10.0.0.1}",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="address pattern"):
        parse_pattern(pattern)


def test_only_a_pattern_for_everybody_means_who_has_no_address() -> None:
    assert parse_pattern("*").matches("unknown")
    assert not parse_pattern("10.0.0.*").matches("unknown")


@given(st.ip_addresses(), st.ip_addresses())
def test_one_address_means_itself_alone(one: ipaddress.IPv4Address, other: ipaddress.IPv4Address) -> None:
    assert parse_pattern(str(one)).matches(one.exploded)
    mapped = {getattr(address, "ipv4_mapped", None) or address for address in (one, other)}
    assert parse_pattern(str(one)).matches(str(other)) is (len(mapped) == 1)


@given(st.text(alphabet="0123456789abf.:*-{}, %", max_size=30))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        parse_pattern(text).matches("10.0.0.1")
    except InvalidArgumentError:
        pass


def test_commas_in_braces_join_nothing() -> None:
    assert split_patterns(" 10.0.0.{1,2}, 10.0.1.* ,,fe80::{1,2}") == ["10.0.0.{1,2}", "10.0.1.*", "fe80::{1,2}"]
    assert split_patterns("") == split_patterns(" , ") == []

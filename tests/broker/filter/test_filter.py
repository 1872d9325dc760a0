"""Filters of subscriptions: tag expressions, the SQL of property filters, its typing rules and its bounds."""

from __future__ import annotations

import pytest

from flaremq.broker.filter.message_filter import compile_filter
from flaremq.broker.filter.syntax_error import FilterSyntaxError
from flaremq.errors import InvalidArgumentError
from flaremq.message.java_hash import java_hash
from flaremq.protocol.codes import ResponseCode


def matches(expression: str, **properties: str) -> bool:
    return compile_filter("SQL92", expression).matches(properties)


# Tags


@pytest.mark.parametrize("expression_type", [None, "", "TAG"])
@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_tag_expression_takes_everything(expression_type: str | None, expression: str | None) -> None:
    everything = compile_filter(expression_type, expression)
    assert not everything.needs_properties
    assert everything.matches_unit(0)
    assert everything.matches({})
    assert everything.codes is None


def test_tag_filter_decides_by_the_hash_in_the_unit() -> None:
    tags = compile_filter("TAG", "TagA || TagB||")
    assert not tags.needs_properties
    assert tags.matches_unit(2598919) and tags.matches_unit(2598920)
    assert not tags.matches_unit(0)  # a message without a tag
    assert not tags.matches_unit(java_hash("TagC"))
    assert tags.codes == (2598919, 2598920)
    assert tags.matches({"TAGS": "TagA"}) and not tags.matches({"TAGS": "TagC"}) and not tags.matches({})


def test_negative_tag_code_matches_as_signed_and_sign_extended() -> None:
    tags = compile_filter("TAG", "polygenelubricants")
    assert tags.matches_unit(-(2**31))
    assert tags.matches_unit(2**31)  # the same 32 bits
    assert compile_filter("TAG", "TagSync").matches_unit(java_hash("TagSync"))


def test_tag_outside_the_basic_plane_hashes_as_java_does() -> None:
    assert compile_filter(None, "标签").matches_unit(857175)


@pytest.mark.parametrize("expression", ["||", " || ", "||||"])
def test_tag_expression_without_a_tag_is_refused(expression: str) -> None:
    with pytest.raises(FilterSyntaxError):
        compile_filter("TAG", expression)


def test_unknown_expression_type_is_refused() -> None:
    with pytest.raises(FilterSyntaxError, match="JMS"):
        compile_filter("JMS", "a = 1")


def test_syntax_error_carries_the_response_code() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        compile_filter("SQL92", "a >")
    assert isinstance(caught.value, FilterSyntaxError)
    assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "'a >'" in str(caught.value) and "character 4" in str(caught.value)


# SQL: what is selected


def test_property_filter_needs_properties_and_passes_every_unit() -> None:
    condition = compile_filter("SQL92", "a = 'x'")
    assert condition.needs_properties
    assert condition.matches_unit(0) and condition.matches_unit(-1)


@pytest.mark.parametrize(
    ("expression", "properties", "expected"),
    [
        # equality: text stays text, a literal's type decides otherwise
        ("a = 'x'", {"a": "x"}, True),
        ("a = 'x'", {"a": "X"}, False),
        ("a = b", {"a": "3.14", "b": "3.14"}, True),
        ("a = b", {"a": "3.14", "b": "3.140"}, False),
        ("a <> b", {"a": "3.14", "b": "3.141"}, True),
        ("a = 5", {"a": "5"}, True),
        ("a = 5", {"a": "+5"}, True),
        ("a = 5", {"a": "5.0"}, False),  # no Integer: the evaluation fails
        ("a <> 5", {"a": "5.0"}, False),
        ("a <> 5", {"a": "six"}, False),
        ("a = 5", {"a": " 5"}, False),
        ("a = 5.0", {"a": " 5 "}, True),  # a Double takes blanks
        ("a = 5.", {"a": "5"}, True),
        ("a = .5", {"a": "0.5"}, True),
        ("a > 3.1E10", {"a": "31415000000.0"}, True),
        ("a = 1e2", {"a": "100.0d"}, True),
        ("5 = a", {"a": "5"}, True),
        ("5 < a", {"a": "6"}, True),
        ("a = -5", {"a": "-5"}, True),
        ("a > - -5", {"a": "6"}, True),
        ("a = +5", {"a": "5"}, True),
        ("a = 5L", {"a": "5"}, True),
        ("a = 0L", {"a": "0"}, True),
        ("a > 0.0", {"a": "0.1"}, True),
        ("1 = 1.0", {}, True),
        ("1 = TRUE", {}, False),
        # 32 and 64 bits
        ("a > 5", {"a": "3000000000"}, False),
        ("a > 5000000000", {"a": "6000000000"}, True),
        ("a > 5000000000", {"a": "9223372036854775808"}, False),
        ("a < 5.5", {"a": "-Infinity"}, True),
        ("a > 5.5", {"a": "NaN"}, True),
        # booleans
        ("a = TRUE", {"a": "true"}, True),
        ("a = true", {"a": "TRUE"}, True),
        ("a = FALSE", {"a": "anything"}, True),
        ("a = TRUE OR b = FALSE", {"a": "false", "b": "true"}, False),
        ("TRUE = a", {"a": "true"}, False),  # fails: a boolean compares with text only from the right
        ("(a > 5) = TRUE", {"a": "6"}, True),
        ("(a > 5) = (b > 5)", {"a": "1", "b": "2"}, True),
        ("TRUE", {}, True),
        ("FALSE", {}, False),
        ("NULL", {}, False),
        ("NOT FALSE", {}, True),
        # a bare property
        ("a", {"a": "true"}, False),
        ("NOT a", {"a": "true"}, True),
        ("NOT a", {}, False),
        # missing properties
        ("a = 5", {}, False),
        ("a <> 5", {}, False),
        ("5 <> a", {}, True),
        ("a = b", {}, True),
        ("a <> b", {}, False),
        ("a = b", {"a": "1"}, False),
        ("a <> b", {"a": "1"}, True),
        ("a IS NULL", {}, True),
        ("a IS NULL", {"a": "x"}, False),
        ("a IS NOT NULL", {"a": "x"}, True),
        ("a IS NOT NULL", {}, False),
        ("a is null OR a='hello'", {}, True),
        ("a is not null and a='hello'", {"a": "hello"}, True),
        ("NOT (a > 5)", {}, False),
        ("a > 5 OR b = 1", {"b": "1"}, True),
        ("(a > 5) IS NULL", {}, True),
        ("-a IS NULL", {"a": "5"}, True),
        # order
        ("a > b", {"a": "20", "b": "10"}, True),
        ("a > b", {"a": "x", "b": "10"}, False),
        ("a >= 5 AND a <= 5", {"a": "5"}, True),
        ("a BETWEEN 2 AND 10", {"a": "10"}, True),
        ("a between 2 and 10", {"a": "11"}, False),
        ("a NOT BETWEEN 2 AND 10", {"a": "11"}, True),
        ("a NOT BETWEEN 10 AND 2", {"a": "5"}, True),
        ("a NOT BETWEEN 2 AND 10", {}, False),
        ("a BETWEEN b AND c", {"a": "5", "b": "1", "c": "9"}, True),
        ("a BETWEEN -5 AND -10", {"a": "-7"}, False),
        ("a NOT BETWEEN 2 AND 10 OR b = 'x'", {"a": "5", "b": "x"}, True),
        # lists and text
        ("a IN ('x', 'y')", {"a": "y"}, True),
        ("a NOT IN ('x', 'y')", {"a": "z"}, True),
        ("a NOT IN ('x', 'y')", {}, False),
        ("(a) IN ('x')", {"a": "x"}, True),
        ("a CONTAINS 'x'", {"a": "axb"}, True),
        ("a STARTSWITH 'ax'", {"a": "axb"}, True),
        ("a ENDSWITH 'xb'", {"a": "axb"}, True),
        ("a NOT CONTAINS 'x'", {"a": "axb"}, False),
        ("a NOT STARTSWITH 'x'", {"a": "axb"}, True),
        ("a NOT ENDSWITH 'x'", {"a": "axb"}, True),
        ("a NOT CONTAINS 'x'", {}, False),
        ("a CONTAINS ''", {"a": "axb"}, False),
        ("a NOT CONTAINS ''", {"a": "axb"}, False),
        ("(a > 5) NOT CONTAINS 'x'", {"a": "6"}, False),
        ("'axb' CONTAINS 'x'", {}, True),
        # lexical matters
        ("TAGS = '''''tag'''''", {"TAGS": "''tag''"}, True),
        ("$a_1 = 'x' -- and nothing else", {"$a_1": "x"}, True),
        ("a /* the letter */ = /**/ 'x' -- so\n AND b='y'", {"a": "x", "b": "y"}, True),
        ("a\t=\n'it -- is /* text */'", {"a": "it -- is /* text */"}, True),
        ("nothing = 'x' aNd NOTa = 'y'", {"nothing": "x", "NOTa": "y"}, True),
        ("A = 'x'", {"a": "x"}, False),
        ("a = '标签'", {"a": "标签"}, True),
        # precedence
        ("a = '1' OR b = '1' AND c = '1'", {"a": "1"}, True),
        ("(a = '1' OR b = '1') AND c = '1'", {"a": "1"}, False),
        ("NOT a = 'x'", {"a": "y"}, False),  # (NOT a) = 'x', a boolean before text, fails
        ("NOT a <> 'x'", {"a": "x"}, False),
        ("NOT (a = 'x')", {"a": "y"}, True),
    ],
)
def test_expression_selects_as_rocketmq_does(expression: str, properties: dict[str, str], expected: bool) -> None:
    assert matches(expression, **properties) is expected


def test_failing_conversion_fails_the_whole_expression_unless_decided_before() -> None:
    assert not matches("a = 5 OR b = 'x'", a="five", b="x")
    assert matches("b = 'x' OR a = 5", a="five", b="x")
    assert not matches("NOT (a = 5)", a="five")
    assert not matches("b = 'x' AND NOT (b = 'y' AND a = 5) AND a > 1", a="five", b="x")


# SQL: what is refused


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "   ",
        "a >",
        "a = ",
        "= 5",
        "a = 5 b = 6",
        "a = 5 AND",
        "a == 5",
        "a != 5",
        "a LIKE 'x%'",
        "(a = 5",
        "a = 5)",
        "a = 'x",
        'a = "x"',
        "a = 5;",
        "a /* = 5",
        "5",
        "'x'",
        "-a",
        "-5 AND a = 1",
        "a + 1 = 2",
        "a = NULL",
        "NULL = a",
        "a > 'x'",
        "'x' < a",
        "a > TRUE",
        "a > NULL",
        "a > 5 > 3",
        "(a = 1) < 5",
        "TRUE = 5",
        "TRUE = 'true'",
        "a IN (1, 2)",
        "a IN ()",
        "a IN 'x'",
        "5 IN ('x')",
        "'x' IN ('x')",
        "a CONTAINS b",
        "a CONTAINS 5",
        "a NOT 'x'",
        "a IS 5",
        "a IS NOT 5",
        "a BETWEEN 10 AND 2",
        "a BETWEEN 'a' AND 'b'",
        "a BETWEEN 1 OR 2",
        "a BETWEEN NULL AND 5",
        "a = 9223372036854775808",
        "a = 007",
        "a = 5x",
        "a = 5..5",
        "a = 1e999",
        "a = 1e",
        "a.b = 5",
        "ä = 5",
        "a = 5\x00",
        "__import__('os')",
    ],
)
def test_expression_that_makes_no_sense_is_refused(expression: str) -> None:
    with pytest.raises(FilterSyntaxError):
        compile_filter("SQL92", expression)


def test_length_is_bounded_in_bytes() -> None:
    fits = "a = '" + "x" * (2048 - 6) + "'"
    assert matches(fits, a="x" * (2048 - 6))
    for expression in (fits.replace("x'", "xx'"), "a = '" + "标" * 700 + "'"):
        with pytest.raises(FilterSyntaxError, match="2048 bytes"):
            compile_filter("SQL92", expression)
    with pytest.raises(FilterSyntaxError, match="2048 bytes"):
        compile_filter("TAG", "x" * 2049)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 33 + "a = 1" + ")" * 33,
        "NOT " * 33 + "TRUE",
        "a = " + "- " * 33 + "5",
        "a = " + "+" * 33 + "5",
        "TRUE" + " = TRUE" * 33,
        "a" + " IS NULL" * 33,
        "a" + " CONTAINS 'x'" * 33,
        "(" * 1000,
    ],
)
def test_depth_is_bounded(expression: str) -> None:
    with pytest.raises(FilterSyntaxError, match=r"32 deep|expected"):
        compile_filter("SQL92", expression)


def test_long_chains_are_not_deep() -> None:
    assert matches(" AND ".join(["a = 1"] * 200), a="1")
    assert not matches(" OR ".join(["a = 1"] * 200), a="2")
    assert matches("(" * 30 + "a = 1" + ")" * 30, a="1")


def test_hostile_property_values_cost_one_pass() -> None:
    for expression in ("a > 5", "a > 5000000000", "a > 5.5", "a = TRUE"):
        for value in ("1" * 32_000, "1" * 16_000 + "." + "1" * 16_000 + "x", "0x" + "1" * 32_000, "+" * 32_000):
            matches(expression, a=value)


def test_equal_expressions_are_compiled_once() -> None:
    assert compile_filter("SQL92", "a = 'once'") is compile_filter("SQL92", "a = 'once'")

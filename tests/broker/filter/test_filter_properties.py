"""Property filters against a plain model of their rules, and against arbitrary text."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flaremq.broker.filter.message_filter import compile_filter
from flaremq.broker.filter.sql_tokens import KEYWORDS
from flaremq.broker.filter.syntax_error import FilterSyntaxError

BLANK = "".join(map(chr, range(33)))  # what Java's trim takes off

# The model: an expression is a nested tuple; ``render`` writes it down, ``judge`` decides by the rules as stated.

NAMES = ("a", "b", "$c_1")
TEXTS = ("", "x", "it's", "5", "5.0", "-7", "true", "TRUE", "2147483648", "1e3", "NaN", " 5 ")
NUMBERS = ("0", "5", "5L", "7.5", "1e3", "2147483647", "2147483648", "-7", "-2147483649", ".5")

names = st.sampled_from(NAMES).map(lambda name: ("property", name))
numbers = st.sampled_from(NUMBERS).map(lambda text: ("number", text))
texts = st.sampled_from(TEXTS).map(lambda text: ("text", text))
comparisons = st.one_of(
    st.tuples(st.sampled_from(("=", "<>")), names, st.one_of(names, numbers, texts)),
    st.tuples(st.sampled_from(("=", "<>")), st.one_of(names, numbers), names),
    st.tuples(st.sampled_from(("<", "<=", ">", ">=")), st.one_of(names, numbers), st.one_of(names, numbers)),
    st.tuples(st.just("="), names, st.booleans().map(lambda value: ("boolean", value))),
    st.tuples(st.sampled_from(("between", "not between")), names, names, names),
    st.tuples(st.sampled_from(("is null", "is not null")), names),
    st.tuples(st.sampled_from(("in", "not in")), names, st.lists(texts, min_size=1, max_size=6)),
    st.tuples(
        st.sampled_from(("contains", "startswith", "endswith")),
        names,
        st.sampled_from(("", "x", "5", "'")),
        st.booleans(),
    ),
    names,
)
conditions: st.SearchStrategy[Any] = st.recursive(
    comparisons,
    lambda inner: st.one_of(st.tuples(st.sampled_from(("and", "or")), inner, inner), st.tuples(st.just("not"), inner)),
    max_leaves=12,
)
messages = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(TEXTS[1:]) | st.text("0123456789.+-eExd_ ", min_size=1, max_size=5)
)


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def render(node: Any) -> str:
    match node:
        case ("property", name):
            return str(name)
        case ("number", text):
            return str(text)
        case ("text", text):
            return quote(text)
        case ("boolean", value):
            return str(value).upper()
        case ("and" | "or" as word, left, right):
            return f"({render(left)} {word} {render(right)})"
        case ("not", inner):
            return f"(NOT {render(inner)})"
        case ("between" | "not between" as word, value, low, high):
            return f"({render(value)} {word.upper()} {render(low)} and {render(high)})"
        case ("is null" | "is not null" as word, value):
            return f"({render(value)} {word})"
        case ("in" | "not in" as word, value, items):
            return f"({render(value)} {word} ({','.join(map(render, items))}))"
        case ("contains" | "startswith" | "endswith" as word, value, search, negated):
            return f"({render(value)} {'not ' if negated else ''}{word} {quote(search)})"
        case (symbol, left, right):
            return f"({render(left)} {symbol} {render(right)})"
    raise AssertionError(node)


class Failed(Exception):
    """The evaluation came upon text that does not convert."""


def judge(node: Any, message: dict[str, str]) -> bool | None:
    match node:
        case ("property", name):
            return None if name not in message else False
        case ("not", inner):
            truth = judge(inner, message)
            return None if truth is None else not truth
        case ("and", left, right):
            first = judge(left, message)
            second = judge(right, message) if first is not False else False
            return min((first, second), key=(False, None, True).index)
        case ("or", left, right):
            first = judge(left, message)
            second = judge(right, message) if first is not True else True
            return max((first, second), key=(False, None, True).index)
        case ("is null", (_, name)):
            return name not in message
        case ("is not null", (_, name)):
            return name in message
        case ("in" | "not in" as word, (_, name), items):
            if name not in message:
                return None
            return bool((message[name] in [text for _, text in items]) == (word == "in"))
        case ("between", value, low, high):
            return judge(("and", (">=", value, low), ("<=", value, high)), message)
        case ("not between", value, low, high):
            return judge(("or", ("<", value, low), (">", value, high)), message)
        case ("contains" | "startswith" | "endswith" as word, (_, name), search, negated):
            if name not in message or not search:
                return False
            value = message[name]
            found = {
                "contains": search in value,
                "startswith": value.startswith(search),
                "endswith": value.endswith(search),
            }[word]
            return found is not negated
        case ("<>", left, right):
            return judge(("not", ("=", left, right)), message)
        case ("=", left, right):
            one, other = value_of(left, message), value_of(right, message)
            if one is None:
                return True if other is None else None
            return other is not None and order_of(*common(one, other)) == 0
        case (symbol, left, right):
            one, other = value_of(left, message), value_of(right, message)
            if one is None or other is None:
                return None
            if one[0] == other[0] == "text":
                one, other = convert("double", one[1]), convert("double", other[1])
            order = order_of(*common(one, other))
            return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[symbol]
    raise AssertionError(node)


def value_of(node: Any, message: dict[str, str]) -> tuple[str, Any] | None:
    match node:
        case ("property", name):
            return ("text", message[name]) if name in message else None
        case ("number", text):
            plain = text.rstrip("L")
            if not plain.lstrip("-").isdigit():
                return ("double", float(plain))
            # The minus sign is applied afterwards: -2147483648 is a long there.
            return ("int" if int(plain.lstrip("-")) < 2**31 else "long", int(plain))
        case (kind, value):
            return (kind, value)
    raise AssertionError(node)


def common(first: tuple[str, Any], second: tuple[str, Any]) -> tuple[Any, Any]:
    if first[0] == "text" and second[0] != "text":
        first = convert(second[0], first[1])
    elif second[0] == "text" and first[0] != "text":
        second = convert(first[0], second[1])
    if "double" in (first[0], second[0]):
        return float(first[1]), float(second[1])
    return first[1], second[1]


def convert(kind: str, text: str) -> tuple[str, Any]:
    if kind == "boolean":
        return kind, text.lower() == "true"
    try:
        if "_" in text or "inf" in text.lower() or ("nan" in text.lower() and "NaN" not in text):
            raise ValueError
        if kind == "double":
            return kind, float(text.strip().rstrip("fFdD") if text.strip()[:-1].isdigit() else text)
        if text != text.strip():
            raise ValueError
        value = int(text)
    except ValueError:
        raise Failed from None
    bits = 31 if kind == "int" else 63
    if not -(2**bits) <= value < 2**bits:
        raise Failed
    return kind, value


def order_of(first: Any, second: Any) -> int:
    if isinstance(first, float):
        # The total order of IEEE 754 bits is that of Double.compareTo, with one NaN.
        first, second = bits_of(first), bits_of(second)
    return int(first > second) - int(first < second)


def bits_of(value: float) -> int:
    (bits,) = struct.unpack(">q", struct.pack(">d", abs(value) if value != value else value))
    return int(bits if bits >= 0 else -(bits & (2**63 - 1)) - 1)


@given(conditions, messages)
@example(("=", ("property", "a"), ("property", "b")), {})
@example((">", ("property", "a"), ("number", "7.5")), {"a": "NaN"})
def test_filter_agrees_with_the_stated_rules(condition: Any, message: dict[str, str]) -> None:
    text = render(condition)
    try:
        expected = judge(condition, message) is True
    except Failed:
        expected = False
    assert compile_filter("SQL92", text).matches(message) is expected, text


@given(conditions, messages)
def test_whitespace_comments_and_keyword_case_change_nothing(condition: Any, message: dict[str, str]) -> None:
    text = render(condition)
    plain = compile_filter("SQL92", text)
    spread = compile_filter("SQL92", "/* all */ " + text.replace(" and ", "\n--x\n AnD\t").replace(" or ", " oR "))
    assert plain.matches(message) is spread.matches(message)


WORDS = st.sampled_from(
    (*sorted(KEYWORDS), *"=<>(),+-", "<>", "<=", ">=", "/*", "*/", "--", "a", "b", "'x'", "5", "5.5", "1e3")
)


@pytest.mark.slow
@given(st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=80), messages)
def test_any_text_is_either_refused_or_evaluated(text: str, message: dict[str, str]) -> None:
    try:
        compiled = compile_filter("SQL92", text)
    except FilterSyntaxError as error:
        assert len(str(error)) < 400
        return
    assert compiled.matches(message) in (True, False)


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_tag_expression_is_either_refused_or_matches_its_own_tags(text: str) -> None:
    try:
        compiled = compile_filter("TAG", text)
    except FilterSyntaxError:
        assert not any(part.strip(BLANK) for part in text.split("||"))
        return
    for tag in text.split("||"):
        if tag.strip(BLANK):
            assert compiled.matches({"TAGS": tag.strip(BLANK)})

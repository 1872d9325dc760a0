"""The row machinery and the properties grammar, on a small options class of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import InvalidArgumentError
from flaremq.options import (
    UnknownName,
    check_values,
    find_unknown_names,
    load_properties,
    markdown_table,
    option,
    parse_assignments,
    parse_properties,
    properties_of,
    rows,
    snake_name,
    values_from_properties,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kettle:
    water_litres: int = option(2, rocketmq="waterLitres", affects="behaviour", minimum=1, maximum=3, doc="Litres.")
    whistle: bool = option(True, rocketmq="whistle", affects="behaviour", doc="Make a noise.")
    colour: str = option("RED", rocketmq="colour", affects="behaviour", choices=("RED", "BLUE"), doc="Paint | lacquer.")
    label: str = option("", flaremq="label", affects="speed", pattern="[a-z]*", form="small letters", doc="Text.")
    not_an_option: int = 7

    def __post_init__(self) -> None:
        check_values(self)


def test_rows_come_in_declaration_order_and_skip_plain_fields() -> None:
    assert [row.key for row in rows(Kettle)] == ["waterLitres", "whistle", "colour", "label"]
    assert [row.is_rocketmq for row in rows(Kettle)] == [True, True, True, False]


def test_values_are_parsed_by_the_type_of_the_default() -> None:
    texts = {"waterLitres": " 3 ", "whistle": "FALSE", "colour": "BLUE", "label": "tea "}
    values = values_from_properties(Kettle, texts)
    assert values == {"water_litres": 3, "whistle": False, "colour": "BLUE", "label": "tea"}


def test_names_of_other_classes_are_left_alone() -> None:
    assert values_from_properties(Kettle, {"toastMinutes": "2"}) == {}


@pytest.mark.parametrize("text", ["", "1.5", "0x10", "1_0", "two", "١", "9" * 30])
def test_text_that_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"waterLitres=.*a whole number from 1 to 3"):
        values_from_properties(Kettle, {"waterLitres": text})


@pytest.mark.parametrize("text", ["yes", "1", "", "treu"])
def test_text_that_is_neither_true_nor_false_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"whistle=.*true or false"):
        values_from_properties(Kettle, {"whistle": text})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"water_litres": 0}, "option waterLitres=0 is not allowed: a whole number from 1 to 3"),
        ({"water_litres": 4}, "option waterLitres=4 is not allowed: a whole number from 1 to 3"),
        ({"water_litres": True}, "option waterLitres=True is not allowed: a whole number from 1 to 3"),
        ({"water_litres": "2"}, "option waterLitres='2' is not allowed: a whole number from 1 to 3"),
        ({"whistle": 1}, "option whistle=1 is not allowed: true or false"),
        ({"colour": "red"}, "option colour='red' is not allowed: one of RED, BLUE"),
        ({"label": "Tea"}, "option label='Tea' is not allowed: small letters"),
    ],
)
def test_a_value_outside_its_row_is_refused_with_name_value_and_what_is_allowed(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Kettle(**values)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_properties_of_gives_back_what_was_read() -> None:
    kettle = Kettle(water_litres=3, whistle=False)
    texts = properties_of(kettle)
    assert texts == {"waterLitres": "3", "whistle": "false", "colour": "RED", "label": ""}
    assert values_from_properties(Kettle, texts)["whistle"] is False
    assert properties_of(kettle, changed_only=True) == {"waterLitres": "3", "whistle": "false"}


@pytest.mark.parametrize(
    ("key", "field_name"),
    [
        ("mappedFileSizeCommitLog", "mapped_file_size_commit_log"),
        ("destroyMapedFileIntervalForcibly", "destroy_maped_file_interval_forcibly"),
        ("checkCRCOnRecover", "check_crc_on_recover"),
        ("enabledAppendPropCRC", "enabled_append_prop_crc"),
        ("brokerIP1", "broker_ip1"),
        ("haListenPort", "ha_listen_port"),
    ],
)
def test_field_names_are_the_snake_case_of_rocketmqs(key: str, field_name: str) -> None:
    assert snake_name(key) == field_name


def test_unknown_names_are_reported_with_the_nearest_known_one_whatever_its_case() -> None:
    found = find_unknown_names(["colour", "waterlitres", "wistle", "zzzz"], ["waterLitres", "whistle", "colour"])
    assert found == [
        UnknownName("waterlitres", "waterLitres"),
        UnknownName("wistle", "whistle"),
        UnknownName("zzzz", None),
    ]
    assert str(found[1]) == "unknown option wistle: did you mean whistle?"
    assert str(found[2]) == "unknown option zzzz: nothing known resembles it"


def test_assignments_split_at_the_first_equals_sign_and_the_last_wins() -> None:
    assert parse_assignments(["a=1", "b = x=y", "a=2"]) == {"a": "2", "b": "x=y"}


@pytest.mark.parametrize("assignment", ["a", "=1", " =1", ""])
def test_an_assignment_without_name_or_equals_sign_is_refused(assignment: str) -> None:
    with pytest.raises(InvalidArgumentError, match="key=value"):
        parse_assignments([assignment])


def test_table_escapes_bars_and_names_every_row() -> None:
    table = markdown_table(rows(Kettle))
    assert "Paint \\| lacquer." in table
    assert all(f"`{row.key}`" in table for row in rows(Kettle))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# x=1\n ! y=2\n\n   \na=1", {"a": "1"}),
        ("a = b = c", {"a": "b = c"}),
        ("a==b", {"a": "=b"}),
        ("a =: b", {"a": ": b"}),
        ("a=1  ", {"a": "1  "}),
        ("a=x # no comment", {"a": "x # no comment"}),
        ("a", {"a": ""}),
        ("=v", {"": "v"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
        ("a=1\\\n# goes on", {"a": "1# goes on"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("# note\\\na=1", {"a": "1"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\\\na=1", {"a": "1"}),
        ("\\\n#a=1", {}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        (r"a=C:\\store\q\t.", {"a": "C:\\storeq\t."}),
        (r"a=\u8ba2\u5355", {"a": "订单"}),
        (r"a=\ud83d\ude00", {"a": "\U0001f600"}),
        ("", {}),
    ],
)
def test_properties_follow_javas_grammar(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\uzzzz", r"a=\u+123"])
def test_a_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="four hex digits"):
        parse_properties(text)


def _escaped(text: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H"))


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_fully_escaped_properties_read_back_as_they_were(values: dict[str, str]) -> None:
    text = "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in values.items())
    assert parse_properties(text) == values


@given(st.text(alphabet="ab#!=: \t\f\\\r\nu0"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except InvalidArgumentError:
        assert "\\" in text and "u" in text  # nothing but a broken \\u escape is refused


def test_a_file_may_be_utf8_with_or_without_a_mark_or_latin1(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    for data in ("# 注释\na=ü\n".encode(), b"\xef\xbb\xbfa=\xc3\xbc", b"a=\xfc\n"):
        file.write_bytes(data)
        assert load_properties(file) == {"a": "ü"}


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no\.conf cannot be read: No such file"):
        load_properties(tmp_path / "no.conf")


def test_a_broken_file_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(r"a=\uXYZ0")
    with pytest.raises(InvalidArgumentError, match=r"broker\.conf: .*four hex digits"):
        load_properties(file)

"""The prompt: where statements end, what is printed, and that errors are sentences."""

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from flaremq.errors import UnavailableError
from flaremq.pipeline.jobs.sql import prompt
from flaremq.pipeline.jobs.sql.output import csv_lines, json_array, json_value, table_lines


def typed(*lines: str | BaseException) -> Any:
    given = iter(lines)

    def read_line(asking: str) -> str:
        line = next(given, None)
        if line is None:
            raise EOFError
        if isinstance(line, BaseException):
            raise line
        return line

    return read_line


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("select 1;", ["select 1"], ""),
        ("select 1; select 2; sel", ["select 1", "select 2"], " sel"),
        ("select ';' from x; y", ["select ';' from x"], " y"),
        ("select 'it\\'s;' a;", ["select 'it\\'s;' a"], ""),
        ("select 1 -- no; end\n;", ["select 1 -- no; end"], ""),
        ("select /* ; */ `a;b`;;", ["select /* ; */ `a;b`"], ""),
        ("select 5 - 3 / 2;", ["select 5 - 3 / 2"], ""),
        (";;", [], ""),
    ],
)
def test_statements_end_at_semicolons_outside_of_quotes_and_comments(
    text: str, statements: list[str], rest: str
) -> None:
    assert prompt.split_statements(text) == (statements, rest)


def test_statements_go_over_lines_and_ctrl_c_drops_what_is_typed() -> None:
    lines = typed(
        "select 1", "from x;", "select broken", KeyboardInterrupt(), "select 2; select 3;", "\\q", "select 4;"
    )
    assert list(prompt.read_statements(lines)) == ["select 1\nfrom x", "select 2", "select 3"]


def test_the_last_statement_needs_no_semicolon_at_the_end_of_input() -> None:
    assert list(prompt.read_statements(typed("select 1"))) == ["select 1"]


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("select 1;\nselect\n2", ["select 1", "select\n2"]),
        ("select 1;\n-- that was all\n", ["select 1"]),
        ("\n\n", []),
    ],
)
def test_statements_of_a_script(text: str, statements: list[str]) -> None:
    assert list(prompt.script_statements(io.StringIO(text))) == statements


class FakeViews:
    def __init__(self, result: Any) -> None:
        self.result = result

    def run(self, statement: str, *, once: bool = False) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def describe(self) -> dict[str, dict[str, str]]:
        return {"messages": {"topic": "string"}}


class FakeFrame:
    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.columns = columns
        self.rows = rows

    def take(self, count: int) -> list[tuple[Any, ...]]:
        return self.rows[:count]

    def toLocalIterator(self, prefetchPartitions: bool = False) -> list[tuple[Any, ...]]:
        return self.rows


def shown(result: Any, statement: str = "select 1") -> list[str]:
    return list(prompt.run_statement(FakeViews(result), statement))  # type: ignore[arg-type]  # a stand-in


def test_errors_of_ours_are_one_sentence() -> None:
    assert shown(UnavailableError("the store is closed")) == ["error: the store is closed"]


def test_errors_of_spark_lose_their_plans() -> None:
    from pyspark.errors import AnalysisException

    error = AnalysisException("[NO_SUCH] there is no `x`.; line 1 pos 7;\n'Project ['x]\n+- Relation\n")
    assert shown(error) == ["error: [NO_SUCH] there is no `x`.; line 1 pos 7;"]


def test_an_error_of_ours_within_sparks_is_told_as_itself() -> None:
    from pyspark.errors import PySparkException

    inner = "Py4JJavaError: pages\nflaremq.errors.NotFoundError: topic 'x' is not there\n"
    assert shown(PySparkException(inner)) == ["error: topic 'x' is not there"]


def test_an_error_of_a_python_worker_is_told_by_its_last_line() -> None:
    from pyspark.errors import PySparkException

    text = (
        "[FAILED] it did: Traceback (most recent call last):\n  File x\n    y()\nValueError: y is wrong\n\n\tat java\n"
    )
    assert shown(PySparkException(text)) == ["error: ValueError: y is wrong"]


def test_views_are_listed() -> None:
    assert shown(None, "\\d") == ["messages (topic string)"]


def test_tables_align_numbers_to_the_right_and_count_rows() -> None:
    frame = FakeFrame(["topic", "n"], [("orders", 5), ("a\tb", 1000), (None, None)])
    assert list(table_lines(frame)) == [  # type: ignore[arg-type]  # a stand-in
        "topic        n",
        "--------  ----",
        "orders       5",
        "a\\u0009b  1000",
        "NULL      NULL",
        "(3 rows)",
    ]


def test_long_results_say_that_there_is_more() -> None:
    lines = list(table_lines(FakeFrame(["n"], [(at,) for at in range(12)]), rows_max=10))  # type: ignore[arg-type]
    assert len(lines) == 13 and lines[-1] == "(the first 10 rows; there are more)"


def test_results_are_csv_and_json_documents() -> None:
    frame = FakeFrame(["a", "b"], [(b'x,"y', {"k": 1}), (None, "")])
    assert list(csv_lines(frame)) == ["a,b", '"x,""y","{""k"": 1}"', ","]
    assert json.loads("".join(json_array(frame))) == [{"a": 'x,"y', "b": {"k": 1}}, {"a": None, "b": ""}]
    assert json.loads("".join(json_array(FakeFrame(["a"], [])))) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(1), "1 day, 0:00:00"),
        (b"text", "text"),
        (bytearray(b"\xff\x00"), "/wA="),
        (datetime(2026, 1, 2, 3, 4, 5, 6000, UTC), "2026-01-02 03:04:05.006Z"),
        (Decimal("5"), 5),
        (Decimal("5.5"), 5.5),
        ({"a": [b"x"]}, {"a": ["x"]}),
        (None, None),
    ],
)
def test_values_of_rows_as_json(value: object, expected: object) -> None:
    assert json_value(value) == expected


def test_the_prompt_is_quiet_about_what_spark_logs_and_puts_it_back() -> None:
    class Views(FakeViews):
        def __init__(self) -> None:
            super().__init__(FakeFrame(["n"], [(1,)]))
            assert logging.getLogger("SQLQueryContextLogger").disabled

        def __enter__(self) -> Views:
            return self

        def __exit__(self, *exc: object) -> None:
            return None

    out = io.StringIO()
    prompt.sql_prompt(Views, read_line=typed("select 1;"), out=out)
    assert out.getvalue().endswith("n\n-\n1\n(1 row)\n")
    assert not logging.getLogger("SQLQueryContextLogger").disabled

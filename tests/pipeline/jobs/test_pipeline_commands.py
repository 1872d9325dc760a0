"""``flaremq pipeline``: wrong input is told before Spark starts, with the right exit code; damage arrives as damage."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flaremq.pipeline.jobs import session
from tests.pipeline.conftest import FilledStore, fill_store
from tests.support.cli import Outcome, flaremq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GEOMETRY = ("--option", "maxHashSlotNum=200", "--option", "maxIndexNum=800")


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that starts Spark fails the test."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "spark_session", start)


@pytest.fixture
def pipeline(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Outcome]]:
    """``flaremq pipeline`` on the session that all tests share."""
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: spark)
    with monkeypatch.context() as patched:
        patched.setattr(type(spark), "stop", lambda _: None)
        yield lambda *arguments: flaremq("pipeline", *arguments)
    spark.sparkContext.setLogLevel("ERROR")


@pytest.fixture(scope="module")
def places(orders_store: FilledStore, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the arguments below mean."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "empty").mkdir()
    (folder / "text").write_text("root:x:0:0\n")
    (folder / "other.json").write_text("{}")
    named = {name: str(folder / name) for name in ("empty", "text", "other.json", "nope", "new")}
    return named | {"STORE": str(orders_store.root), "FULL": str(folder), "no/dir": str(folder / "nope" / "cert.json")}


WRONG = [
    ("archive --path nope --to new", 2, "does not exist"),
    ("archive --path empty --to new", 2, "not a store"),
    ("archive --path text --to new", 2, "is a file"),
    ("archive --path STORE --to STORE", 2, "would lie in the store"),
    ("archive --path STORE --to FULL", 2, "is not empty and no archive"),
    ("archive --to new", 2, "neither path nor nameServer"),
    ("archive --path STORE --to new --from soon", 2, "is no time"),
    ("archive --path STORE --to new --topic none", 1, "topic 'none'"),
    ("archive --path STORE --to new --option colour=red", 2, "unknown option colour"),
    ("archive --path STORE --to new --conf spark.x", 2, "--conf 'spark.x' is not of the form key=value"),
    ("archive --path STORE --to new --tags paid", 2, "--tags"),
    ("report --path nope", 2, "does not exist"),
    ("report --archive nope", 2, "does not exist"),
    ("report --archive empty", 1, "is no archive"),
    ("report --path STORE --topic none", 1, "topic 'none'"),
    ("report --path STORE --from 9 --until 5", 2, "endingTimestamp 5 is before startingTimestamp 9"),
    ("report --path STORE --out empty", 2, "is a directory"),
    ("sql --path nope SELECT", 2, "does not exist"),
    ("sql --path empty SELECT", 2, "not a store"),
    ("sql --path STORE --topic none SELECT", 1, "topic 'none'"),
    ("sql --path STORE --option columns=topic SELECT", 2, "chosen by the statement"),
    ("replay --path nope --to-path new", 2, "does not exist"),
    ("replay --path STORE", 2, "neither of a name server and a store"),
    ("replay --path STORE --to-path text", 2, "is a file"),
    ("replay --path STORE --to-path new --tags a=1", 2, "looks like SQL92"),
    ("replay --path STORE --to-path new --topic none", 1, "topic 'none'"),
    ("verify --path nope", 2, "does not exist"),
    ("verify --path empty", 2, "not a store"),
    ("verify --path STORE --against nope", 2, "does not exist"),
    ("verify --path STORE --against text", 2, "is no certificate: it is not JSON"),
    ("verify --path STORE --against other.json", 2, "is no certificate: its kind"),
    ("verify --path STORE --archive nope", 2, "does not exist"),
    ("verify --path STORE --archive empty", 1, "is no archive"),
    ("verify --path STORE --replica nope", 2, "does not exist"),
    ("verify --path STORE --certificate no/dir", 2, "cannot be written there"),
    ("rebuild --path nope --to new", 2, "does not exist"),
    ("rebuild --path empty --to new", 2, "not a store"),
    ("rebuild --path STORE", 2, "give either --to DIR or --in-place"),
    ("rebuild --path STORE --to STORE", 2, "not an empty folder"),
]


@pytest.mark.parametrize(("line", "code", "words"), WRONG, ids=[line for line, _, _ in WRONG])
def test_wrong_input_is_told_before_spark_starts(
    no_spark: None, places: dict[str, str], line: str, code: int, words: str
) -> None:
    done = flaremq("pipeline", *(places.get(word, word) for word in line.split()))
    assert (done.code, done.out) == (code, "")
    assert words in done.err and len(done.err.splitlines()) == 1
    assert not os.path.exists(places["new"]) or not os.listdir(places["new"])


def test_an_empty_topic_is_refused(no_spark: None, places: dict[str, str]) -> None:
    done = flaremq("pipeline", "report", "--path", places["STORE"], "--topic", "")
    assert done.code == 2 and "topic is empty: leave the option out to read all" in done.err


def test_no_statement_starts_no_spark(no_spark: None, places: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("-- nothing is asked\n"))
    assert flaremq("pipeline", "sql", "--path", places["STORE"]) == Outcome(0, "", "")
    done = flaremq("pipeline", "sql", "--path", places["STORE"], "")
    assert done.code == 2 and "the query is empty" in done.err


def test_statements_in_a_pipe_give_json_lines_alone(
    pipeline: Callable[..., Outcome], orders_store: FilledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT topic, count(*) AS n FROM messages\n GROUP BY topic ORDER BY topic;\nSELECT 1 AS one -- the last\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    done = pipeline("sql", "--path", orders_store.root, *GEOMETRY)
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"topic": "%RETRY%billing", "n": 120},
        {"topic": "orders", "n": 360},
        {"topic": "users", "n": 120},
        {"one": 1},
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT nope FROM queues; SELECT 1;"))
    done = pipeline("sql", "--path", orders_store.root)
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert "`nope`" in done.err


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one record whose body is not what its checksum says."""
    store = fill_store(tmp_path_factory.mktemp("damaged") / "store", count=100)
    row = store.rows[50]
    path = next(path for path in sorted((store.root / "commitlog").iterdir()) if path.stat().st_size)
    content = bytearray(path.read_bytes())
    at = content.index(row["body"], row["physicalOffset"])
    content[at] ^= 1
    path.write_bytes(content)
    return store.root


@pytest.mark.parametrize("command", ["archive", "sql", "replay"])
def test_a_damaged_record_is_told_in_a_sentence(
    pipeline: Callable[..., Outcome], damaged: Path, tmp_path: Path, command: str
) -> None:
    more = {
        "archive": ("--to", tmp_path / "archive"),
        "sql": ("SELECT sum(length(body)) FROM messages",),
        "replay": ("--to-path", tmp_path / "target", "--to-topic", "again"),
    }[command]
    done = pipeline(command, "--path", damaged, *more)
    assert (done.code, done.out, len(done.err.splitlines())) == (4, "", 1), done.err
    assert "commitlog" in done.err and "internal" not in done.err


def test_a_report_over_a_torn_store_is_refused_in_a_sentence(pipeline: Callable[..., Outcome], tmp_path: Path) -> None:
    store = fill_store(tmp_path / "store", count=100)
    path = next(iter(sorted((store.root / "commitlog").iterdir())))
    content = bytearray(path.read_bytes())
    at = store.rows[50]["physicalOffset"]
    content[at : at + 8] = b"\xff" * 8  # size and magic: no record begins here any more
    path.write_bytes(content)
    done = pipeline("report", "--path", store.root)
    assert (done.code, done.out, len(done.err.splitlines())) == (4, "", 1), done.err
    assert "internal" not in done.err

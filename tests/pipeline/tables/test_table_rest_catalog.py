"""A table whose catalog is a server: it may be busy, refuse, be slower than a rival, or lose its answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.errors import UnavailableError
from flaremq.pipeline.jobs.table import table
from flaremq.pipeline.jobs.table.compact import compact
from flaremq.pipeline.jobs.table.expire import expire
from flaremq.pipeline.tables.iceberg import asking
from flaremq.pipeline.tables.model.target import TableTarget, parse_target
from tests.pipeline.tables.lab import TableLab
from tests.support.cli import Outcome, flaremq
from tests.support.iceberg_rest import ABSENT, BUSY, CUT, DENIED, NONE, TOKEN, UNKNOWN, Fault, RestCatalogServer
from tests.support.ports import free_ports

COMMIT = ("POST", "/tables/orders")
LOAD = ("GET", "/tables/orders")
CONFIG = ("GET", "/config")
PASSING = (BUSY, ABSENT, CUT, UNKNOWN)


class RestLab(TableLab):
    def __init__(self, place: Path, server: RestCatalogServer) -> None:
        super().__init__(place, "iceberg")
        self.server = server
        self.settings = {"type": "rest", "uri": server.uri, "token": TOKEN}

    def target(self, name: str = "orders") -> TableTarget:
        return parse_target(f"iceberg:lake.sales.{name}", options=self.settings)

    def command(self, *names: str, log: bool = True, **settings: str) -> Outcome:
        options = [f"{name}={text}" for name, text in {**self.settings, **settings}.items()]
        given = ["--to", "iceberg:lake.sales.orders", *(part for text in options for part in ("--table-option", text))]
        if log:
            given += ["--path", f"broker-a={self.root}", "--topic", "orders"]
            given += ["--option", "maxHashSlotNum=200", "--option", "maxIndexNum=800"]
        return flaremq("pipeline", "table", *names, *given, *([] if names == ("status",) else ["--no-spark"]))

    def is_whole(self) -> bool:
        """Each message once, and every fault that was asked for has happened."""
        assert self.server.pending == []
        return self.offsets() == self.expected_offsets()


class FewPauses(threading.Event):
    """Ends what never comes to its end by itself."""

    left = 30

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        return self.is_set() or self.left <= 0 or super().wait(0.001)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestLab]:
    monkeypatch.setattr(asking, "_PAUSE_SECONDS", 0.001)

    with RestCatalogServer(tmp_path / "lake") as server:
        yield RestLab(tmp_path, server)


def test_commands_make_follow_prove_and_merge_a_table(lab: RestLab) -> None:
    lab.put(12)
    assert lab.command().code == 0
    lab.put(8)
    done = lab.command("status")
    found = json.loads(done.out)
    assert (done.code, found["lag"]["messages"], found["rows"]) == (0, 8, 12)
    assert [json.loads(lab.command().out)["rows"] for _ in range(2)] == [8, 0]
    done = lab.command("verify")
    assert (done.code, json.loads(done.out)["verdict"]) == (0, "sound")
    done = lab.command("compact", log=False)
    assert (done.code, json.loads(done.out)["filesAfter"]) == (0, 1)
    assert lab.is_whole()


@pytest.mark.parametrize("kind", [BUSY, CUT])
@pytest.mark.parametrize(
    ("method", "path_end"),
    [CONFIG, ("POST", "/namespaces"), ("POST", "/sales/tables"), LOAD, COMMIT],
    ids=["config", "namespace", "create", "load", "commit"],
)
def test_new_table_is_whole_whatever_fails_for_a_while(lab: RestLab, method: str, path_end: str, kind: str) -> None:
    lab.put(20)
    lab.server.fail(Fault(method, path_end, kind))
    assert lab.run().rows == 20
    assert lab.is_whole()


@pytest.mark.parametrize("kind", PASSING)
def test_commit_that_fails_or_whose_answer_is_lost_brings_each_message_once(lab: RestLab, kind: str) -> None:
    lab.put(20)
    lab.run()
    lab.put(8)
    lab.server.fail(Fault(*COMMIT, kind))
    result = lab.run()
    assert (result.rows, result.commits) == (8, 1)
    assert lab.is_whole() and len(lab.data_files()) == 2


@pytest.mark.parametrize("kind", [NONE, CUT, UNKNOWN])
def test_rival_that_is_faster_takes_nothing_away(lab: RestLab, kind: str) -> None:
    """The rival's commit comes before ours is looked at, so ours is answered by 409, or by nothing that tells."""
    lab.put(20)
    lab.run()
    lab.put(8)
    lab.server.fail(Fault(*COMMIT, kind, before=lab.run))
    assert lab.run().rows == 0
    assert lab.is_whole() and len(lab.data_files()) == 2, "the files of the slower run are removed"


@pytest.mark.parametrize("kind", [CUT, UNKNOWN])
@pytest.mark.parametrize("overrides", [{}, {"snapshot-loading-mode": "refs"}], ids=["all", "refs"])
def test_lost_answer_is_found_behind_commits_of_others(tmp_path: Path, overrides: dict[str, str], kind: str) -> None:
    """Their files are the table's: nobody may take them for those of a run that was slower."""
    with RestCatalogServer(tmp_path / "lake", overrides=overrides) as server:
        lab = RestLab(tmp_path, server)
        lab.put(20)
        lab.run()
        lab.put(8)

        def more() -> None:
            lab.put(4)
            lab.run()

        server.fail(Fault(*COMMIT, kind, after=more))
        assert lab.run().rows == 8
        assert lab.is_whole() and len(lab.data_files()) == 3


@pytest.mark.parametrize("kind", [BUSY, CUT])
def test_following_goes_on_after_a_catalog_that_was_away(lab: RestLab, kind: str) -> None:
    """For longer than one run waits for it: the pause between two is what helps."""
    stop = FewPauses()
    rows: list[int] = []

    def more(result: object) -> None:
        rows.append(result.rows)  # type: ignore[attr-defined]
        if len(rows) == 3:
            stop.set()
        else:
            lab.put(8)
            lab.server.fail(Fault(*COMMIT, kind), Fault(*LOAD, BUSY, times=7))

    lab.put(8)
    table(None, lab.options(), lab.target(), follow=True, interval=0.001, stop=stop, on_commit=more)
    assert len(rows) == 3 and lab.is_whole()


@pytest.mark.parametrize("kind", PASSING)
def test_merge_whose_answer_is_lost_changes_no_row(lab: RestLab, kind: str) -> None:
    for _ in range(3):
        lab.put(8)
        lab.run()
    lab.server.fail(Fault(*COMMIT, kind))
    result = compact(None, lab.target())
    assert (result.files_after, result.commits) == (1, 1)
    assert lab.is_whole()


@pytest.mark.parametrize("kind", [BUSY, CUT])
def test_expiry_whose_answer_is_lost_leaves_the_table_whole(lab: RestLab, kind: str) -> None:
    for _ in range(3):
        lab.put(8)
        lab.run()
    lab.server.fail(Fault(*COMMIT, kind))
    assert expire(lab.target(), retention_ms=0).snapshots == 0
    expire(lab.target(), retention_ms=0)
    assert lab.is_whole()


@pytest.mark.parametrize("kind", [BUSY, CUT])
def test_columns_of_a_later_schema_survive_a_lost_answer(lab: RestLab, kind: str) -> None:
    def run(schema: str) -> int:
        options = lab.options(bodyFormat="json", bodySchema=schema)
        return table(None, options, lab.target())[0].rows

    lab.put(8)
    run("id string")
    lab.put(8)
    lab.server.fail(Fault(*COMMIT, kind))
    assert run("id string, amount int") == 8
    assert lab.is_whole() and "amount" in lab.open().columns().names


def test_catalog_that_never_takes_a_commit_is_named(lab: RestLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    lab.put(8)
    lab.run()
    lab.put(8)
    lab.server.fail(Fault(*COMMIT, BUSY, times=20))
    with pytest.raises(UnavailableError, match=r"20 commits to iceberg:lake.sales.orders were in vain.*busy"):
        lab.run()
    assert lab.run().rows == 8
    assert lab.is_whole()


@pytest.mark.parametrize(("method", "path_end"), [CONFIG, LOAD, COMMIT], ids=["config", "load", "commit"])
def test_token_that_is_refused_is_said_and_asked_no_more(lab: RestLab, method: str, path_end: str) -> None:
    lab.put(8)
    lab.run()
    lab.put(8)
    lab.server.fail(Fault(method, path_end, DENIED, times=2))  # PyIceberg renews it once, where it can
    done = lab.command()
    while lab.server.pending:
        done = lab.command()
    assert (done.code, "catalog 'lake' refuses" in done.err, "has expired" in done.err) == (3, True, True)
    assert lab.command().code == 0
    assert lab.is_whole()


def test_wrong_token_is_said(lab: RestLab) -> None:
    lab.put(8)
    done = lab.command(token="wrong")
    assert (done.code, "catalog 'lake' refuses" in done.err, "who are you?" in done.err) == (3, True, True)


@pytest.mark.parametrize("names", [(), ("status",), ("verify",)], ids=["table", "status", "verify"])
def test_catalog_that_is_not_there_is_said(lab: RestLab, names: tuple[str, ...]) -> None:
    lab.put(8)
    done = lab.command(*names, uri=f"http://127.0.0.1:{free_ports()}")
    assert (done.code, "catalog 'lake' does not answer" in done.err) == (3, True)
    assert "internal error" not in done.err and done.err.count("\n") == 1


def test_address_that_is_no_catalog_is_said(lab: RestLab) -> None:
    lab.put(8)
    done = lab.command(uri="nowhere")
    assert (done.code, "catalog 'lake' cannot be opened" in done.err) == (2, True)

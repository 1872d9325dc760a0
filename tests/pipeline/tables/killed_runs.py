"""Runs of the job that are killed (SIGKILL) at chosen places, each in a process of its own, and what is found behind.

``python killed_runs.py FOLDER KIND LIMIT [WORK]`` forks for each run from a process that has imported everything and
used nothing, so a run costs little. ``WORK`` is what is killed: ``table``, ``compact`` or ``expire``. A place is the
call or return of a function, in the rooms of tables and in PyIceberg's catalog and files. ``LIMIT`` 0 means every
single one; otherwise the first and last time of each function, as many.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyiceberg.catalog.sql
import pyiceberg.io
import pyiceberg.table.update

from flaremq.pipeline import tables
from flaremq.pipeline.jobs import table as table_job
from flaremq.pipeline.jobs.table.compact import compact
from flaremq.pipeline.jobs.table.expire import expire
from flaremq.pipeline.jobs.table.leftovers import remove_killed
from flaremq.pipeline.tables.leases import leases
from tests.pipeline.tables.lab import TableLab

GOOD = b'{"id": "a"}'
BAD = b"no json"
FIRST, MORE = [GOOD, GOOD, BAD, GOOD] * 5, [GOOD, BAD, GOOD] * 6
LATER_MS = 3_600_000
LONG_AGO = 1_600_000_000
NAMES = ("orders", "orders_dead_letters")


class KilledRuns:
    """A table that holds the first messages, and the same table after runs that were killed while they added more."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.lab = TableLab(folder, kind)
        self._base = folder / "base"
        self._places = folder / "places"
        self._watched = tuple(
            os.path.dirname(str(module.__file__))
            for module in (tables, table_job, pyiceberg.catalog.sql, pyiceberg.io, pyiceberg.table.update)
        )

    def prepare(self) -> None:
        self.lab.put(bodies=FIRST)
        assert _forked(lambda: self.run()) == 0
        self.lab.put(bodies=MORE)
        self._prepare_more()
        shutil.copytree(self.lab.lake, self._base)

    def _prepare_more(self) -> None:
        """Before the base is kept."""

    def places(self) -> list[str]:
        """Where a run comes by, in order."""
        assert _forked(self._note_places) == 0
        return self._places.read_text().splitlines()

    def check(self, place: int) -> None:
        """A run that is killed at the place of this number, what readers see then, and the run after it."""
        shutil.rmtree(self.lab.lake)
        shutil.copytree(self._base, self.lab.lake)  # with the times of its files
        status = _forked(lambda: self._run_until(place))
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "the run was not killed"
        assert _forked(self._look) == 0

    def run(self) -> None:
        options = self.lab.options("orders", bodyFormat="json", bodySchema="id string")
        table_job.table(None, options, self.lab.target())

    def work(self) -> None:
        """What is killed."""
        self.run()

    def _look(self) -> None:
        seen = len(self.lab.rows("orders", "queueOffset", "queueId"))
        assert seen in (FIRST.count(GOOD), (FIRST + MORE).count(GOOD)), f"a reader sees {seen} rows"
        self.run()
        both = sorted(self.lab.offsets() + self.lab.offsets("orders_dead_letters"))
        assert both == self.lab.expected_offsets(), "rows are missing or there twice"
        assert {row["body"] for row in self.lab.rows("orders_dead_letters", "body")} == {BAD}
        self._look_for_leftovers()

    def _look_for_leftovers(self) -> None:
        for name in NAMES:
            found = self.lab.open(name)
            marks = leases(found.root)
            remove_killed(found, max((mark.beat_ms for mark in marks), default=0) + LATER_MS)
            assert leases(found.root) == []
            held = {path for path in found.root.list("", recursive=True) if path.endswith(".parquet")}
            assert held <= found.referenced(0), "files are left that nobody names"

    def _note_places(self) -> None:
        noted: list[str] = []
        sys.setprofile(self._watching(noted.append))
        self.work()
        sys.setprofile(None)
        self._places.write_text("\n".join(noted))

    def _run_until(self, place: int) -> None:
        left = place + 1

        def count(_: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(self._watching(count))
        self.work()

    def _watching(self, met: Callable[[str], None]) -> Callable[[FrameType, str, Any], None]:
        def watch(frame: FrameType, event: str, argument: Any) -> None:
            if frame.f_code.co_filename.startswith(self._watched):
                # Built-in functions are called from here; delta-rs and the operating system are among them.
                name = getattr(argument, "__name__", "") if event.startswith("c_") else frame.f_code.co_qualname
                met(f"{event} {name}")

        return watch


class KilledCompactions(KilledRuns):
    """Everything is in the table, in two files; they are being merged."""

    def _prepare_more(self) -> None:
        assert _forked(lambda: self.run()) == 0

    def work(self) -> None:
        for name in NAMES:
            compact(None, self.lab.target(name))

    def _look(self) -> None:
        self._look_at_rows()
        self.work()
        self._look_at_rows()
        self._look_for_leftovers()
        for name in NAMES:
            assert len(self.lab.open(name).live_files()) == 1, "files were not merged"
        self.run()
        self._look_at_rows()

    def _look_at_rows(self) -> None:
        both = sorted(self.lab.offsets() + self.lab.offsets("orders_dead_letters"))
        assert both == self.lab.expected_offsets(), "rows are missing or there twice"
        assert {row["body"] for row in self.lab.rows("orders_dead_letters", "body")} == {BAD}


class KilledExpiries(KilledCompactions):
    """Files were merged long ago, and what is no longer needed is being removed."""

    def _prepare_more(self) -> None:
        super()._prepare_more()
        assert _forked(super().work) == 0
        for path in self.lab.lake.rglob("*"):
            if path.is_file():
                os.utime(path, (LONG_AGO, LONG_AGO))

    def work(self) -> None:
        for name in NAMES:
            expire(self.lab.target(name), retention_ms=0)

    def _look(self) -> None:
        self._look_at_rows()
        for name in NAMES:
            found = self.lab.open(name)
            assert all(found.root.size(path) is not None for path in found.referenced()), "a file is missing"
        self.work()
        self._look_at_rows()
        for name in NAMES:
            root = self.lab.open(name).root
            held = [path for path in root.list("", recursive=True) if path.endswith(".parquet")]
            assert len([path for path in held if "_delta_log" not in path]) == 1, "files are left that nobody needs"


WORKS: dict[str, type[KilledRuns]] = {"table": KilledRuns, "compact": KilledCompactions, "expire": KilledExpiries}


def _forked(work: Callable[[], None]) -> int:
    """The status of a process that does this work."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _chosen(places: list[str], limit: int) -> list[int]:
    if not limit:
        return list(range(len(places)))
    last = {name: at for at, name in enumerate(places)}
    first = {name: at for at, name in reversed(list(enumerate(places)))}
    found = sorted({*first.values(), *last.values()})
    return found[:: max(len(found) // limit, 1)]


def main() -> int:
    folder, kind, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    runs = WORKS[sys.argv[4] if len(sys.argv) > 4 else "table"](folder, kind)
    runs.prepare()
    places = runs.places()
    chosen = _chosen(places, limit)
    failed = 0
    for at in chosen:
        try:
            runs.check(at)
        except AssertionError as error:
            failed += 1
            print(f"killed at {at}, {places[at]}: {error}", flush=True)
    print(f"{len(chosen)} of {len(places)} places, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""An archive that follows the log: what passes is tried again, what does not ends it; where it may lie."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from flaremq.cli.pipeline.jobs import archive as command
from flaremq.errors import CorruptionError, InvalidArgumentError, NotFoundError, StoreIOError, UnavailableError
from flaremq.pipeline.jobs.archive import archive, job
from flaremq.pipeline.jobs.archive.increment import ArchiveLossError
from flaremq.pipeline.jobs.archive.job import FOLLOW_SECONDS, ArchiveResult
from flaremq.pipeline.jobs.archive.task import ArchiveTask, run_archive_task
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sources.open import source_spec
from tests.pipeline.conftest import FilledStore

NO_SPARK: Any = None


class Waits(threading.Event):
    """Nobody waits; it is told to stop after so many pauses."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._rounds = rounds

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0)
        return len(self.pauses) == self._rounds


@pytest.fixture
def increments(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Let increments end like this, one after the other."""

    def ending(*outcomes: Exception | None) -> list[int]:
        rest, calls = list(outcomes), []

        def increment(*given: Any) -> ArchiveResult:
            calls.append(1)
            outcome = rest.pop(0) if rest else None
            if outcome is not None:
                raise outcome
            result: ArchiveResult = given[5]
            return result

        monkeypatch.setattr(job, "_increment", increment)
        return calls

    return ending


TROUBLES = [
    UnavailableError("no broker answers"),
    StoreIOError("write", "/archive", OSError(28, "no space left")),
    ConnectionResetError("by the object store"),
    Py4JError("a stage was lost"),
]


def test_what_may_pass_is_tried_again_after_longer_and_longer_pauses(
    increments: Callable[..., list[int]],
    orders_store: FilledStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = increments(None, *TROUBLES, None, TROUBLES[0], None)
    stop = Waits(8)
    archive(NO_SPARK, orders_store.options, str(tmp_path / "a"), follow=True, interval=100, stop=stop)
    assert stop.pauses == [100, 200, 400, 600, 600, 100, 200, 100] and len(calls) == 8
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 5
    assert "tried again in 200 s: no broker answers" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        CorruptionError("a record is damaged"),
        InvalidArgumentError("no"),
        NotFoundError("no topic"),
        ArchiveLossError("messages are gone"),
        Py4JError("SparkContext was shut down"),
        AssertionError("a mistake of ours"),
    ],
)
def test_what_will_not_pass_ends_it(
    increments: Callable[..., list[int]], orders_store: FilledStore, tmp_path: Path, error: Exception
) -> None:
    calls = increments(None, error)
    with pytest.raises(type(error)):
        archive(NO_SPARK, orders_store.options, str(tmp_path / "a"), follow=True, interval=1, stop=Waits(9))
    assert len(calls) == 2


def test_a_single_run_fails_at_once(
    increments: Callable[..., list[int]], orders_store: FilledStore, tmp_path: Path
) -> None:
    calls = increments(UnavailableError("no broker answers"))
    with pytest.raises(UnavailableError):
        archive(NO_SPARK, orders_store.options, str(tmp_path / "a"))
    assert len(calls) == 1


def test_command_and_library_wait_alike() -> None:
    (interval,) = [option for option in command.params if option.name == "interval"]
    assert interval.default == FOLLOW_SECONDS


@pytest.mark.parametrize("inside", [".", "archive", "commitlog/deep"])
def test_an_archive_inside_the_store_is_refused(fresh_store: FilledStore, inside: str) -> None:
    with pytest.raises(InvalidArgumentError, match="would lie in the store"):
        archive(NO_SPARK, fresh_store.options, str(fresh_store.root / inside))
    assert not (fresh_store.root / "archive").exists()


def test_a_folder_of_something_else_is_refused(
    increments: Callable[..., list[int]], orders_store: FilledStore, tmp_path: Path
) -> None:
    increments()
    (tmp_path / "photos").mkdir()
    archive(NO_SPARK, orders_store.options, str(tmp_path / "photos"))  # it was empty, and is an archive now
    archive(NO_SPARK, orders_store.options, str(tmp_path / "photos"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "holiday.jpg").touch()
    with pytest.raises(InvalidArgumentError, match=r"is not empty and no archive \(holiday.jpg, …\): give a new"):
        archive(NO_SPARK, orders_store.options, str(tmp_path / "other"))
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["holiday.jpg"]


def test_result_is_short_however_many_queues_there_are() -> None:
    ranges = tuple((f"t{topic}", "b", queue, 0, 5, 5) for topic in range(3) for queue in range(100))
    summary = ArchiveResult("/a", ranges=ranges).summary()
    assert summary["topics"] == {f"t{topic}": {"queues": 100, "messages": 500} for topic in range(3)}
    assert "ranges" not in summary


def test_a_record_that_cannot_be_read_is_a_loss_and_an_empty_place_is_none(
    fresh_store: FilledStore, tmp_path: Path
) -> None:
    queue = QueueRef("orders", "broker-a", 1)
    row = next(
        row for row in fresh_store.rows if (row["topic"], row["queueId"], row["queueOffset"]) == ("orders", 1, 7)
    )
    path = next(path for path in sorted((fresh_store.root / "commitlog").iterdir()) if path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[content.index(row["body"], row["physicalOffset"])] ^= 1
    path.write_bytes(content)
    options = parse_options(fresh_store.options | {"failOnDataLoss": "false"})
    task = ArchiveTask(str(tmp_path / "archive"), source_spec(options), (Span(queue, 0, 20),), fail_on_data_loss=False)
    receipt = run_archive_task(task)
    assert receipt.lost == (Span(queue, 7, 8),)
    assert [(run.start, run.end) for file in receipt.files for run in file.runs] == [(0, 7), (8, 20)]

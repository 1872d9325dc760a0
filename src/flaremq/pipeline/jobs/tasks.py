"""Running a list of tasks on a Spark cluster, with progress; bodies stay in the Python workers.

One task is one partition of an RDD of small values, so Spark schedules, retries and speculates each on its own. A
task must therefore be repeatable: the same input gives the same output, written under the same name. Through Spark
Connect there are no RDDs; ``connect`` does the same there.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from flaremq.errors import FlareMQError, UnavailableError
from flaremq.pipeline.jobs.connect import (
    gather_remote,
    is_remote,
    remote_parallelism,
    remotely_watched,
    run_remote_tasks,
)
from flaremq.pipeline.sources.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")
Progress = Callable[[str, int, int], None]  # what, done, of how many (tasks)

_POLL_SECONDS = 0.2
_NO_PACKAGE = "ModuleNotFoundError: No module named 'flaremq'"
_OUR_ERROR = re.compile(
    r"\b(?P<module>flaremq(?:\.[a-z]\w*)+)\.(?P<name>\w+Error): (?P<message>.*?)(?:\s*SQLSTATE: \w+)*\s*$"
)


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[_T],
    function: Callable[[_T], _R],
    *,
    what: str,
    on_progress: Progress | None = None,
) -> list[_R]:
    """``[function(task) for task in tasks]``, each on some executor, results in order."""
    if not tasks:
        return []
    with watched(spark, what, len(tasks), on_progress):
        if is_remote(spark):
            return run_remote_tasks(spark, tasks, function)
        rows = spark.sparkContext.parallelize(list(tasks), len(tasks))
        results: list[_R] = rows.map(_settling(function)).collect()
    return results


def gather(
    spark: SparkSession,
    tasks: Sequence[_T],
    spread: Callable[[_T], Iterable[tuple[int, bytes]]],
    add_up: Callable[[int, Iterable[bytes]], Iterator[bytes]],
    *,
    buckets: int,
    what: str,
    on_progress: Progress | None = None,
) -> list[bytes]:
    """Two stages: each task spreads what it finds over buckets, then each bucket is added up for itself."""
    if not tasks:
        return []
    with watched(spark, what, len(tasks) + buckets, on_progress):
        if is_remote(spark):
            return gather_remote(spark, tasks, spread, add_up, buckets)
        spreads = spark.sparkContext.parallelize(list(tasks), len(tasks)).flatMap(spread)
        added = spreads.partitionBy(buckets, int).mapPartitionsWithIndex(
            lambda bucket, pairs: add_up(bucket, (piece for _, piece in pairs))
        )
        found: list[bytes] = added.collect()
    return found


def parallelism(spark: SparkSession) -> int:
    """How many tasks run side by side."""
    return max(remote_parallelism(spark) if is_remote(spark) else spark.sparkContext.defaultParallelism, 1)


def _settling(function: Callable[[_T], _R]) -> Callable[[_T], _R]:
    def run(task: _T) -> _R:
        try:
            return function(task)
        finally:
            settle()

    return run


@contextmanager
def watched(spark: SparkSession, what: str, total: int, on_progress: Progress | None = None) -> Iterator[None]:
    """Within, Spark jobs are one group of ``total`` tasks: told of as they end, cancelled with Ctrl-C."""
    group = f"flaremq-{what}-{threading.get_ident()}"
    if is_remote(spark):
        if on_progress is not None:
            on_progress(what, 0, total)
        with translated_errors(), remotely_watched(spark, group, what, total, on_progress):
            yield
        if on_progress is not None:
            on_progress(what, total, total)
        return
    context = spark.sparkContext
    context.setJobGroup(group, f"flaremq {what}: {total} tasks", interruptOnCancel=True)
    done = threading.Event()
    watcher = None
    if on_progress is not None:
        on_progress(what, 0, total)
        watcher = threading.Thread(target=_watch, args=(context, group, what, total, on_progress, done), daemon=True)
        watcher.start()
    try:
        with translated_errors():
            yield
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        done.set()
        if watcher is not None:
            watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None clears it
        if on_progress is not None:
            on_progress(what, total, total)


def _watch(context: Any, group: str, what: str, total: int, on_progress: Progress, done: threading.Event) -> None:
    tracker = context.statusTracker()
    while not done.wait(_POLL_SECONDS):
        completed = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                status = tracker.getStageInfo(stage)
                completed += 0 if status is None else status.numCompletedTasks
        on_progress(what, min(completed, total), total)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Within, an error of ours raised in a task or planner arrives as itself, without the JVM's pages around it."""
    try:
        yield
    except FlareMQError:
        raise
    except Exception as error:
        ours = error_in_text(str(error))
        if ours is None and _NO_PACKAGE in str(error):
            ours = UnavailableError(
                "Spark's Python workers do not have FlareMQ: install it there, or call flaremq.pipeline.jobs.package."
                "ship(spark) first, which sends it along"
            )
        if ours is None:
            raise
        raise ours from error


def error_in_text(text: str) -> FlareMQError | None:
    """The last error of ours in what Spark says: the end of a Python worker's traceback, wherever Spark put that."""
    for line in reversed(text.splitlines()):
        found = _OUR_ERROR.search(line)
        kind = None if found is None else _class_of(found["module"], found["name"])
        if found is not None and kind is not None:
            return _rebuilt(kind, found["message"])
    return None


def _rebuilt(kind: type[FlareMQError], message: str) -> FlareMQError:
    try:
        return kind(message)
    except TypeError:  # a class that wants more than a message; what it is and says is kept
        error = kind.__new__(kind)
        error.args = (message,)
        return error


def _class_of(module: str, name: str) -> type[FlareMQError] | None:
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return kind if isinstance(kind, type) and issubclass(kind, FlareMQError) else None


def in_commits(items: Iterable[_T], bytes_of: Callable[[_T], int], commit_bytes: int) -> Iterator[list[_T]]:
    """What goes into one commit each: a group is full once it has so many bytes."""
    group: list[_T] = []
    size = 0
    for item in items:
        if group and size >= commit_bytes:
            yield group
            group, size = [], 0
        group.append(item)
        size += bytes_of(item)
    if group:
        yield group

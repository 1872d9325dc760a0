"""Running a list of tasks on a Spark cluster, with progress; bodies stay in the Python workers.

One task is one partition of an RDD of small values, so Spark schedules, retries and speculates each on its own. A
task must therefore be repeatable: the same input gives the same output, written under the same name.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from flaremq.errors import FlareMQError
from flaremq.pipeline.sources.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")
Progress = Callable[[str, int, int], None]  # what, done, of how many (tasks)

_POLL_SECONDS = 0.2
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
    context = spark.sparkContext
    with watched(spark, what, len(tasks), on_progress):
        results: list[_R] = context.parallelize(list(tasks), len(tasks)).map(_settling(function)).collect()
    return results


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
    context = spark.sparkContext
    group = f"flaremq-{what}-{threading.get_ident()}"
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

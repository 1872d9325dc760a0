"""Where the tasks of a job run: on Spark's executors, or one after the other in this process if there is no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flaremq.pipeline.jobs.session import AnySession, started
from flaremq.pipeline.jobs.tasks import Progress, parallelism, run_tasks

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class TaskRunner:
    """``run(tasks, what)`` is ``[task() for task in tasks]``; a task is a ``partial`` of a function that travels."""

    spark: AnySession | None
    on_progress: Progress | None = None

    @property
    def parallelism(self) -> int:
        return 1 if self.spark is None else parallelism(started(self.spark))

    def run(self, tasks: Sequence[Callable[[], _R]], what: str) -> list[_R]:
        if self.spark is not None:
            return run_tasks(started(self.spark), tasks, _call, what=what, on_progress=self.on_progress)
        results: list[_R] = []
        for number, task in enumerate(tasks):
            results.append(task())
            if self.on_progress is not None:
                self.on_progress(what, number + 1, len(tasks))
        return results


def _call(task: Callable[[], _R]) -> _R:
    return task()

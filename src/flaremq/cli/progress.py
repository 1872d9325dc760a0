"""Progress of long work: bars on stderr, on a terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TaskProgress = Callable[[str, int, int], None]  # step, done, total


@contextmanager
def bytes_progress(title: str, start: int, end: int, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Lends a function to call with the offset reached, from ``start`` to ``end``; shows rate and time left."""
    if not show or end <= start:
        yield lambda _: None
        return
    with _bars("Download", "TransferSpeed", "TimeRemaining") as update:
        yield lambda offset: update(title, offset - start, end - start)


@contextmanager
def count_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Lends a function to call with the number done."""
    with _bars("MofNComplete", "TimeRemaining") as update:
        yield lambda done: update(title, done, total)


@contextmanager
def task_progress() -> Iterator[TaskProgress | None]:
    """Lends a function to call with step, tasks done and tasks in all; a bar a step. None without a terminal."""
    with _bars("MofNComplete", "TimeElapsed", "TimeRemaining") as update:
        yield update if sys.stderr.isatty() else None


@contextmanager
def _bars(*columns: str) -> Iterator[TaskProgress]:
    """One bar a title, from its first update on; ``columns`` name rich's."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich import progress
    from rich.console import Console

    shown = [getattr(progress, f"{name}Column")() for name in columns]
    text = progress.TextColumn("{task.description}")
    bars = progress.Progress(text, progress.BarColumn(), *shown, console=Console(stderr=True), transient=True)
    known: dict[str, Any] = {}

    def update(title: str, done: int, total: int) -> None:
        if not known:
            bars.start()
        if title not in known:
            known[title] = bars.add_task(title, total=total)
        bars.update(known[title], completed=done, total=total)

    try:
        yield update
    finally:
        if known:
            bars.stop()

"""Progress of long work: a bar with rate and time left, on stderr, on a terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bytes_progress(title: str, start: int, end: int, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Lends a function to be told the offset reached, from ``start`` to ``end``."""
    if not show or not sys.stderr.isatty() or end <= start:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=end - start)
        yield lambda offset: bar.update(task, completed=offset - start)


@contextmanager
def count_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Lends a function to be told how many are done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)

"""The readable form of what the core does, for comparison: every record checked, dispatched and verified by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from flaremq.core.table import END


@contextmanager
def readable_dispatch(on: bool = True) -> Iterator[None]:
    """Inside, each record goes to its views as those do that the core leaves out."""
    if not on:
        yield
        return
    with mock.patch("flaremq.storage.dispatch.dispatcher.find_marked", lambda _cells, first, _end, _marks: first):
        yield


@contextmanager
def readable_walk(on: bool = True) -> Iterator[None]:
    """Inside, a walk over a store at rest leaves every record to ``check_record``, and verify each to its checkers."""

    def nothing(_log: Any, start: int, *_more: Any) -> tuple[int, int, int]:
        return 0, start, END

    if not on:
        yield
        return
    with mock.patch("flaremq.storage.log.walk.walk", nothing):
        yield

"""Errors of ours reach a user of Spark as their sentence, without the traceback of a Python worker before it.

Spark shows the traceback of whatever ends one of its Python processes. Of ours the sentence says what to do, and the
frames above it are Spark's and ours alone. Spark looks at a setting of the process when it writes an error down, and
ends the process then; so the setting is made when the error leaves our code, and holds for nothing else.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from flaremq.errors import FlareMQError

_HIDE: Final = "SPARK_HIDE_TRACEBACK"  # of PySpark, which sets it where a session hides the tracebacks of all code
_STARTED_BY_SPARK: Final = "PYTHON_WORKER_FACTORY_"  # how each Python process of Spark finds the JVM
_T = TypeVar("_T")


def told_plainly(kind: type[_T]) -> type[_T]:
    """A class that Spark calls: what its own methods raise is told without a traceback."""
    for name, method in list(vars(kind).items()):
        if callable(method) and not isinstance(method, type) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, _told(method))
    return kind


def _told(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        with _hidden_traceback():
            result = method(*arguments, **named)
        return _iterated(result) if isinstance(result, Iterator) else result

    return call


def _iterated(items: Iterator[Any]) -> Iterator[Any]:
    with _hidden_traceback():
        yield from items


@contextmanager
def _hidden_traceback() -> Iterator[None]:
    try:
        yield
    except FlareMQError:
        if any(name.startswith(_STARTED_BY_SPARK) for name in os.environ):
            os.environ[_HIDE] = "1"
        raise

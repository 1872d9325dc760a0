"""What a Python worker of Spark keeps from one task to the next: modules that no longer count as garbage, and sources.

Spark collects garbage after every task of a worker it uses again, and after every question to a planner. Each time
that walks over all that PySpark, PyArrow and we have loaded: 70 to 250 ms, where a small task takes 20. What is loaded
stays, so it is taken out of the collector's sight once.

A source over the wire is a thread, an event loop and connections. A worker has one task at a time, and the next is
mostly of the same query, so it is kept open. Spark ends workers that are idle for a minute.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from flaremq.pipeline.model.source import Source, SourceSpec
from flaremq.pipeline.sources.open import open_source

_KEPT_MAX = 2
_kept: dict[bytes, Source] = {}  # by description; those in use are not in it
_settled = 0  # modules loaded when the collector was last told to leave them alone


def is_spark_worker() -> bool:
    """Whether this process was started by Spark and is used again for further tasks."""
    return "SPARK_REUSE_WORKER" in os.environ


def settle() -> None:
    """In a worker of Spark: what is loaded by now is there for good. Cheap when nothing was loaded since."""
    global _settled
    loaded = len(sys.modules)
    if loaded != _settled and is_spark_worker():
        gc.freeze()
        _settled = loaded


@contextmanager
def kept_source(spec: SourceSpec) -> Iterator[Source]:
    """The source of this description for one task; in a worker of Spark the next one finds it open.

    After an error it is closed: whatever broke must not meet the next task. A store directory is opened anew each
    time: that costs nothing, and files come and go.
    """
    try:
        if spec.name_server is None or not is_spark_worker():
            with open_source(spec) as source:
                yield source
            return
        key = pickle.dumps(spec)
        source = _kept.pop(key) if key in _kept else open_source(spec)
        try:
            yield source
        except BaseException:
            source.close()
            raise
        if (other := _kept.pop(key, None)) is not None:
            other.close()
        while len(_kept) >= _KEPT_MAX:
            _kept.pop(next(iter(_kept))).close()
        _kept[key] = source
    finally:
        settle()

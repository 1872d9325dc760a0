"""Tasks through Spark Connect, where the driver is a server and this program has neither its context nor its JVM.

All there is are DataFrames. So a list of tasks is a range of numbers, one a partition, and what is mapped over it has
the tasks with it, each pickled for itself: a worker takes out its own. Spark schedules, retries and speculates them as
it does those of an RDD. Nothing else is asked of the server; what a task imports it must find there (``package.ship``).
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from flaremq.pipeline.sources.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")

_RESULT: Final = pa.schema([("number", pa.int64()), ("data", pa.binary())])
_RESULT_DDL: Final = "number bigint, data binary"
_PROBE_ROWS: Final = 1 << 16  # more than any cluster has cores: each partition of the probe has a row


def is_remote(spark: Any) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def remote_parallelism(spark: SparkSession) -> int:
    """How many tasks the server runs side by side unless told otherwise: a range has so many partitions."""
    numbers = spark.range(_PROBE_ROWS).selectExpr("spark_partition_id() AS number")
    return numbers.distinct().count()


def run_remote_tasks(spark: SparkSession, tasks: Sequence[_T], function: Callable[[_T], _R]) -> list[_R]:
    """``[function(task) for task in tasks]``, results in order."""

    def run(task: _T) -> Iterator[tuple[int, bytes]]:
        yield 0, pickle.dumps(function(task))

    rows = _over(spark, tasks, run, numbered=True).toArrow()
    results = dict(zip(rows.column("number").to_pylist(), rows.column("data").to_pylist(), strict=True))
    return [pickle.loads(results[number]) for number in range(len(tasks))]


def gather_remote(
    spark: SparkSession,
    tasks: Sequence[_T],
    spread: Callable[[_T], Iterable[tuple[int, bytes]]],
    add_up: Callable[[int, Iterable[bytes]], Iterator[bytes]],
    buckets: int,
) -> list[bytes]:
    """What ``add_up`` makes of each bucket that tasks put something into."""

    def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pairs = (
            pair
            for batch in batches
            for pair in zip(batch.column("number").to_pylist(), batch.column("data").to_pylist(), strict=True)
        )
        for bucket, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
            for data in add_up(bucket, (data for _, data in group)):
                yield _row(bucket, data)

    shuffled = _over(spark, tasks, spread).repartition(buckets, "number").sortWithinPartitions("number")
    found: list[bytes] = shuffled.mapInArrow(gathered, _RESULT_DDL).toArrow().column("data").to_pylist()
    return found


def _over(
    spark: SparkSession,
    tasks: Sequence[_T],
    function: Callable[[_T], Iterable[tuple[int, bytes]]],
    *,
    numbered: bool = False,
) -> DataFrame:
    """The rows that ``function`` makes of the tasks, each in a partition of its own; ``numbered`` by their task."""
    packed = [pickle.dumps(task) for task in tasks]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    for key, data in function(pickle.loads(packed[number])):
                        yield _row(number if numbered else key, data)
                finally:
                    settle()

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, _RESULT_DDL)


def _row(number: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), pa.array([data], pa.binary())], schema=_RESULT)


@contextmanager
def remotely_watched(
    spark: Any, group: str, what: str, total: int, on_progress: Callable[[str, int, int], None] | None
) -> Iterator[None]:
    """Within, what this thread starts has a tag: told of as tasks end, interrupted with Ctrl-C."""
    thread = threading.get_ident()
    done = 0

    def tell(stages: Iterable[Any] | None, *_: Any, **__: Any) -> None:
        nonlocal done
        completed = min(sum(stage.num_completed_tasks for stage in stages or ()), total)
        if on_progress is not None and thread == threading.get_ident() and completed > done:
            done = completed
            on_progress(what, done, total)

    spark.addTag(group)
    if on_progress is not None:
        spark.registerProgressHandler(tell)
    try:
        yield
    except KeyboardInterrupt:
        spark.interruptTag(group)
        raise
    finally:
        spark.removeTag(group)
        if on_progress is not None:
            spark.removeProgressHandler(tell)

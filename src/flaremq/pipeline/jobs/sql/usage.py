"""Which views a statement uses, and which columns of them: asked of Spark's own optimizer.

The Python data source API has no column pruning, so a scan would decode every column whatever the statement is about.
Here the statement is first planned, not run, against stand-ins of the views: empty Parquet files, a source that Spark
does prune. What is left of their columns in the optimized plan is what the statement needs. Wherever that cannot be
found out (a remote session, a command, a plan of an unknown kind) the answer is "everything", which is right and only
slower.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Usage(NamedTuple):
    """What a query needs."""

    columns: dict[str, frozenset[str]]  # view → columns; a view that is not in it is not used
    repeated: frozenset[str]  # views that are read more than once


_V1_SOURCES = "spark.sql.sources.useV1SourceList"  # only the newer Parquet source is pruned in the optimizer


class StandIns:
    """Empty tables under the names of the views, in a session of their own; use it within ``with``."""

    def __init__(self, spark: SparkSession, schemas: Mapping[str, pa.Schema]) -> None:
        self._spark = spark
        self._schemas = schemas
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def usage(self, statement: str) -> Usage | None:
        """What a query uses; None if it is a command or cannot be told. Errors of the statement itself are raised."""
        session = cloned(self._spark)
        if session is None:
            return None
        session.conf.set(_V1_SOURCES, "")
        for name, folder in self._folders():
            session.read.parquet(folder).createOrReplaceTempView(name)
        return _planned_usage(session, statement, {folder: name for name, folder in self._folders()})

    def _folders(self) -> Iterator[tuple[str, str]]:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="flaremq-sql-")
            for name, schema in self._schemas.items():
                folder = os.path.join(self._folder.name, name)
                os.mkdir(folder)
                pq.write_table(schema.empty_table(), os.path.join(folder, "empty.parquet"))
        for name in self._schemas:
            yield name, "file://" + os.path.join(self._folder.name, name)


def cloned(spark: SparkSession) -> SparkSession | None:
    """A session with the same views and settings whose changes do not touch this one; None where there is no such."""
    java = getattr(spark, "_jsparkSession", None)
    if java is None or not hasattr(spark, "_sc"):
        return None  # Spark Connect
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no annotations

    try:
        return type(spark)(spark.sparkContext, java.cloneSession())
    except Py4JError:
        return None


def _planned_usage(session: SparkSession, statement: str, names: Mapping[str, str]) -> Usage | None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    jvm: Any = session.sparkContext._jvm
    try:
        state = session._jsparkSession.sessionState()
        parsed = state.sqlParser().parsePlan(statement)
        skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()  # never run anything here
        execution = state.executePlan(parsed, skip)
        execution.assertAnalyzed()
        if _is_command(execution.analyzed()):
            return None
        plan = execution.optimizedPlan()
        usage: dict[str, set[str]] = {}
        reads: Counter[str] = Counter()
        for part in (plan, *_items(plan.subqueriesAll())):
            for leaf in _items(part.collectLeaves()):
                _note(leaf, names, usage, reads)
    except PySparkException:
        raise  # a mistake in the statement
    except (Py4JError, TypeError, AttributeError):
        return None
    return Usage(
        {name: frozenset(columns) for name, columns in usage.items()},
        frozenset(name for name, count in reads.items() if count > 1),
    )


def _note(leaf: Any, names: Mapping[str, str], usage: dict[str, set[str]], reads: Counter[str]) -> None:
    kind = leaf.getClass().getSimpleName()
    if kind == "DataSourceV2ScanRelation":
        source = leaf.relation().table().name()
    elif kind == "LogicalRelation":  # not pruned yet: some rule kept the older source; all of it
        source = leaf.relation().toString()
    else:
        return
    for folder, name in names.items():
        if source.endswith(folder.removeprefix("file://")) or source.endswith(folder):
            usage.setdefault(name, set()).update(attribute.name() for attribute in _items(leaf.output()))
            reads[name] += 1


def _is_command(plan: Any) -> bool:
    return any("Command" in kind.getSimpleName() for kind in (plan.getClass(), *plan.getClass().getInterfaces()))


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]

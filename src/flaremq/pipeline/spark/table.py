"""``flaremq.table``: a DataFrame that reads the columns a query uses, without anybody naming them.

Spark (4.0 to 4.3) does not tell a Python source which columns a query needs. It does tell tables of its JVM, and those
are interfaces, which Py4J lets Python implement. So the table of this DataFrame is one: Spark's optimizer tells it the
columns of each query, and it answers with the scan that Spark itself makes of ``format("flaremq")`` for just these.
Only planning comes by here; tasks see nothing but that scan. Each query has a scan of its own, so filters may be handed
on as well (the second trap told of in ``datasource`` is a scan that is used twice).

Through Spark Connect there is no JVM to implement anything in; ``connect_table`` reads the columns off the plan.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from flaremq.errors import UnavailableError
from flaremq.pipeline.scan import option_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHEAPEST: Final = "queueId"  # read off the queue files, for a query that needs rows and no column
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_READ: Final = "org.apache.spark.sql.connector.read"


def table(
    spark: SparkSession,
    path: str | os.PathLike[str] | None = None,
    *,
    name_server: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    topic: str | Sequence[str] | None = None,
    **options: object,
) -> DataFrame:
    """The messages of a store, a cluster or an archive: a DataFrame like any other, of which a query reads what it
    uses. ``options`` are those of ``format("flaremq")``, by their names. ``createOrReplaceTempView`` makes it a table
    of ``spark.sql``.
    """
    given = {"path": path, "nameServer": name_server, "archive": archive, "topic": topic, **options}
    texts = {
        name: option_text(os.fspath(value) if isinstance(value, os.PathLike) else value)
        for name, value in given.items()
        if value is not None
    }
    return table_frame(spark, texts)


def table_frame(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The same for options as text."""
    whole = _loaded(spark, options)
    if any(name.lower() == "columns" for name in options):
        return whole
    if not hasattr(spark, "_jsparkSession"):
        return _pruned_remotely(whole)
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # Connect needs none

    try:
        return _pruned(spark, options, whole)
    except (Py4JError, TypeError, AttributeError):  # a Spark that is made in another way: all columns, and right
        return whole


def _loaded(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    try:
        return spark.read.format("flaremq").options(**options).load()
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_NOT_FOUND":
            raise
        python = os.environ.get("PYSPARK_PYTHON", "python3")
        raise UnavailableError(
            f"the Python that Spark starts, {python}, has no FlareMQ; this program's is {sys.executable}: activate its "
            'environment, or set PYSPARK_PYTHON to it before the session starts (os.environ["PYSPARK_PYTHON"] = '
            "sys.executable)"
        ) from error


def _pruned_remotely(whole: Any) -> DataFrame:
    if not (hasattr(whole, "_plan") and hasattr(whole, "_session")):  # a client made in another way: all columns
        return whole  # type: ignore[no-any-return]
    from flaremq.pipeline.spark.connect_table import PrunedSource

    pruned: DataFrame = type(whole)(PrunedSource(whole._plan, whole.columns), whole._session)
    return pruned


def _pruned(spark: SparkSession, options: Mapping[str, str], whole: DataFrame) -> DataFrame:
    from pyspark.java_gateway import ensure_callback_server_started

    context = spark.sparkContext
    jvm: Any = context._jvm
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # of PySpark
    relations = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
    none = jvm.scala.Option.empty()
    relation = relations.create(_Table(spark, options, _python_table(whole)), none, none)
    datasets = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    return DataFrame(datasets.ofRows(spark._jsparkSession, relation), spark)


def _python_table(frame: DataFrame) -> Any:
    """The table that Spark has made for a frame that was loaded."""
    java: Any = frame._jdf
    return java.queryExecution().analyzed().table()


class _Table:
    """A table of Spark's: that of the Python source in everything but how it is scanned."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], whole: Any) -> None:
        self._spark = spark
        self._options = options
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole, name)

    def newScanBuilder(self, options: Any) -> _ScanBuilder:
        return _ScanBuilder(self._spark, self._options, options, self.schema())

    def schema(self) -> Any:
        return self._whole.schema()

    def equals(self, other: Any) -> bool:
        """The same table only; this is how Spark finds what is cached."""
        return other is self or (hasattr(other, "hashCode") and other.hashCode() == self.hashCode())

    def hashCode(self) -> int:
        return id(self) % (1 << 31)

    def toString(self) -> str:
        return "flaremq"

    class Java:
        implements = ("org.apache.spark.sql.connector.catalog.SupportsRead",)


class _ScanBuilder:
    """Hears what a query needs, and makes the scan for it."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], own: Any, schema: Any) -> None:
        self._spark = spark
        self._options = options
        self._own = own  # what a query gives with it
        self._names = [str(name) for name in schema.fieldNames()]
        self._columns: list[str] | None = None
        self._filters: Any = None

    def pruneColumns(self, schema: Any) -> None:
        wanted = {str(name) for name in schema.fieldNames()}
        self._columns = [name for name in self._names if name in wanted] or [_CHEAPEST]

    def pushFilters(self, filters: Any) -> Any:
        """What Spark must still apply."""
        if self._spark.conf.get(_PUSHDOWN, "false") != "true":
            return filters
        self._filters = filters
        return self._builder().pushFilters(filters)

    def pushedFilters(self) -> Any:
        context: Any = self._spark.sparkContext
        return context._gateway.new_array(context._jvm.org.apache.spark.sql.sources.Filter, 0)

    def build(self) -> Any:
        builder = self._builder()
        if self._filters is not None:
            builder.pushFilters(self._filters)
        return builder.build()

    def _builder(self) -> Any:
        """Spark's own, for the columns that are known to be enough."""
        options = dict(self._options)
        if self._columns is not None and self._columns != self._names:
            named = {str(name) for each in self._filters or () for name in each.references()}  # Spark looks them up
            options["columns"] = ",".join(name for name in self._names if name in {*self._columns, *named})
        if self._filters is not None:
            options["pushFilters"] = "true"
        frame = _loaded(self._spark, options)
        java: Any = frame._jdf
        relation = java.queryExecution().analyzed()
        return relation.table().newScanBuilder(relation.options())

    def equals(self, other: Any) -> bool:
        return other is self

    def hashCode(self) -> int:
        return id(self) % (1 << 31)

    def toString(self) -> str:
        return "flaremq"

    class Java:
        implements = (f"{_READ}.SupportsPushDownRequiredColumns", f"{_READ}.SupportsPushDownFilters")

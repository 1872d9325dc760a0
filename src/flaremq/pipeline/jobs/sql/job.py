"""``sql``: Spark SQL over a store, a cluster or an archive, through four views.

``messages`` has the columns of ``format("flaremq")``, fields of bodies among them; ``queues``, ``groups`` and
``index`` are small. A query is planned once against stand-ins to learn which columns it needs (``sql_usage``); then
``messages`` is read with those alone, with filters pushed down, and everything is read as of now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.bodies.ddl import ddl_of_type
from flaremq.pipeline.jobs.connect import is_remote
from flaremq.pipeline.jobs.object_access import with_object_access
from flaremq.pipeline.jobs.session import AnySession, started
from flaremq.pipeline.jobs.sql.tables import SCHEMAS, view_rows
from flaremq.pipeline.jobs.sql.usage import StandIns, cloned
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.sources.open import open_source, source_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = "messages"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_CHEAPEST = "queueId"  # read off the queue files, for queries like count(*) that need rows and no column


class SqlViews:
    """The views over one source. Use it within ``with``, or call ``close``."""

    def __init__(self, spark: AnySession, options: Mapping[str, str]) -> None:
        if any(name.lower() == "columns" for name in options):
            raise InvalidArgumentError("columns are chosen by the statement itself; leave the option out")
        self._parsed = with_object_access(parse_options(options), spark)
        self._spec = source_spec(self._parsed)
        with open_source(self._spec) as source:
            scan_spans(source, self._parsed)  # told now what every statement would stumble over
        self._spark = started(spark)
        # Readers are told what the session knows of object stores; not where statements are kept with their options.
        self._options = dict(options) if is_remote(self._spark) else {**options, **self._parsed.objects}
        self._is_registered = False
        self._schema = self._parsed.scan_columns.usual
        self._stand_ins = StandIns(self._spark, {MESSAGES: self._schema, **SCHEMAS})

    def register(self) -> None:
        """Make the views known in the session itself, whole, as of now: for ``spark.sql`` and notebooks."""
        self._messages(self._spark, None).createOrReplaceTempView(MESSAGES)
        for name in SCHEMAS:
            self._small(self._spark, name).createOrReplaceTempView(name)
        self._is_registered = True

    def run(self, statement: str, *, once: bool = False) -> DataFrame:
        """The result of one statement. Commands (SET, CREATE …) take effect in the session; queries leave no trace.

        ``once`` promises that the result is read as it is and not queried further: then filters are pushed down, which
        Spark does right only for a table that is read in one way (see ``datasource``).
        """
        usage = self._stand_ins.usage(statement)
        session = None if usage is None else cloned(self._spark)
        if usage is None or session is None:
            if not self._is_registered:
                self.register()
            return self._spark.sql(statement)
        pushes = once and MESSAGES not in usage.repeated
        session.conf.set(PUSHDOWN, str(pushes).lower())
        for name, columns in usage.columns.items():
            frame = self._messages(session, columns, pushes) if name == MESSAGES else self._small(session, name)
            frame.createOrReplaceTempView(name)
        return session.sql(statement)

    def describe(self) -> dict[str, dict[str, str]]:
        """The columns of every view with their types."""
        from pyspark.sql.pandas.types import from_arrow_schema

        columns = {MESSAGES: {field.name: ddl_of_type(field.type) for field in self._schema}}
        for name, schema in SCHEMAS.items():
            columns[name] = {field.name: field.dataType.simpleString() for field in from_arrow_schema(schema)}
        return columns

    def close(self) -> None:
        self._stand_ins.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _messages(self, session: SparkSession, columns: frozenset[str] | None, pushes: bool = False) -> DataFrame:
        """All columns by name; those that are not needed are null and never read."""
        from pyspark.sql import functions

        reader = session.read.format("flaremq").options(**self._options)
        if pushes:
            reader = reader.option("pushFilters", "true")
        if columns is None:
            from flaremq.pipeline.spark.table import table_frame

            return table_frame(session, self._options)
        if columns.issuperset(self._schema.names):
            return reader.load()
        wanted = [name for name in self._schema.names if name in columns] or [_CHEAPEST]
        frame = reader.option("columns", ",".join(wanted)).load()
        return frame.select(
            *(
                functions.col(_quoted(field.name))
                if field.name in wanted
                else functions.lit(None).cast(ddl_of_type(field.type)).alias(field.name)
                for field in self._schema
            )
        )

    def _small(self, session: SparkSession, name: str) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        table = view_rows(name, self._spec, self._parsed)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return session.createDataFrame(rows, from_arrow_schema(SCHEMAS[name]))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def register_views(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Make ``messages``, ``queues``, ``groups`` and ``index`` of a source known in a session."""
    with SqlViews(spark, options) as views:
        views.register()


def run_sql(spark: SparkSession, query: str, options: Mapping[str, str]) -> DataFrame:
    """The result of one statement over the views of a source."""
    with SqlViews(spark, options) as views:
        return views.run(query)

"""The last step of the demo: orders as an Iceberg table, asked by DuckDB, which knows nothing of FlareMQ or Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from flaremq.cli.demo.summary import Summary
from flaremq.cli.demo.traffic import Tally
from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    from flaremq.pipeline.tables.model.target import TableTarget

_SCHEMA: Final = "id bigint, kind string, customer bigint, amount double"
_QUESTION: Final = "SELECT kind, count(*), round(sum(amount), 2) FROM orders GROUP BY kind ORDER BY kind"


def orders_as_table(summary: Summary, spark: Any, path: str, tally: Tally) -> None:
    """The fields of orders' bodies become columns, written by Spark's tasks; without the packages a word says so."""
    from flaremq.pipeline.jobs.table import table
    from flaremq.pipeline.tables.model.target import parse_target

    target = parse_target("iceberg:lake.shop.orders", warehouse=os.path.join(path, "lake"))
    options = {"path": os.path.join(path, "store"), "topic": "orders"}
    options |= {"bodyFormat": "json", "bodySchema": _SCHEMA}
    began = summary.elapsed
    try:
        (result,) = table(spark, options, target)
        answer = _asked(target)
    except UnavailableError as error:
        if "[lakehouse]" not in str(error):
            raise
        summary.step(f"No table: {error}")
        return
    summary.numbers["table"] = result.to_json()
    summary.step(f"Wrote {result.rows:,} orders as an Iceberg table in {summary.elapsed - began:.1f} s. DuckDB says:")
    for kind, count, total in answer:
        summary.line(f"{kind:>12} {count:>9,} orders {total:>16,.2f}")
    summary.check("orders in the Iceberg table", result.rows, tally.stored["orders"])
    counted = {kind: count for kind, count, _ in answer}
    summary.check("orders by tag, asked by DuckDB", counted == _by_tag(tally), True)


def _asked(target: TableTarget) -> list[tuple[str, int, float]]:
    from flaremq.pipeline.tables.iceberg.catalog import open_catalog
    from flaremq.pipeline.tables.model.extra import lakehouse_needed

    table = open_catalog(target).load_table(target.parts)
    with lakehouse_needed("Asking a table"):
        connection = table.scan(selected_fields=("kind", "amount")).to_duckdb("orders")
    with connection:
        return list(connection.execute(_QUESTION).fetchall())


def _by_tag(tally: Tally) -> dict[str, int]:
    return {tag: count for (topic, tag), count in sorted(tally.tags.items()) if topic == "orders"}

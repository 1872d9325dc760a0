"""The commands of ``flaremq pipeline`` for tables of the lakehouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flaremq.cli import output as out
from flaremq.cli.groups import LazyGroup, refuse_options_before
from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, show_result, source_options, spark_for, spark_options
from flaremq.cli.progress import task_progress

if TYPE_CHECKING:
    from flaremq.pipeline.tables.model.target import TableTarget

F = TypeVar("F", bound=Callable[..., Any])
_TABLE_HELP = "iceberg:CATALOG.db.orders or delta:PATH."
_MIB = 1 << 20


def table_options(command: F) -> F:
    """Where a table's catalog is."""
    for option in (
        click.option(
            "--table-option",
            "table_settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="An option of the catalog, or of a Delta table's store of files, e.g. uri=http://… (repeatable).",
        ),
        click.option(
            "--warehouse", metavar="DIR", help="The folder of the embedded Iceberg catalog.  [default: ./CATALOG]"
        ),
    ):
        command = option(command)
    return command


def needed_target(text: str | None, warehouse: str | None, settings: tuple[str, ...]) -> TableTarget:
    if text is None:
        raise click.UsageError(f"Missing option '--to': {_TABLE_HELP}")
    return target_of(text, warehouse, settings)


def target_of(text: str, warehouse: str | None, settings: tuple[str, ...]) -> TableTarget:
    from flaremq.options import parse_assignments
    from flaremq.pipeline.tables.model.target import parse_target

    return parse_target(text, warehouse=warehouse, options=parse_assignments(settings, option="--table-option"))


to_option = click.option(
    "--to", metavar="TABLE", help=f"{_TABLE_HELP} With {{topic}} in the name: a table for each topic."
)
group_option = click.option("--group", metavar="GROUP", help="Report progress under this consumer group.")
no_spark_option = click.option("--no-spark", is_flag=True, help="In this process alone, without Spark.")
file_size_option = click.option(
    "--file-size", type=click.IntRange(min=1), default=128, show_default=True, help="MiB a file should have."
)

# command -> (module, one line for the overview)
UPKEEP = {
    "compact": ("flaremq.cli.pipeline.table_upkeep:compact", "Small files into large ones, row for row the same."),
    "expire": ("flaremq.cli.pipeline.table_upkeep:expire", "Forget old states; remove files nobody needs."),
    "status": ("flaremq.cli.pipeline.table_upkeep:status", "How far a table is behind its topic."),
    "verify": ("flaremq.cli.pipeline.table_upkeep:verify", "Prove a table against the log."),
}


@click.group(cls=LazyGroup, elsewhere=UPKEEP, invoke_without_command=True, subcommand_metavar="[COMMAND]")
@source_options
@to_option
@table_options
@click.option(
    "--partition-by",
    metavar="COLUMNS",
    default="day(storeTimestamp)",
    show_default=True,
    help="Of a new table: columns, one of them as day(…); or none.",
)
@file_size_option
@click.option("--with-body", is_flag=True, help="Keep bodies beside their fields, where bodyFormat takes them apart.")
@group_option
@click.option("--follow", is_flag=True, help="Go on as the topic grows, until Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds between two commits."
)
@no_spark_option
@spark_options
@output_option("json", "table")
@click.pass_context
def table(
    ctx: click.Context,
    /,
    to: str | None,
    warehouse: str | None,
    table_settings: tuple[str, ...],
    partition_by: str,
    file_size: int,
    with_body: bool,
    group: str | None,
    follow: bool,
    interval: float,
    no_spark: bool,
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
    **source: Any,
) -> None:
    """Write topics as tables of Apache Iceberg or Delta, which other engines read.

    Run it again and only what is new is added, each message once, however an earlier run ended. --option
    bodyFormat=json with bodySchema makes fields of bodies columns; bodies that do not fit go to TABLE_dead_letters.
    """
    if ctx.invoked_subcommand is not None:
        refuse_options_before(ctx)
        return
    from flaremq.pipeline.jobs.table import TableSettings
    from flaremq.pipeline.jobs.table import table as job

    target = needed_target(to, warehouse, table_settings)
    options = options_of(**source)
    if group is not None:
        options["consumerGroup"] = group
    how = TableSettings(partition_by=partition_by, target_bytes=file_size * _MIB, with_body=with_body)
    with spark_for("table", master, settings) as spark, task_progress() as progress:
        results = job(
            None if no_spark else spark,
            options,
            target,
            how,
            follow=follow,
            interval=interval,
            on_progress=progress,
        )
    show_tables([result.to_json() for result in results], output)


def show_tables(documents: list[dict[str, Any]], output: str | None) -> None:
    """One table's result as it is, those of several as a list."""
    if len(documents) == 1:
        show_result(documents[0], output)
    else:
        out.print_object({"tables": documents}, output, lambda: out.print_rows(documents, out.TABLE))

"""``flaremq pipeline report`` and ``sql``: questions to the data."""

from __future__ import annotations

import os
from typing import Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.parameters import debug_option, output_option
from flaremq.cli.pipeline_job import options_of, source_options, spark_for, spark_options, task_progress
from flaremq.errors import FlareMQError


@click.command()
@source_options
@click.option("--out", "page", metavar="FILE", help="Write a self-contained HTML page here.")
@spark_options
@output_option("json", "table")
@debug_option
def report(page: str | None, master: str | None, settings: tuple[str, ...], output: str | None, **source: Any) -> None:
    """Traffic, sizes, latency, tags and keys, retries, lag and capacity.

    Reads no bodies. With --out an HTML page with charts; on stdout the numbers.
    """
    from flaremq.pipeline.jobs.report import report as job

    with spark_for("report", master, settings) as spark, task_progress() as progress:
        result = job(spark, options_of(**source), out=page, on_progress=progress)
    if out.chosen(output, in_pipe=out.JSON) == out.JSON:
        out.print_json(result.to_json())
    else:
        out.print_record(result.document["summary"])
        for notice in result.document["notices"]:
            click.echo(f"- {notice['text'] if isinstance(notice, dict) else notice}")
        if page is not None:
            click.echo(f"The page is in {page}")


@click.command()
@source_options
@click.argument("query", required=False)
@spark_options
@output_option("jsonl", "table")
@debug_option
def sql(query: str | None, master: str | None, settings: tuple[str, ...], output: str | None, **source: Any) -> None:
    """Ask in Spark SQL: one QUERY, or a prompt without one.

    Views: messages, queues, groups, index. Only the columns a query names are read.
    """
    from flaremq.pipeline.jobs.sql import SqlViews
    from flaremq.pipeline.jobs.sql_output import json_lines, table_lines
    from flaremq.pipeline.jobs.sql_prompt import quiet_spark, sql_error, sql_prompt

    options = options_of(**source)
    with spark_for("sql", master, settings) as spark, quiet_spark():
        if query is None:
            sql_prompt(spark, options, history=os.path.expanduser("~/.flaremq_sql_history"))
            return
        show = table_lines if out.chosen(output, in_pipe=out.JSONL) == out.TABLE else json_lines
        with SqlViews(spark, options) as views:
            try:
                for line in show(views.run(query)):
                    out.write(line.encode() + b"\n")
            except FlareMQError:
                raise
            except Exception as error:  # Spark's own errors: their classes are not ours to import
                if failure.wants_traceback():
                    raise
                raise FlareMQError(sql_error(error)) from error

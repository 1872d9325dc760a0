"""``flaremq pipeline report`` and ``sql``: questions to the data."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from flaremq.cli import output as out
from flaremq.cli.parameters import debug_option, output_option
from flaremq.cli.pipeline.job import options_of, source_options, spark_for, spark_options, task_progress
from flaremq.errors import InvalidArgumentError


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
    from flaremq.pipeline.jobs.report.job import report as job

    options = options_of(**source)
    with spark_for("report", master, settings) as spark, task_progress() as progress:
        result = job(spark, options, out=page, on_progress=progress)
    if out.chosen(output, in_pipe=out.JSON) == out.JSON:
        out.print_json(result.to_json())
    else:
        out.print_record(result.document["summary"])
        for notice in result.document["notices"]:
            out.say(f"- {notice['text'] if isinstance(notice, dict) else notice}")
        if page is not None:
            click.echo(f"The page is in {page}")


@click.command()
@source_options
@click.argument("query", required=False)
@spark_options
@output_option("jsonl", "table")
@debug_option
def sql(query: str | None, master: str | None, settings: tuple[str, ...], output: str | None, **source: Any) -> None:
    """Ask in Spark SQL: one QUERY; without one a prompt, or the statements in a pipe.

    Views: messages, queues, groups, index. Only the columns a query names are read.
    """
    from flaremq.pipeline.jobs.sql.output import json_lines, table_lines
    from flaremq.pipeline.jobs.sql.prompt import run_script, sql_prompt

    if query is not None and not query.strip():
        raise InvalidArgumentError("the query is empty; leave it out for a prompt")
    options = options_of(**source)
    show = table_lines if out.chosen(output, in_pipe=out.JSONL) == out.TABLE else json_lines
    with spark_for("sql", master, settings) as spark:
        if query is None and sys.stdin.isatty() and sys.stdout.isatty():
            sql_prompt(spark, options, show=show, history=os.path.expanduser("~/.flaremq_sql_history"))
            return
        for line in run_script(spark, options, sys.stdin if query is None else [query], show):
            out.write(line.encode() + b"\n")

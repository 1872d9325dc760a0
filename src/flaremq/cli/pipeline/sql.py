"""``flaremq pipeline sql``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from flaremq.cli import output as out
from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, source_options, spark_for, spark_options
from flaremq.errors import InvalidArgumentError


@click.command()
@source_options
@click.argument("query", required=False)
@spark_options
@output_option("jsonl", "table")
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

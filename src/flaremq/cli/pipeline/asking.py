"""SQL, with Spark and without: one query, a prompt, or the statements in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import output as out
from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, source_options
from flaremq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flaremq.pipeline.jobs.sql.prompt import Views

_HISTORY = "~/.flaremq_sql_history"


@click.command()
@source_options
@click.argument("query", required=False)
@output_option("jsonl", "json", "csv", "table")
def sql(query: str | None, output: str | None, **source: Any) -> None:
    """Ask in SQL, without Spark: one QUERY; without one a prompt, or the statements in a pipe.

    The SQL is DuckDB's. Views: messages, queues, groups, index. Only what a query names is read.
    """
    options = options_of(**source)
    from flaremq.pipeline.jobs.sql.duck import DuckViews

    ask(lambda: DuckViews(options), query, output)


def ask(open_views: Callable[[], Views], query: str | None, output: str | None) -> None:
    """Ask the query, whoever types, or whatever the statements in a pipe ask."""
    from flaremq.pipeline.jobs.sql.prompt import run_script, show_as, sql_prompt

    if query is not None and not query.strip():
        raise InvalidArgumentError("the query is empty; leave it out for a prompt")
    show = show_as(out.chosen(output, in_pipe=out.JSONL))
    if query is None and sys.stdin.isatty() and sys.stdout.isatty():
        sql_prompt(open_views, show=show, history=os.path.expanduser(_HISTORY))
        return
    for line in run_script(open_views, sys.stdin if query is None else [query], show):
        out.write(line.encode() + b"\n")

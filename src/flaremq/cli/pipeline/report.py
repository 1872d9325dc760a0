"""``flaremq pipeline report``."""

from __future__ import annotations

from typing import Any

import click

from flaremq.cli import output as out
from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, source_options, spark_for, spark_options
from flaremq.cli.progress import task_progress


@click.command()
@source_options
@click.option("--out", "page", metavar="FILE", help="Write a self-contained HTML page here.")
@spark_options
@output_option("json", "table")
def report(page: str | None, master: str | None, settings: tuple[str, ...], output: str | None, **source: Any) -> None:
    """Traffic, sizes, latency, tags and keys, retries, lag and capacity.

    Reads no bodies. With --out an HTML page with charts; on stdout the numbers.
    """
    from flaremq.pipeline.jobs.report.job import report as job

    options = options_of(**source)
    with spark_for("report", master, settings) as spark, task_progress() as progress:
        result = job(spark, options, out=page, on_progress=progress)

    def show() -> None:
        out.print_record(result.document["summary"])
        for notice in result.document["notices"]:
            out.echo(f"- {notice['text'] if isinstance(notice, dict) else notice}")
        if page is not None:
            out.echo(f"The page is in {page}")

    out.print_object(result.to_json(), output, show)

"""``flaremq pipeline archive``."""

from __future__ import annotations

from typing import Any

import click

from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, show_result, source_options, spark_for, spark_options
from flaremq.cli.progress import task_progress


@click.command()
@source_options
@click.option("--to", metavar="DIR", required=True, help="The archive: a folder, or a URL such as s3://bucket/folder.")
@click.option("--follow", is_flag=True, help="Go on as the log grows, until Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds between two looks."
)
@spark_options
@output_option("json", "table")
def archive(
    to: str,
    follow: bool,
    interval: float,
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
    **source: Any,
) -> None:
    """Write the log as Parquet files, by topic and day.

    Run it again and only what is new is added; a run that was stopped is taken up where it ended. Read it with
    format("flaremq").option("archive", DIR), or with anything that reads Parquet.
    """
    from flaremq.pipeline.jobs.archive import archive as job

    options = options_of(**source)
    with spark_for("archive", master, settings) as spark, task_progress() as progress:
        result = job(spark, options, to, follow=follow, interval=interval, on_progress=progress)
    show_result(result.summary(), output)

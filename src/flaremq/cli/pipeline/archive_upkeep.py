"""The commands of ``flaremq pipeline archive`` that keep an archive in order."""

from __future__ import annotations

import click

from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import check_archive_place, show_result, spark_for, spark_options
from flaremq.cli.progress import task_progress


@click.command()
@click.option("--to", metavar="DIR", required=True, help="The archive: a folder, or a URL such as s3://bucket/folder.")
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Only this topic (repeatable).")
@click.option("--no-spark", is_flag=True, help="In this process alone, without Spark.")
@spark_options
@output_option("json", "table")
def compact(
    to: str, topics: tuple[str, ...], no_spark: bool, master: str | None, settings: tuple[str, ...], output: str | None
) -> None:
    """Merge the small files of each topic and day, as --follow makes them, into files of 64 MiB of messages.

    Rows and offsets stay what they are. May be killed at any time; the archive must not be written meanwhile.
    """
    from flaremq.pipeline.jobs.archive.compact import compact_archive

    check_archive_place(to)
    with spark_for("archive-compact", master, settings) as spark, task_progress() as progress:
        result = compact_archive(None if no_spark else spark, to, topics, on_progress=progress)
    show_result(result.to_json(), output)

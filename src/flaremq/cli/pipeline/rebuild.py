"""``flaremq pipeline rebuild``."""

from __future__ import annotations

import click

from flaremq.cli.parameters import output_option, read_properties, store_options
from flaremq.cli.pipeline.job import show_result, spark_for, spark_options, store_option
from flaremq.cli.progress import task_progress
from flaremq.errors import InvalidArgumentError


@click.command()
@store_option
@click.option("--to", metavar="DIR", help="Write consumequeue and index below this new folder.")
@click.option("--in-place", is_flag=True, help="Put them into the store itself, which must be closed.")
@store_options
@spark_options
@output_option("json", "table")
def rebuild(
    path: str,
    to: str | None,
    in_place: bool,
    config_file: str | None,
    assignments: tuple[str, ...],
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
) -> None:
    """Build ConsumeQueue and IndexFile anew from the CommitLog, in parallel.

    Byte for byte what the broker would have written. In place, the old ones are swapped out only when the new ones
    are complete and on disk.
    """
    if (to is None) != in_place:
        raise InvalidArgumentError("give either --to DIR or --in-place")
    from flaremq.pipeline.jobs.rebuild.job import rebuild as job

    properties = read_properties(config_file, assignments, path)
    with spark_for("rebuild", master, settings) as spark, task_progress() as progress:
        result = job(spark, path=path, out=to, in_place=in_place, properties=properties, on_progress=progress)
    show_result(result.to_json(), output)

"""``flaremq pipeline verify``."""

from __future__ import annotations

from typing import Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.parameters import output_option, read_properties, store_options
from flaremq.cli.pipeline.job import STORE, check_archive_place, show_result, spark_for, spark_options, store_option
from flaremq.cli.progress import task_progress


@click.command()
@store_option
@click.option("--certificate", metavar="FILE", help="Write a certificate here: ranges, counts, digests, verdict.")
@click.option(
    "--against",
    metavar="CERT",
    type=click.Path(exists=True, dir_okay=False),
    help="Hold the store against an earlier certificate.",
)
@click.option("--archive", metavar="DIR", help="Hold it against an archive.")
@click.option("--replica", metavar="STORE", type=STORE, help="Hold it against a replica.")
@store_options
@spark_options
@output_option("json", "table")
def verify(
    path: str,
    certificate: str | None,
    against: str | None,
    archive: str | None,
    replica: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
) -> int:
    """Check every record, queue unit, index entry, checkpoint and config, in parallel.

    The exit code is 0 for a sound store, 4 for a damaged one, 1 if it differs from what it is held against.
    """
    from flaremq.pipeline.jobs.verify.job import verify as job

    if archive is not None:
        check_archive_place(archive)
    properties = read_properties(config_file, assignments, path)
    with spark_for("verify", master, settings) as spark, task_progress() as progress:
        result = job(
            spark,
            path=path,
            certificate=certificate,
            against=against,
            archive=archive,
            replica=replica,
            properties=properties,
            on_progress=progress,
        )
    outcome: dict[str, Any] = result.to_json()
    if out.chosen(output, in_pipe=out.JSON) == out.TABLE:
        out.print_rows(outcome["findings"], out.TABLE, title="findings")
    show_result(outcome, output)
    if result.is_damaged:
        return failure.DAMAGED
    return failure.DONE if result.verdict == "sound" else failure.FAILED

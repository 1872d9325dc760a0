"""``flaremq pipeline rebuild`` and ``verify``: the log as the only truth, and the proof of it."""

from __future__ import annotations

from typing import Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.parameters import debug_option, options_options, output_option, read_properties
from flaremq.cli.pipeline.archive import show_result
from flaremq.cli.pipeline.job import check_archive_place, spark_for, spark_options, task_progress
from flaremq.errors import InvalidArgumentError

_STORE = click.Path(exists=True, file_okay=False)
_path_option = click.option("--path", metavar="STORE", type=_STORE, required=True, help="The store directory.")


@click.command()
@_path_option
@click.option("--to", metavar="DIR", help="Write consumequeue and index below this new folder.")
@click.option("--in-place", is_flag=True, help="Put them into the store itself, which must be closed.")
@options_options
@spark_options
@output_option("json", "table")
@debug_option
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


@click.command()
@_path_option
@click.option("--certificate", metavar="FILE", help="Write a certificate here: ranges, counts, digests, verdict.")
@click.option(
    "--against",
    metavar="CERT",
    type=click.Path(exists=True, dir_okay=False),
    help="Hold the store against an earlier certificate.",
)
@click.option("--archive", metavar="DIR", help="Hold it against an archive.")
@click.option("--replica", metavar="STORE", type=_STORE, help="Hold it against a replica.")
@options_options
@spark_options
@output_option("json", "table")
@debug_option
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
    if out.chosen(output, in_pipe=out.JSON) == out.JSON:
        out.print_json(outcome)
    else:
        out.print_rows(outcome["findings"], out.TABLE, title="findings")
        show_result(outcome, out.TABLE)
    if result.is_damaged:
        return failure.DAMAGED
    return failure.DONE if result.verdict == "sound" else failure.FAILED

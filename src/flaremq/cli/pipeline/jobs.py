"""The commands of ``flaremq pipeline``: each asks a job of ``pipeline/jobs`` and shows its result."""

from __future__ import annotations

from typing import Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.credentials import pipeline_settings
from flaremq.cli.groups import LazyGroup, refuse_options_before
from flaremq.cli.parameters import output_option, read_properties, store_options
from flaremq.cli.pipeline.asking import ask
from flaremq.cli.pipeline.job import (
    STORE,
    check_archive_place,
    options_of,
    show_result,
    source_options,
    spark_for,
    spark_options,
    store_option,
)
from flaremq.cli.pipeline.tables import table_options, target_of
from flaremq.cli.progress import task_progress
from flaremq.errors import InvalidArgumentError

archive_option = click.option("--to", metavar="DIR", help="The archive: a folder, or a URL such as s3://bucket/folder.")
# command -> (module, one line for the overview)
ARCHIVE_UPKEEP = {
    "compact": ("flaremq.cli.pipeline.archive_upkeep:compact", "Small files into large ones, row for row the same."),
}


@click.group(cls=LazyGroup, elsewhere=ARCHIVE_UPKEEP, invoke_without_command=True, subcommand_metavar="[COMMAND]")
@source_options
@archive_option
@click.option("--follow", is_flag=True, help="Go on as the log grows, until Ctrl-C.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds between two looks."
)
@spark_options
@output_option("json", "table")
@click.pass_context
def archive(
    ctx: click.Context,
    /,
    to: str | None,
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
    if ctx.invoked_subcommand is not None:
        refuse_options_before(ctx)
        return
    if to is None:
        raise click.UsageError("Missing option '--to': the folder of the archive.")
    from flaremq.pipeline.jobs.archive import archive as job

    options = options_of(**source)
    with spark_for("archive", master, settings) as spark, task_progress() as progress:
        result = job(spark, options, to, follow=follow, interval=interval, on_progress=progress)
    show_result(result.summary(), output)


@click.command()
@source_options
@click.option("--key", "keys", metavar="KEY", multiple=True, help="Only messages with this key (repeatable).")
@click.option("--tags", metavar="EXPRESSION", help='Only messages with these tags, e.g. "paid || shipped".')
@click.option("--to-name-server", metavar="ADDR", help="Send to this cluster.")
@click.option("--to-path", metavar="STORE", help="Put into this closed store.")
@click.option("--to-topic", metavar="TOPIC", help="The topic to send to.  [default: the one a message came from]")
@click.option("--rate", type=click.IntRange(min=1), help="Messages a second at most.")
@click.option("--id", "replay_id", metavar="NAME", help="Runs of one name send each message once, together.")
@spark_options
@output_option("json", "table")
def replay(
    keys: tuple[str, ...],
    tags: str | None,
    to_name_server: str | None,
    to_path: str | None,
    to_topic: str | None,
    rate: int | None,
    replay_id: str | None,
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
    **source: Any,
) -> None:
    """Send messages of a store, a cluster or an archive once more, to the same topic or another one.

    A run that was broken off may be repeated: what it had sent is not sent again.
    """
    from flaremq.pipeline.jobs.replay.job import replay as job

    options = options_of(**source)
    if keys:
        options["keys"] = ",".join(keys)
    if tags is not None:
        options["subExpression"] = tags
    with spark_for("replay", master, settings) as spark, task_progress() as progress:
        result = job(
            spark,
            options,
            to_name_server=to_name_server,
            to_path=to_path,
            to_topic=to_topic,
            rate=rate,
            replay_id=replay_id,
            to_options=pipeline_settings() if to_name_server is not None else None,
            on_progress=progress,
        )
    show_result(result.to_json(), output)


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
@click.option("--table", "tables", metavar="TABLE", multiple=True, help="Hold it against this table (repeatable).")
@table_options
@store_options
@spark_options
@output_option("json", "table")
def verify(
    path: str,
    certificate: str | None,
    against: str | None,
    archive: str | None,
    replica: str | None,
    tables: tuple[str, ...],
    warehouse: str | None,
    table_settings: tuple[str, ...],
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
            tables=[target_of(text, warehouse, table_settings) for text in tables],
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


@click.command()
@source_options
@click.argument("query", required=False)
@spark_options
@output_option("jsonl", "json", "csv", "table")
def sql(query: str | None, master: str | None, settings: tuple[str, ...], output: str | None, **source: Any) -> None:
    """Ask in Spark SQL: one QUERY; without one a prompt, or the statements in a pipe.

    Views: messages, queues, groups, index. Only the columns a query names are read.
    """
    from flaremq.pipeline.jobs.sql import SqlViews

    options = options_of(**source)
    with spark_for("sql", master, settings) as spark:
        ask(lambda: SqlViews(spark, options), query, output)


@click.command()
@click.argument("target", metavar="OUT.zip", type=click.Path(dir_okay=False))
def package(target: str) -> None:
    """Write a zip of FlareMQ that spark-submit --py-files ships to executors.

    Their Python needs the packages FlareMQ is built on (pyarrow, numpy, …), not FlareMQ itself.
    """
    from flaremq.pipeline.jobs.package import write_package

    click.echo(write_package(target))

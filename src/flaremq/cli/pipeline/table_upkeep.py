"""The commands of ``flaremq pipeline table`` that keep tables in order and prove them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.parameters import output_option
from flaremq.cli.pipeline.job import options_of, source_options, spark_for, spark_options
from flaremq.cli.pipeline.tables import (
    file_size_option,
    group_option,
    needed_target,
    no_spark_option,
    show_tables,
    table_options,
    to_option,
)
from flaremq.cli.progress import task_progress
from flaremq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flaremq.pipeline.tables.model.target import TableTarget

_MIB = 1 << 20
_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
topic_option = click.option(
    "--topic", "topics", metavar="TOPIC", multiple=True, help="Where TABLE has {topic}: of this topic (repeatable)."
)


@click.command()
@to_option
@topic_option
@table_options
@file_size_option
@no_spark_option
@spark_options
@output_option("json", "table")
def compact(
    to: str | None,
    topics: tuple[str, ...],
    warehouse: str | None,
    table_settings: tuple[str, ...],
    file_size: int,
    no_spark: bool,
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
) -> None:
    """Merge small files of a table, and of its dead letters, into large ones with the same rows.

    May run beside writers and be killed at any time. What it replaces stays for older readers until `expire`.
    """
    from flaremq.pipeline.jobs.table.compact import compact as job

    targets = _with_dead_letters(needed_target(to, warehouse, table_settings), topics)
    documents = []
    with spark_for("table-compact", master, settings) as spark, task_progress() as progress:
        for target in targets:
            result = job(None if no_spark else spark, target, target_bytes=file_size * _MIB, on_progress=progress)
            documents.append(result.to_json())
    show_tables(documents, output)


def _duration_ms(_: click.Context, __: click.Parameter, value: str) -> int:
    number, unit = value[:-1], value[-1:]
    if unit not in _MS or not number.isdigit():
        raise click.BadParameter(f"{value!r} is no duration: write 30m, 12h or 7d")
    return int(number) * _MS[unit]


@click.command()
@to_option
@topic_option
@table_options
@click.option(
    "--older-than",
    "retention_ms",
    metavar="DURATION",
    default="7d",
    show_default=True,
    callback=_duration_ms,
    help="What is younger stays: 30m, 12h, 7d.",
)
@click.option("--keep", type=click.IntRange(min=1), default=1, show_default=True, help="Snapshots that stay anyway.")
@click.option("--dry-run", is_flag=True, help="Only count the files.")
@output_option("json", "table")
def expire(
    to: str | None,
    topics: tuple[str, ...],
    warehouse: str | None,
    table_settings: tuple[str, ...],
    retention_ms: int,
    keep: int,
    dry_run: bool,
    output: str | None,
) -> None:
    """Forget old snapshots of a table, and of its dead letters, and remove files that no snapshot names.

    Never a file that a snapshot still needs or that a run of `table` is about to commit.
    """
    from flaremq.pipeline.jobs.table.expire import expire as job

    targets = _with_dead_letters(needed_target(to, warehouse, table_settings), topics)
    results = [job(target, retention_ms=retention_ms, keep=keep, dry_run=dry_run) for target in targets]
    show_tables([result.to_json() for result in results], output)


@click.command()
@source_options
@to_option
@table_options
@group_option
@output_option("json", "table")
def status(
    to: str | None,
    warehouse: str | None,
    table_settings: tuple[str, ...],
    group: str | None,
    output: str | None,
    **source: Any,
) -> None:
    """Tell how far a table is behind its topic, in messages and seconds, and what it is made of.

    With --group brokers are told too, so that every admin tool shows the lag.
    """
    from flaremq.pipeline.jobs.table.status import status as job

    options = options_of(**source)
    if group is not None:
        options["consumerGroup"] = group
    documents = [found.to_json() for found in job(options, needed_target(to, warehouse, table_settings))]
    if out.chosen(output, in_pipe=out.JSON) == out.TABLE:
        for document in documents:
            lag = document.pop("lag")
            document |= {"lagMessages": lag["messages"], "lagSeconds": lag["seconds"]}
    show_tables(documents, output)


@click.command()
@source_options
@to_option
@table_options
@no_spark_option
@spark_options
@output_option("json", "table")
def verify(
    to: str | None,
    warehouse: str | None,
    table_settings: tuple[str, ...],
    no_spark: bool,
    master: str | None,
    settings: tuple[str, ...],
    output: str | None,
    **source: Any,
) -> int:
    """Prove a table against the log: every message it covers, once and unchanged, by count, offset and digest.

    Messages and table may grow meanwhile. The exit code is 1 if a message is missing, there twice or another one.
    """
    from flaremq.pipeline.jobs.verify.tables import verify_tables

    options = options_of(**source)
    target = needed_target(to, warehouse, table_settings)
    with spark_for("table-verify", master, settings) as spark, task_progress() as progress:
        proofs = verify_tables(None if no_spark else spark, options, target, on_progress=progress)
    documents = [proof.to_json() for proof in proofs]
    if out.chosen(output, in_pipe=out.JSON) == out.TABLE:
        for document in documents:
            out.print_rows(document["differences"], out.TABLE, title=f"differences of {document['table']}")
    show_tables(documents, output)
    return failure.DONE if all(proof.is_sound for proof in proofs) else failure.FAILED


def _with_dead_letters(target: TableTarget, topics: tuple[str, ...]) -> list[TableTarget]:
    """The tables meant, each followed by that of its dead letters if there is one."""
    from flaremq.pipeline.tables.open import find_table

    if target.is_for_each_topic and not topics:
        raise InvalidArgumentError(f"{target.text} stands for many tables: say whose with --topic")
    tables = [target.for_topic(topic) for topic in topics] if target.is_for_each_topic else [target]
    found = []
    for table in tables:
        found.append(table)
        if find_table(table.dead_letters) is not None:
            found.append(table.dead_letters)
    return found

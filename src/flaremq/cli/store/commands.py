"""``flaremq store``: a store directory, offline.

``info``, ``dump``, ``verify`` and ``query`` change nothing, not even a modification time, and take a shared
lock so that nobody else does meanwhile. ``recover`` opens the store for writing as a broker would;
``rescue`` only ever writes to the folder it is given.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import (
    END_OF_TIME_MS,
    body_option,
    moment_value,
    output_option,
    path_argument,
    read_options,
    read_properties,
    store_options,
)
from flaremq.cli.progress import bytes_progress

if TYPE_CHECKING:
    from flaremq.storage.at_rest.reader import StoreReader
    from flaremq.storage.log.walk import DamagedRange
    from flaremq.storage.verify.finding import Finding

# On a terminal; JSON has all fields.
_MESSAGE_COLUMNS = ("physicalOffset", "topic", "queueId", "queueOffset", "tags", "keys", "body")


@click.group(
    cls=LazyGroup,
    elsewhere={
        "recover": ("flaremq.cli.store.repair:recover", "Open the store as a broker would, then close it cleanly."),
        "rescue": (
            "flaremq.cli.store.repair:rescue",
            "Write a new, healthy store from what a damaged one holds.",
        ),
    },
)
def store() -> None:
    """Look into a store directory written by us or by RocketMQ 4.9/5.x, check it, repair it.

    Works on a store at rest; one that a running process holds is refused (exit code 3).
    """


def open_reader(path: str, config_file: str | None, assignments: tuple[str, ...]) -> StoreReader:
    """The store at ``path``; sizes are read off its files, what cannot be comes from the options."""
    from flaremq.storage.at_rest.indexes import IndexGeometry
    from flaremq.storage.at_rest.reader import StoreReader

    properties = read_properties(config_file, assignments, path)
    options = read_options(properties)
    geometry = None
    if "maxHashSlotNum" in properties or "maxIndexNum" in properties:
        geometry = IndexGeometry(options.max_hash_slot_num, options.max_index_num)
    folders = options.commit_log_folders(path) if options.store_path_commit_log else []
    return StoreReader.open(path, commit_log_paths=folders, index_geometry=geometry)


@store.command()
@path_argument
@click.option("--page-cache", is_flag=True, help="Add the share of each file that is in memory.")
@store_options
@output_option("json", "jsonl", "table")
def info(
    path: str, page_cache: bool, config_file: str | None, assignments: tuple[str, ...], output: str | None
) -> None:
    """What is in the store: log, queues, index, checkpoint, how it was closed, what opening it would do."""
    from flaremq.cli.store import info as store_info

    with (
        open_reader(path, config_file, assignments) as reader,
        bytes_progress("reading the log", reader.log_min, reader.log.run.end) as progress,
    ):
        result = store_info.describe(reader, page_cache=page_cache, on_progress=progress)
    store_info.show(result, output)


@store.command()
@path_argument
@click.option("--topic", help="Only messages of this topic.")
@click.option("--queue-id", type=int, help="Only messages of this queue.")
@click.option("--from", "start", type=click.IntRange(min=0), default=0, help="First physical offset (included).")
@click.option("--to", "end", type=click.IntRange(min=0), help="Last physical offset (not included).")
@body_option
@store_options
@output_option("jsonl", "json", "table")
def dump(
    path: str,
    topic: str | None,
    queue_id: int | None,
    start: int,
    end: int | None,
    body: str,
    config_file: str | None,
    assignments: tuple[str, ...],
    output: str | None,
) -> int:
    """Every message in physical order, one JSON object each.

    Damaged ranges are stepped over, named on stderr, and make the exit code 4. After a crash the dump ends
    where recovery would cut the log.
    """
    from flaremq.message.message_ext import MessageExt

    damaged: list[DamagedRange] = []
    with (
        open_reader(path, config_file, assignments) as reader,
        # On a terminal the messages themselves show how far it is.
        bytes_progress(
            "reading the log", max(start, reader.log_min), end or reader.log.run.end, show=not sys.stdout.isatty()
        ) as progress,
    ):

        def messages() -> Any:
            for offset, record in reader.records(start, end, on_damage=damaged.append):
                message = MessageExt(record)
                if (topic is None or message.topic == topic) and (queue_id is None or message.queue_id == queue_id):
                    yield message.to_dict(body=body)  # type: ignore[arg-type]  # click has checked the choice
                progress(offset)

        out.print_rows(messages(), output, columns=_MESSAGE_COLUMNS)
    for lost in damaged:
        span = f"physical offsets {lost.start} to {lost.end - 1}"
        out.note(f"flaremq: {lost.path}: {span} are damaged: {lost.reason}")
    return failure.DAMAGED if damaged else failure.DONE


@store.command()
@path_argument
@store_options
@output_option("json", "jsonl", "table")
def verify(path: str, config_file: str | None, assignments: tuple[str, ...], output: str | None) -> int:
    """Check every record, queue unit, index entry and file against each other.

    Exit code 0: healthy (there may be notes), 1: warnings only, 4: damage.
    """
    from flaremq.message.delay import parse_delay_levels
    from flaremq.storage.verify.verifier import StoreVerifier

    levels = parse_delay_levels(read_options(read_properties(config_file, assignments)).message_delay_level)
    with (
        open_reader(path, config_file, assignments) as reader,
        bytes_progress("checking", reader.log_min, reader.log_end) as progress,
    ):
        verifier = StoreVerifier(reader, delay_levels=levels, on_progress=progress)
        findings = list(verifier.findings())
    summary = verifier.summary
    chosen = out.chosen(output, in_pipe=out.JSON)
    if chosen == out.JSON:
        out.print_json({"summary": summary.to_dict(), "findings": [finding.to_dict() for finding in findings]})
    elif chosen == out.JSONL:
        out.print_rows((finding.to_dict() for finding in findings), out.JSONL)
        out.print_rows([{"summary": summary.to_dict()}], out.JSONL)
    else:
        _show_findings(findings, path)
        out.print_record(summary.to_dict(), title="\nsummary")
    if summary.damaged:
        return failure.DAMAGED
    return failure.DONE if summary.healthy else failure.FAILED


def _show_findings(findings: list[Finding], path: str) -> None:
    """Two lines each: a table would have no room for the sentence."""
    root = os.path.abspath(path) + os.sep
    for finding in findings:
        place = finding.path.removeprefix(root) + ("" if finding.offset is None else f" at {finding.offset}")
        out.echo(f"{finding.severity:<8} {finding.kind:<20} {place}\n         {finding.detail}")


@store.command()
@path_argument
@click.option("--topic", required=True, help="The topic, as stored.")
@click.option("--key", required=True, help="One of the message's keys, or its unique key.")
@click.option("--max", "max_count", type=click.IntRange(min=1), default=32, show_default=True, help="Newest N at most.")
@click.option(
    "--begin",
    metavar="TIME",
    default="earliest",
    show_default=True,
    callback=moment_value,
    help="Stored at or after: 2h (ago), an ISO date and time, milliseconds since 1970.",
)
@click.option("--end", metavar="TIME", callback=moment_value, help="Stored at or before this time.")
@body_option
@store_options
@output_option("jsonl", "json", "table")
def query(
    path: str,
    topic: str,
    key: str,
    max_count: int,
    begin: int,
    end: int | None,
    body: str,
    config_file: str | None,
    assignments: tuple[str, ...],
    output: str | None,
) -> int:
    """Messages by key, through the index files, in physical order.

    Exit code 1 if there is none.
    """
    with open_reader(path, config_file, assignments) as reader:
        found = reader.query(topic, key, max_count, begin, END_OF_TIME_MS if end is None else end)
        rows = [message.to_dict(body=body) for message in found]  # type: ignore[arg-type]  # checked by click
    if not rows:
        out.note(f"flaremq: no message of topic {topic} has the key {key}")
    out.print_rows(rows, output, columns=_MESSAGE_COLUMNS, title="messages")
    return failure.DONE if rows else failure.FAILED

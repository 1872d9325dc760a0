"""``flaremq store recover`` and ``rescue``: the two verbs that write.

``recover`` is what a broker does when it starts, and nothing more: open, which cuts a torn tail and
completes queues and index, then close cleanly. ``rescue`` leaves the store alone and writes a new one
elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.parameters import output_option, path_argument, read_properties, store_options
from flaremq.cli.progress import bytes_progress
from flaremq.cli.store.commands import open_reader

if TYPE_CHECKING:
    from flaremq.storage.engine.recovery import RecoveryReport

_PLACES_NAMED = 8  # of records in doubt; the report in the new store has all


@click.command()
@path_argument
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@store_options
@output_option("json", "jsonl", "table")
def recover(path: str, dry_run: bool, config_file: str | None, assignments: tuple[str, ...], output: str | None) -> int:
    """Open the store as a broker would, then close it cleanly.

    A torn tail is cut off (and kept aside if whole records follow), queues and index are completed from the
    log. Damage in the middle of the log stays where it is and makes the exit code 4: see rescue.
    """
    from flaremq.cli.store import info as store_info
    from flaremq.storage.at_rest.outlook import outlook_of
    from flaremq.storage.message_store import MessageStore
    from flaremq.storage.rescue.rescue import options_of

    with open_reader(path, config_file, assignments) as reader:
        properties = read_properties(config_file, assignments)
        properties.setdefault("storePathCommitLog", ",".join(reader.layout.commit_log_paths))
        options = options_of(reader, properties)
        if dry_run:
            with bytes_progress("reading the log", reader.log_min, reader.log.run.end) as progress:
                outlook = outlook_of(reader, progress)
            _show({"dryRun": True, **store_info.describe_outlook(outlook)}, output)
            return failure.DAMAGED if outlook.damaged else failure.DONE
    store = MessageStore.open(path, options)
    report = store.recovery
    store.close()
    # Opening reads only what it must; this verb answers for the whole log.
    with (
        open_reader(path, config_file, assignments) as reader,
        bytes_progress("reading the log", reader.log_min, reader.log.run.end) as progress,
    ):
        damaged = outlook_of(reader, progress).damaged
    ranges = [{"start": lost.start, "end": lost.end, "reason": lost.reason} for lost in damaged]
    _show({"dryRun": False, **_describe(report), "damagedRanges": ranges}, output)
    return failure.DAMAGED if damaged or report.damaged else failure.DONE


def _describe(report: RecoveryReport) -> dict[str, Any]:
    return {
        "closedCleanly": report.closed_cleanly,
        "logEnd": report.log_end,
        "truncatedBytes": report.truncated_bytes,
        "savedTail": report.saved_tail,
        "dispatchedFrom": report.started_at,
        "dispatchedTo": report.log_end,
        "rebuilt": report.rebuilt,
    }


@click.command()
@path_argument
@click.option(
    "--to",
    "target",
    metavar="DIR",
    required=True,
    type=click.Path(),
    help="New folder for the healthy store.",
)
@store_options
@output_option("json", "jsonl", "table")
def rescue(path: str, target: str, config_file: str | None, assignments: tuple[str, ...], output: str | None) -> int:
    """Write a new, healthy store from whatever valid records a damaged one holds.

    Records keep times, hosts, properties and bodies; physical offsets are new and queue offsets count from
    0 without holes. The report says what was lost and how offsets moved; it is also kept in DIR as
    flaremq.rescue.json. Exit code 1: something was lost, or is kept but in doubt.
    """
    from flaremq.storage.rescue.rescue import rescue_store

    with (
        open_reader(path, config_file, assignments) as reader,
        bytes_progress("copying records", reader.log_min, reader.log.run.end) as progress,
    ):
        report = rescue_store(reader, target, on_progress=progress)
    for complaint in report.complaints:
        out.note(f"flaremq: {complaint}")
    if report.damaged or report.lost:
        ranges = f"{len(report.damaged)} range(s) of the log hold no record"
        out.note(f"flaremq: {report.lost_messages} message(s) are lost, {ranges}: lostRanges and queues say which")
    if report.doubtful:
        places = ", ".join(map(str, report.doubtful[:_PLACES_NAMED])) + ", …" * (len(report.doubtful) > _PLACES_NAMED)
        out.note(
            f"flaremq: {len(report.doubtful)} record(s) are kept although queue, index or their own form denies them: "
            f"formerly at {places}"
        )
    _show(report.to_dict(), output)
    return failure.DONE if report.is_whole else failure.FAILED


def _show(result: dict[str, Any], output: str | None) -> None:
    def show() -> None:
        lists = {name for name, value in result.items() if isinstance(value, list)}
        out.print_record({name: value for name, value in result.items() if name not in lists})
        for name in sorted(lists):
            if result[name] and isinstance(result[name][0], dict):
                out.print_rows(result[name], out.TABLE, title=f"\n{name}")

    out.print_object(result, output, show)

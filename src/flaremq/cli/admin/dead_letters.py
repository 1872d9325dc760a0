"""``flaremq message dead-letters`` and ``resend``: what a group could not handle, and giving it to the group again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.administration import administer, administer_in_parts, name_server_option
from flaremq.cli.admin.names import complete_group
from flaremq.cli.confirmation import asks, confirmed, yes_option
from flaremq.cli.parameters import body_option, moment_value, output_option
from flaremq.message.topics import dlq_topic

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.consumer.received import ReceivedMessage

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = out.headings("messageId=id, storeTimestamp=since, originTopic=topic, deliveries=tries, keys, body")
_RESULT_COLUMNS = out.headings("messageId=id, topic, status, error")
_AT_ONCE = 64
_NAMED = 5  # messages in a question


def _selection(command: F) -> F:
    for decorate in (
        click.option("--until", "last_ms", callback=moment_value, metavar="TIME", help="Dead by this time."),
        click.option("--from", "first_ms", callback=moment_value, metavar="TIME", help="Dead since this time."),
        click.option("--id", "ids", metavar="ID", multiple=True, help="The message with this id (repeatable)."),
        click.option("--group", required=True, metavar="GROUP", shell_complete=complete_group, help="The group."),
    ):
        command = decorate(command)
    return command


@click.command(name="dead-letters")
@_selection
@click.option("--max", "max_count", type=click.IntRange(min=1), help="So many at most.")
@body_option
@name_server_option
@output_option("jsonl", "json", "table")
def dead_letters(
    group: str,
    ids: tuple[str, ...],
    first_ms: int | None,
    last_ms: int | None,
    max_count: int | None,
    body: str,
    name_servers: str,
    output: str | None,
) -> None:
    """What a group could not handle: where it came from, how often it was tried, since when it lies there."""

    def rows() -> Iterator[dict[str, Any]]:
        left = max_count
        for part in administer_in_parts(name_servers, lambda admin: _find(admin, group, ids, first_ms, last_ms)):
            for found in part[:left]:
                yield _row(found, body)
            if left is not None:
                left -= len(part[:left])
                if left == 0:
                    return

    out.print_rows(rows(), output, columns=_COLUMNS, times=("storeTimestamp",), title=f"dead letters of {group}")


@click.command()
@_selection
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option(
    "--to",
    "target",
    type=click.Choice(["group", "topic"]),
    default="group",
    show_default=True,
    help="To this group alone, or to the topic they came from: all its groups get them.",
)
@click.option("--dry-run", is_flag=True, help="Only say which would be sent.")
@yes_option
@name_server_option
@output_option("jsonl", "json", "table")
def resend(
    group: str,
    ids: tuple[str, ...],
    first_ms: int | None,
    last_ms: int | None,
    everything: bool,
    target: str,
    dry_run: bool,
    yes: bool,
    name_servers: str,
    output: str | None,
) -> int:
    """Give a group its dead letters once more: some by --id, those of a time, or --all.

    Topic, id, keys, properties and body are those of the first time, attempts count from the beginning. At a terminal
    it asks first. Prints what became of each message; exit code 1 if one could not be sent, or none was found.
    """
    if not (ids or everything or first_ms is not None or last_ms is not None):
        raise click.UsageError("Say which: --id ID, --from TIME, --until TIME or --all.")

    def find() -> list[ReceivedMessage]:
        parts = administer_in_parts(name_servers, lambda admin: _find(admin, group, ids, first_ms, last_ms))
        return [message for part in parts for message in part]

    found = find()
    if not found:
        out.note(f"flaremq: group {group} has no such dead letter")
        return failure.FAILED
    if dry_run:
        rows = [_row(message, "none") for message in found]
        title = f"would be sent to {_target(group, target)}"
        out.print_rows(rows, output, columns=_COLUMNS, times=("storeTimestamp",), title=title)
        return failure.DONE
    if asks(yes) and not confirmed(_question(group, target, found), yes=yes, otherwise="nothing was sent"):
        return failure.FAILED
    results = administer(name_servers, lambda admin: _resend(admin, group, found, to_all_groups=target == "topic"))
    out.print_rows(results, output, columns=_RESULT_COLUMNS, title="dead letters")
    failed = sum("error" in row for row in results)
    if failed:
        out.note(f"flaremq: {failed} of {len(results)} dead letters could not be sent")
    return failure.FAILED if failed else failure.DONE


def _target(group: str, target: str) -> str:
    return f"group {group}" if target == "group" else "all groups of their topics"


def _question(group: str, target: str, found: list[ReceivedMessage]) -> str:
    named = ", ".join(message.message_id for message in found[:_NAMED]) + ", …" * (len(found) > _NAMED)
    count = "1 dead letter" if len(found) == 1 else f"{len(found)} dead letters"
    return f"Send {count} ({named}) to {_target(group, target)}?"


def _row(message: ReceivedMessage, body: str) -> dict[str, Any]:
    from flaremq.cli.admin.message import message_row
    from flaremq.client.admin.dead_letters import origin_id, origin_topic

    origin = {"originTopic": origin_topic(message), "originMessageId": origin_id(message)}
    return {**origin, "deliveries": message.reconsume_times, **message_row(message, body)}


async def _find(
    admin: AdminTool, group: str, ids: tuple[str, ...], first_ms: int | None, last_ms: int | None
) -> AsyncGenerator[list[ReceivedMessage], None]:
    """The dead letters of a group, queue by queue; those that were meant."""
    from flaremq.cli.admin.message_read import read_queue
    from flaremq.client.admin.dead_letters import origin_id
    from flaremq.errors import NotFoundError

    try:
        queues = await admin.queues(dlq_topic(group))
    except NotFoundError:
        if group not in await admin.list_groups():
            raise NotFoundError(f"group {group!r} does not exist") from None
        return  # a broker makes the topic with the first dead letter
    wanted = set(ids)
    for queue in queues:
        first = await (admin.offset_by_time(queue, first_ms) if first_ms else admin.min_offset(queue))
        async for part in read_queue(admin, queue, first, last_ms, "*"):
            kept = [
                message
                for message in part
                if message.store_timestamp >= (first_ms or 0)
                and (not wanted or wanted & {message.message_id, message.offset_message_id, origin_id(message)})
            ]
            if kept:
                yield kept


async def _resend(
    admin: AdminTool, group: str, messages: list[ReceivedMessage], *, to_all_groups: bool
) -> list[dict[str, Any]]:
    """What became of each, in order."""
    import asyncio

    from flaremq.errors import FlareMQError

    async def one(message: ReceivedMessage) -> dict[str, Any]:
        row: dict[str, Any] = {
            "messageId": message.message_id,
            "broker": message.queue.broker_name,
            "queueOffset": message.queue_offset,
        }
        try:
            sent = await admin.resend_dead_letter(group, message, to_all_groups=to_all_groups)
        except FlareMQError as error:
            return row | {"topic": None, "status": "FAILED", "error": str(error)}
        place = {"newBroker": sent.broker_name, "newQueueId": sent.queue_id, "newQueueOffset": sent.queue_offset}
        return row | {"topic": sent.topic, "status": sent.status.value, **place}

    results: list[dict[str, Any]] = []
    for start in range(0, len(messages), _AT_ONCE):
        results += await asyncio.gather(*(one(message) for message in messages[start : start + _AT_ONCE]))
    return results

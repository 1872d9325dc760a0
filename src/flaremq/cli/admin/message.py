"""``flaremq message``: send messages, find them, read them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import failure
from flaremq.cli import output as out
from flaremq.cli.admin.administration import (
    administer,
    hinted,
    name_server_option,
    producer_of,
    topic_argument,
)
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import END_OF_TIME_MS, body_option, duration_value, output_option, time_value

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.consumer.received import ReceivedMessage
    from flaremq.client.producer.producer import Producer
    from flaremq.client.producer.send_result import SendResult
    from flaremq.message.message import Message
    from flaremq.protocol.bodies.queue import MessageQueue

_COLUMNS = out.headings("brokerName=broker, queueId=queue, queueOffset=offset, storeTimestamp=stored, tags, keys, body")
_SENT_COLUMNS = out.headings("messageId, status, broker, queueId=queue, queueOffset=offset")
_SENDS_AT_ONCE = 512
_TIMES = ("bornTimestamp", "storeTimestamp")


@click.group(
    name="message",
    cls=LazyGroup,
    elsewhere={
        "dead-letters": (
            "flaremq.cli.admin.dead_letters:dead_letters",
            "What a group could not handle.",
        ),
        "resend": ("flaremq.cli.admin.dead_letters:resend", "Give a group its dead letters once more."),
        "print": ("flaremq.cli.admin.message_read:print_", "The messages a topic holds now, queue by queue."),
        "tail": ("flaremq.cli.admin.message_read:tail", "Messages as they come in, until Ctrl-C."),
    },
)
def message() -> None:
    """Send messages, find them by key or id, read a topic."""


def message_row(found: ReceivedMessage, body: str) -> dict[str, Any]:
    """All fields of a message, its broker included."""
    return {
        "messageId": found.message_id,
        "offsetMessageId": found.offset_message_id,
        "brokerName": found.queue.broker_name,
        **found.to_dict(body=body),  # type: ignore[arg-type]  # click has checked the choice
    }


def print_messages(rows: Iterable[dict[str, Any]], output: str | None) -> None:
    out.print_rows(rows, output, columns=_COLUMNS, times=_TIMES, title="messages")


@message.command()
@topic_argument
@click.argument("body", metavar="[BODY]", required=False)
@click.option("--lines", is_flag=True, help="Send each line of stdin as a message, empty ones left out.")
@click.option("--tags", metavar="TAG", help="The tag by which consumers filter.")
@click.option("--key", "keys", metavar="KEY", multiple=True, help="A business key to find it by (repeatable).")
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="A property (repeatable).")
@click.option("--delay", callback=duration_value, metavar="DURATION", help="Deliver it so much later, as in 10s, 5m.")
@click.option("--delay-level", type=click.IntRange(1, 18), help="Deliver it later, by RocketMQ's level (3 is 10 s).")
@click.option("--ordering-key", metavar="KEY", help="Messages of one key go to one queue, in order.")
@click.option("--broker", metavar="NAME", help="Send it to a queue of this broker.")
@click.option("--queue-id", type=click.IntRange(min=0), help="Send it to this queue.")
@name_server_option
@output_option("jsonl", "json", "table")
def send(
    topic: str,
    body: str | None,
    lines: bool,
    tags: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    delay: float | None,
    delay_level: int | None,
    ordering_key: str | None,
    broker: str | None,
    queue_id: int | None,
    name_servers: str,
    output: str | None,
) -> int:
    """Send a message, its body from the command line or from stdin.

    Exit code 1 if a message is stored, but not on disk or on a replica in time.
    """
    import asyncio

    from flaremq.message.message import Message
    from flaremq.options import parse_assignments

    has_queue = broker is not None or queue_id is not None
    if sum((delay is not None, delay_level is not None, ordering_key is not None, has_queue)) > 1:
        raise click.UsageError("Give only one of --delay, --delay-level, --ordering-key and --broker/--queue-id.")
    bodies = _bodies(body, lines)
    named = parse_assignments(properties, option="--property")
    messages = [Message(topic, data, tags=tags, keys=keys or None, properties=named or None) for data in bodies]

    async def run() -> list[SendResult]:
        # One by one: lines that travel together would lie together, and leave other queues empty.
        async with producer_of(name_servers, auto_batch=False) as producer:
            queue = chosen_queues(await producer.queues(topic), topic, broker, queue_id)[0] if has_queue else None
            results: list[SendResult] = []
            for start in range(0, len(messages), _SENDS_AT_ONCE):
                part = messages[start : start + _SENDS_AT_ONCE]
                results += await asyncio.gather(
                    *(_send(producer, item, queue, ordering_key, delay, delay_level) for item in part)
                )
            return results

    with hinted(name_servers):
        results = asyncio.run(run())
    _print_results(results, output)
    return failure.DONE if all(result.ok for result in results) else failure.FAILED


def _print_results(results: list[SendResult], output: str | None) -> None:
    rows = [
        {
            "messageId": result.message_id,
            "offsetMessageId": result.offset_message_id,
            "status": result.status.value,
            "broker": result.queue.broker_name,
            "queueId": result.queue.queue_id,
            "queueOffset": result.queue_offset,
        }
        for result in results
    ]
    if len(rows) == 1 and out.chosen(output, in_pipe=out.JSONL) == out.TABLE:
        out.print_record(rows[0])  # one field a line: a table would cut one of two ids
    else:
        out.print_rows(rows, output, columns=_SENT_COLUMNS)


def _bodies(body: str | None, lines: bool) -> list[bytes]:
    if body is not None:
        if lines:
            raise click.UsageError("--lines reads bodies from stdin; leave BODY out.")
        return [body.encode()]
    data = sys.stdin.buffer.read()
    if not lines:
        return [data]
    lines_read = (line.removesuffix(b"\r") for line in data.split(b"\n"))
    return [line for line in lines_read if line]  # a message has a body


def chosen_queues(
    queues: list[MessageQueue], topic: str, broker: str | None, queue_id: int | None
) -> list[MessageQueue]:
    """The queues of a topic that ``--broker`` and ``--queue-id`` name, at least one."""
    from flaremq.errors import NotFoundError

    found = [queue for queue in queues if broker in (None, queue.broker_name) and queue_id in (None, queue.queue_id)]
    if not found:
        known = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in queues) or "none"
        raise NotFoundError(f"topic {topic!r} has no such queue; there is: {known}")
    return found


async def _send(
    producer: Producer,
    message: Message,
    queue: MessageQueue | None,
    ordering_key: str | None,
    delay: float | None,
    delay_level: int | None,
) -> SendResult:
    if delay is not None:
        return await producer.send_delayed(message, seconds=delay)
    if delay_level is not None:
        return await producer.send_delayed(message, level=delay_level)
    if ordering_key is not None:
        return await producer.send_ordered(message, ordering_key)
    return await producer.send(message, queue=queue)


@message.command()
@topic_argument
@click.option("--key", metavar="KEY", required=True, help="One of the message's business keys.")
@click.option("--max", "max_count", type=click.IntRange(min=1), default=64, show_default=True, help="So many at most.")
@click.option("--begin", callback=time_value, metavar="TIME", default="earliest", help="Stored at or after this time.")
@click.option("--end", callback=time_value, metavar="TIME", help="Stored at or before this time.")
@body_option
@name_server_option
@output_option("jsonl", "json", "table")
def query(
    topic: str, key: str, max_count: int, begin: int, end: int | None, body: str, name_servers: str, output: str | None
) -> int:
    """Messages by key, oldest first. Exit code 1 if there is none."""

    async def work(admin: AdminTool) -> list[dict[str, Any]]:
        until = END_OF_TIME_MS if end is None or end < 0 else end
        found = await admin.query_by_key(topic, key, max_count=max_count, begin_ms=begin, end_ms=until)
        return [message_row(item, body) for item in found]

    rows = administer(name_servers, work)
    if not rows:
        out.note(f"flaremq: no message of topic {topic} has the key {key}")
    print_messages(rows, output)
    return failure.DONE if rows else failure.FAILED


@message.command()
@topic_argument
@click.argument("message_id", metavar="[ID]", required=False)
@click.option("--queue-id", type=click.IntRange(min=0), help="Instead of an id: the queue it is in.")
@click.option("--offset", type=click.IntRange(min=0), help="Instead of an id: its offset in that queue.")
@click.option("--broker", metavar="NAME", help="The broker of that queue, where there are several.")
@click.option("--track", is_flag=True, help="Add how each group stands with it.")
@body_option
@name_server_option
@output_option("json", "jsonl", "table")
def get(
    topic: str,
    message_id: str | None,
    queue_id: int | None,
    offset: int | None,
    broker: str | None,
    track: bool,
    body: str,
    name_servers: str,
    output: str | None,
) -> None:
    """One message, by the id its sender got, by its offset id, or by its place in a queue."""
    if (message_id is None) == (queue_id is None or offset is None):
        raise click.UsageError("Give either an id, or --queue-id and --offset.")

    async def work(admin: AdminTool) -> dict[str, Any]:
        if message_id is not None:
            found = await admin.get_message(topic, message_id)
        else:
            assert queue_id is not None and offset is not None
            queues = chosen_queues(await admin.queues(topic), topic, broker, queue_id)
            if len(queues) > 1:
                names = ", ".join(queue.broker_name for queue in queues)
                raise click.UsageError(f"Queue {queue_id} exists on {names}: choose one with --broker.")
            found = await admin.message_at(queues[0], offset)
        row = message_row(found, body)
        if track:
            row["tracks"] = [
                {"group": item.group, "state": item.track_type.value, "remark": item.remark or None}
                for item in await admin.message_track(found)
            ]
        return row

    row = administer(name_servers, work)

    def show() -> None:
        tracks = row.pop("tracks", None)
        out.print_record({name: out.local_text(value) if name in _TIMES else value for name, value in row.items()})
        if tracks is not None:
            out.print_rows(tracks, out.TABLE, columns=("group", "state", "remark"), title="\ngroups")

    out.print_object(row, output, show)

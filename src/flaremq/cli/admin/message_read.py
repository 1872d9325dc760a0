"""``flaremq message print`` and ``tail``: reading a topic without being a consumer of it.

Nothing is committed and no group is left behind.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Any

import click

from flaremq.cli import output as out
from flaremq.cli.admin.administration import administer_in_parts, name_server_option, topic_argument
from flaremq.cli.admin.message import chosen_queues, message_row, print_messages
from flaremq.cli.parameters import body_option, output_option, time_value
from flaremq.visible import visible

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.consumer.received import ReceivedMessage
    from flaremq.client.consumer.subscription import Expression
    from flaremq.protocol.bodies.queue import MessageQueue

_HOLD_MS = 15_000
_LATE_MS = 60_000  # how much older than its predecessor a message may be: clocks are set back now and then
_tags_option = click.option("--tags", metavar="EXPR", default=None, help="Only these tags, as in 'paid || shipped'.")
_sql_option = click.option("--sql", metavar="EXPR", default=None, help="Only what this SQL92 expression selects.")


def _expression(tags: str | None, sql: str | None) -> Expression:
    from flaremq.client.consumer.subscription import SqlFilter
    from flaremq.message.tags import ALL_TAGS

    if tags is not None and sql is not None:
        raise click.UsageError("Give --tags or --sql, not both.")
    return SqlFilter(sql) if sql is not None else tags or ALL_TAGS


async def _start_offset(admin: AdminTool, queue: MessageQueue, timestamp_ms: int) -> int:
    if timestamp_ms < 0:
        return await admin.max_offset(queue)
    return await (admin.min_offset(queue) if timestamp_ms == 0 else admin.offset_by_time(queue, timestamp_ms))


@click.command(name="print")
@topic_argument
@click.option("--broker", metavar="NAME", help="Only the queues of this broker.")
@click.option("--queue-id", type=click.IntRange(min=0), help="Only the queues of this number.")
@click.option("--offset", type=click.IntRange(min=0), help="Begin at this offset; needs --queue-id.")
@click.option(
    "--begin", callback=time_value, metavar="TIME", default="earliest", help="Begin with what was stored at this time."
)
@click.option("--end", callback=time_value, metavar="TIME", help="End with what was stored at this time.")
@click.option("--max", "max_count", type=click.IntRange(min=1), help="So many messages at most.")
@_tags_option
@_sql_option
@body_option
@name_server_option
@output_option("jsonl", "json", "table")
def print_(
    topic: str,
    broker: str | None,
    queue_id: int | None,
    offset: int | None,
    begin: int,
    end: int | None,
    max_count: int | None,
    tags: str | None,
    sql: str | None,
    body: str,
    name_servers: str,
    output: str | None,
) -> None:
    """The messages a topic holds now, queue by queue, in their order."""
    expression = _expression(tags, sql)
    if offset is not None and queue_id is None:
        raise click.UsageError("--offset needs --queue-id.")
    last = None if end is None or end < 0 else end

    async def work(admin: AdminTool) -> AsyncGenerator[list[ReceivedMessage], None]:
        for queue in chosen_queues(await admin.queues(topic), topic, broker, queue_id):
            first = offset if offset is not None else await _start_offset(admin, queue, begin)
            async for part in read_queue(admin, queue, first, last, expression):
                yield part

    def rows() -> Iterator[dict[str, Any]]:
        left = max_count
        for part in administer_in_parts(name_servers, work):
            for found in part:
                yield message_row(found, body)
                if left is not None:
                    left -= 1
                    if left == 0:
                        return

    print_messages(rows(), output)


async def read_queue(
    admin: AdminTool, queue: MessageQueue, offset: int, last_ms: int | None, expression: Expression
) -> AsyncGenerator[list[ReceivedMessage], None]:
    """What a queue holds from an offset on, up to what is there when the reading begins."""
    end = await admin.max_offset(queue)
    while offset < end:
        result = await admin.pull(queue, offset, expression=expression)
        found = [message for message in result.messages if message.queue_offset < end]
        kept = [message for message in found if last_ms is None or message.store_timestamp <= last_ms]
        if kept:
            yield kept
        if result.next_offset <= offset or (
            last_ms is not None and found and found[-1].store_timestamp > last_ms + _LATE_MS
        ):
            return
        offset = result.next_offset


@click.command(name="tail")
@topic_argument
@click.option(
    "--from",
    "start",
    callback=time_value,
    metavar="TIME",
    default="latest",
    help="Begin earlier: earliest, 10m (ago), an ISO date and time.  [default: latest]",
)
@click.option("--max", "max_count", type=click.IntRange(min=1), help="End after so many messages.")
@_tags_option
@_sql_option
@body_option
@name_server_option
@output_option("jsonl", "table")
def tail(
    topic: str,
    start: int,
    max_count: int | None,
    tags: str | None,
    sql: str | None,
    body: str,
    name_servers: str,
    output: str | None,
) -> None:
    """Messages as they come in, until Ctrl-C."""
    expression = _expression(tags, sql)
    left = max_count

    async def work(admin: AdminTool) -> AsyncGenerator[list[ReceivedMessage], None]:
        queues = await admin.queues(topic)
        offsets = {queue: await _start_offset(admin, queue, start) for queue in queues}
        async for part in follow(admin, offsets, expression):
            yield part

    chosen = out.chosen(output, in_pipe=out.JSONL)
    for part in administer_in_parts(name_servers, work):
        for found in part[:left]:
            row = message_row(found, body)
            if chosen == out.TABLE:
                out.echo(_line(row))
            else:
                out.print_rows([row], out.JSONL)
        sys.stdout.flush()
        if left is not None:
            left -= len(part[:left])
            if left == 0:
                return


def _line(row: dict[str, Any]) -> str:
    place = f"{row['brokerName']}/{row['queueId']}@{row['queueOffset']}"
    names = " ".join(text for text in (row["tags"], row["keys"]) if text)
    text = visible(row.get("body") or "")
    return f"{out.local_text(row['storeTimestamp'])}  {place}  {names or '-'}  {text}"


async def follow(
    admin: AdminTool, offsets: dict[MessageQueue, int], expression: Expression
) -> AsyncGenerator[list[ReceivedMessage], None]:
    """Messages of all these queues as they come, without an end; a broker that is away is asked again."""
    import asyncio

    from flaremq.errors import UnavailableError

    arrived: asyncio.Queue[list[ReceivedMessage] | BaseException] = asyncio.Queue(maxsize=len(offsets))

    async def watch(queue: MessageQueue, offset: int) -> None:
        try:
            while True:
                try:
                    result = await admin.pull(queue, offset, hold_ms=_HOLD_MS, expression=expression)
                except UnavailableError:
                    await asyncio.sleep(1)
                    continue
                if result.messages:
                    await arrived.put(result.messages)
                offset = result.next_offset
        except Exception as error:
            await arrived.put(error)

    tasks = [asyncio.create_task(watch(queue, offset)) for queue, offset in offsets.items()]
    try:
        while True:
            part = await arrived.get()
            if isinstance(part, BaseException):
                raise part
            yield part
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

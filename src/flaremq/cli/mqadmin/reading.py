"""Reading topics in RocketMQ's own spelling."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.text import body_text, message_text, queue_text
from flaremq.cli.output import echo
from flaremq.client.consumer.pulling import PullStatus
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.protocol.bodies.queue import MessageQueue


def _print(message: ReceivedMessage, *, with_body: bool, charset: str) -> None:
    body = body_text(message.body, charset) if with_body else "NOT PRINT BODY"
    echo(f"MSGID: {message.message_id} {message_text(message)} BODY: {body}")


async def _range(admin: AdminTool, queue: MessageQueue, args: Arguments) -> tuple[int, int]:
    """Offsets between the two times that may be args."""
    now_ms = int(time.time() * 1000)
    begin, end = args.time("beginTimestamp", now_ms), args.time("endTimestamp", now_ms)
    first = await (admin.min_offset(queue) if begin is None else admin.offset_by_time(queue, begin))
    last = await (admin.max_offset(queue) if end is None else admin.offset_by_time(queue, end))
    return first, last


async def _read(
    admin: AdminTool, queue: MessageQueue, first: int, last: int, args: Arguments
) -> AsyncIterator[ReceivedMessage]:
    """Messages of a queue between two offsets, the second excluded."""

    expression = args.maybe("subExpression") or "*"
    while first < last:
        result = await admin.pull(queue, first, expression=expression)
        if result.status is PullStatus.NO_MATCHED_MESSAGE:
            echo(f"{queue_text(queue)} no matched msg. status=NO_MATCHED_MSG, offset={result.next_offset}")
        for message in result.messages:
            if message.queue_offset < last:
                yield message
        if result.next_offset <= first:
            break
        first = result.next_offset


async def print_msg(admin: AdminTool, args: Arguments) -> None:
    charset, with_body = args.charset("charsetName"), args.truth("printBody", True)
    for queue in await admin.queues(args.text("topic")):
        first, last = await _range(admin, queue, args)
        echo(f"minOffset={first}, maxOffset={last}, {queue_text(queue)}")
        async for message in _read(admin, queue, first, last, args):
            _print(message, with_body=with_body, charset=charset)
        echo("-" * 56)


async def print_msg_by_queue(admin: AdminTool, args: Arguments) -> None:
    charset = args.charset("charsetName")
    queue = MessageQueue(
        topic=args.text("topic"), broker_name=args.text("brokerName"), queue_id=args.integer("queueId")
    )
    first, last = await _range(admin, queue, args)
    tags: Counter[str] = Counter()
    async for message in _read(admin, queue, first, last, args):
        if message.tags:
            tags[message.tags] += 1
        if args.truth("printMsg"):
            _print(message, with_body=args.truth("printBody"), charset=charset)
    if args.truth("calculate"):
        for tag, count in sorted(tags.items()):
            echo(f"Tag: {tag:<30} Count: {count}")


async def consume_message(admin: AdminTool, args: Arguments) -> None:
    """Unlike the original this commits nothing."""
    count = args.integer("MessageNumber", 128)
    if count < 1:
        args.refuse("--MessageNumber takes 1 or more.")
    broker, queue_id, offset = args.maybe("brokerName"), args.maybe("queueId"), args.maybe("offset")
    if queue_id is not None and broker is None:
        args.refuse("--queueId needs --brokerName.")
    if offset is not None and queue_id is None:
        args.refuse("--offset needs --queueId.")
    if args.maybe("MessageNumber") is not None:
        echo(f"The oldler {count} message will be provided")  # sic, as in the original
    for queue in await admin.queues(args.text("topic")):
        if broker not in (None, queue.broker_name) or queue_id not in (None, str(queue.queue_id)):
            continue
        first, last = await _range(admin, queue, args)
        at = max(first, args.integer("offset")) if offset is not None else first
        while count > 0:
            result = await admin.pull(queue, at, max_count=min(count, 32)) if at < last else None
            messages = [message for message in result.messages if message.queue_offset < last] if result else []
            if result is None or not messages:
                echo(f"{queue_text(queue)} print msg finished. status=NO_NEW_MSG, offset={at}")
                break
            echo("Consume ok")
            for message in messages[:count]:
                _print(message, with_body=True, charset="UTF-8")
            count -= len(messages[:count])
            at = result.next_offset

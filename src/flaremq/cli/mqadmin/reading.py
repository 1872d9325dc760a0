"""Reading topics in RocketMQ's own spelling."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from flaremq.cli.mqadmin.given import Given
from flaremq.cli.output import say

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.consumer.received import ReceivedMessage
    from flaremq.protocol.bodies.queue import MessageQueue


def _print(message: ReceivedMessage, *, with_body: bool, charset: str) -> None:
    from flaremq.cli.mqadmin.text import body_text, message_text

    body = body_text(message.body, charset) if with_body else "NOT PRINT BODY"
    say(f"MSGID: {message.message_id} {message_text(message)} BODY: {body}")


async def _range(admin: AdminTool, queue: MessageQueue, given: Given) -> tuple[int, int]:
    """Offsets between the two times that may be given."""
    now_ms = int(time.time() * 1000)
    begin, end = given.time("beginTimestamp", now_ms), given.time("endTimestamp", now_ms)
    first = await (admin.min_offset(queue) if begin is None else admin.offset_by_time(queue, begin))
    last = await (admin.max_offset(queue) if end is None else admin.offset_by_time(queue, end))
    return first, last


async def _read(
    admin: AdminTool, queue: MessageQueue, first: int, last: int, given: Given
) -> AsyncIterator[ReceivedMessage]:
    """Messages of a queue between two offsets, the second excluded."""
    from flaremq.cli.mqadmin.text import queue_text
    from flaremq.client.consumer.pulling import PullStatus

    expression = given.maybe("subExpression") or "*"
    while first < last:
        result = await admin.pull(queue, first, expression=expression)
        if result.status is PullStatus.NO_MATCHED_MESSAGE:
            say(f"{queue_text(queue)} no matched msg. status=NO_MATCHED_MSG, offset={result.next_offset}")
        for message in result.messages:
            if message.queue_offset < last:
                yield message
        if result.next_offset <= first:
            break
        first = result.next_offset


async def print_msg(admin: AdminTool, given: Given) -> None:
    from flaremq.cli.mqadmin.text import queue_text

    charset, with_body = given.charset("charsetName"), given.truth("printBody", True)
    for queue in await admin.queues(given.text("topic")):
        first, last = await _range(admin, queue, given)
        say(f"minOffset={first}, maxOffset={last}, {queue_text(queue)}")
        async for message in _read(admin, queue, first, last, given):
            _print(message, with_body=with_body, charset=charset)
        say("-" * 56)


async def print_msg_by_queue(admin: AdminTool, given: Given) -> None:
    from flaremq.protocol.bodies.queue import MessageQueue

    charset = given.charset("charsetName")
    queue = MessageQueue(
        topic=given.text("topic"), broker_name=given.text("brokerName"), queue_id=given.integer("queueId")
    )
    first, last = await _range(admin, queue, given)
    tags: Counter[str] = Counter()
    async for message in _read(admin, queue, first, last, given):
        if message.tags:
            tags[message.tags] += 1
        if given.truth("printMsg"):
            _print(message, with_body=given.truth("printBody"), charset=charset)
    if given.truth("calculate"):
        for tag, count in sorted(tags.items()):
            say(f"Tag: {tag:<30} Count: {count}")


async def consume_message(admin: AdminTool, given: Given) -> None:
    """Unlike the original this commits nothing."""
    from flaremq.cli.mqadmin.text import queue_text

    count = given.integer("MessageNumber", 128)
    if count < 1:
        given.refuse("--MessageNumber takes 1 or more.")
    broker, queue_id, offset = given.maybe("brokerName"), given.maybe("queueId"), given.maybe("offset")
    if queue_id is not None and broker is None:
        given.refuse("--queueId needs --brokerName.")
    if offset is not None and queue_id is None:
        given.refuse("--offset needs --queueId.")
    if given.maybe("MessageNumber") is not None:
        say(f"The oldler {count} message will be provided")  # their word
    for queue in await admin.queues(given.text("topic")):
        if broker not in (None, queue.broker_name) or queue_id not in (None, str(queue.queue_id)):
            continue
        first, last = await _range(admin, queue, given)
        at = max(first, given.integer("offset")) if offset is not None else first
        while count > 0:
            result = await admin.pull(queue, at, max_count=min(count, 32)) if at < last else None
            messages = [message for message in result.messages if message.queue_offset < last] if result else []
            if result is None or not messages:
                say(f"{queue_text(queue)} print msg finished. status=NO_NEW_MSG, offset={at}")
                break
            say("Consume ok")
            for message in messages[:count]:
                _print(message, with_body=True, charset="UTF-8")
            count -= len(messages[:count])
            at = result.next_offset

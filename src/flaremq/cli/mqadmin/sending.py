"""Sending messages in RocketMQ's own spelling."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flaremq.cli.admin.administration import producer_of
from flaremq.cli.mqadmin.given import Given
from flaremq.cli.output import say

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

_LAYOUT = "{:<32}  {:<4}  {:<20}    {}"


async def send_message(admin: AdminTool, given: Given) -> None:
    from flaremq.message.message import Message
    from flaremq.protocol.bodies.queue import MessageQueue

    topic, broker = given.text("topic"), given.maybe("broker")
    message = Message(topic, given.text("body").encode(), tags=given.maybe("tags"), keys=given.maybe("key"))
    queue = None
    if given.maybe("qid") is not None:
        if broker is None:
            given.refuse("--qid needs --broker.")
        queue = MessageQueue(topic=topic, broker_name=broker, queue_id=given.integer("qid"))
    async with producer_of(admin.name_servers) as producer:
        if queue is None and broker is not None:
            queue = next((known for known in await producer.queues(topic) if known.broker_name == broker), None)
            if queue is None:
                given.refuse(f"Broker {broker!r} has no queue of {topic!r} to send to.")
        result = await producer.send(message, queue=queue)
    say(_LAYOUT.format("#Broker Name", "#QID", "#Send Result", "#MsgId"))
    place = (result.queue.broker_name, result.queue.queue_id)
    say(_LAYOUT.format(*place, result.status.value, result.message_id))


async def send_msg_status(admin: AdminTool, given: Given) -> None:
    from flaremq.cli.mqadmin.text import send_result_text
    from flaremq.message.message import Message

    # Every broker has a topic of its own name, with one queue.
    message = Message(given.text("brokerName"), b"a" * given.integer("messageSize", 128))
    async with producer_of(admin.name_servers) as producer:
        await producer.send(message)  # the first one also opens the connection
        for _ in range(given.integer("count", 50)):
            began = time.monotonic()
            result = await producer.send(message)
            say(f"rt={round((time.monotonic() - began) * 1000)}ms, SendResult={send_result_text(result)}")


async def check_send_rt(admin: AdminTool, given: Given) -> None:
    from flaremq.errors import FlareMQError
    from flaremq.message.message import Message

    topic = given.text("topic")
    message = Message(topic, b"a" * given.integer("size", 128))
    amount = given.integer("amount", 100)
    total = 0
    say(_LAYOUT.format("#Broker Name", "#QID", "#Send Result", "#RT"))
    async with producer_of(admin.name_servers) as producer:
        queues = await producer.queues(topic)
        for number in range(amount if queues else 0):
            queue = queues[number % len(queues)]
            began = time.monotonic()
            try:
                await producer.send(message, queue=queue)
                outcome = "true"
            except FlareMQError:
                outcome = "false"
            spent = round((time.monotonic() - began) * 1000)
            total += spent if number else 0  # the first one also opens the connection
            say(_LAYOUT.format(queue.broker_name, queue.queue_id, outcome, spent))
    say(f"Avg RT: {total / max(amount - 1, 1):.2f}")

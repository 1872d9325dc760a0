"""Finding and sending messages in RocketMQ's own spelling."""

from __future__ import annotations

import os
import re
import time

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.admin.administration import producer_of
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.text import (
    body_text,
    exact_text,
    indented_json,
    java_map,
    java_text,
    send_result_text,
    sorted_deep,
)
from flaremq.cli.output import echo
from flaremq.cli.parameters import END_OF_TIME_MS
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.errors import FlareMQError, NotFoundError
from flaremq.message.message import Message
from flaremq.message.properties import UNIQUE_KEY
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.frame import FRAME_SIZE_MAX

_HOUR_MS = 3_600_000
_SEND_LAYOUT = "{:<32}  {:<4}  {:<20}    {}"


async def query_by_id(admin: AdminTool, args: Arguments) -> None:
    for message_id in (part.strip() for part in args.text("msgId").split(",")):
        if args.truth("sendMessage"):
            await _send_again(admin, message_id)
        elif args.maybe("clientId") is not None or args.maybe("consumerGroup") is not None:
            await _push(admin, args, message_id)
        else:
            found = await admin.view_message(message_id)
            await _show(admin, found, with_offset_id=True, charset=_body_charset(args))


async def _send_again(admin: AdminTool, message_id: str) -> None:
    found = await admin.view_message(message_id)
    properties = {name: value for name, value in found.properties.items() if name != UNIQUE_KEY}
    async with producer_of(admin.name_servers) as producer:
        result = await producer.send(Message.from_properties(found.topic, found.body, properties, flag=found.flag))
    echo(f"prepare resend msg. originalMsgId={message_id}{send_result_text(result)}")


async def _push(admin: AdminTool, args: Arguments, message_id: str) -> None:
    """Let a consumer have a message again, now."""
    group, client_id = args.maybe("consumerGroup"), args.maybe("clientId")
    if group is None or client_id is None:
        args.refuse("--consumerGroup and --clientId go together.")
    result = await admin.consume_directly(group, client_id, message_id, topic=args.text("topic"))
    values = {
        "order": result.order,
        "autoCommit": result.auto_commit,
        "consumeResult": result.consume_result,
        "remark": result.remark,
        "spentTimeMills": result.spent_time_mills,
    }
    shown = ", ".join(f"{name}={java_text(value)}" for name, value in values.items())
    echo(f"ConsumeMessageDirectlyResult [{shown}]")


async def query_by_key(admin: AdminTool, args: Arguments) -> None:
    topic, key = args.text("topic"), args.text("msgKey")
    if (args.maybe("keyType") or "K") != "K":
        args.refuse("--keyType takes K: messages are indexed by their keys only.")
    found = await admin.query_by_key(
        topic,
        key,
        max_count=args.integer("maxNum", 64),
        begin_ms=args.integer("beginTimestamp"),
        end_ms=args.integer("endTimestamp", END_OF_TIME_MS),
    )
    if not found:
        raise NotFoundError(f"topic {topic!r} has no message with the key {key!r}")
    layout = "{:<50} {:>4} {:>40} {:<200}"
    echo(layout.format("#Message ID", "#QID", "#Offset", "#IndexKey"))
    for message in found:
        hour = message.store_timestamp // _HOUR_MS * _HOUR_MS
        message_id = message.message_id
        index = f"{hour}@{topic}@K@{key}@{message_id}@{message.physical_offset}"
        echo(layout.format(message_id, message.queue_id, message.queue_offset, index))


async def query_by_unique_key(admin: AdminTool, args: Arguments) -> None:
    topic, message_id = args.text("topic"), args.text("msgId")
    found = await admin.query_by_unique_key(
        topic,
        message_id,
        begin_ms=args.integer("startTime"),
        end_ms=args.integer("endTime", END_OF_TIME_MS),
    )
    if not found:
        raise NotFoundError(f"topic {topic!r} has no message with the id {message_id!r}")
    if args.maybe("clientId") is not None or args.maybe("consumerGroup") is not None:
        await _push(admin, args, found[0].offset_message_id)
        return
    for message in found if args.truth("showAll") else found[:1]:
        await _show(admin, message, with_offset_id=False, charset=None)


async def query_by_offset(admin: AdminTool, args: Arguments) -> None:
    queue = MessageQueue(
        topic=args.text("topic"), broker_name=args.text("brokerName"), queue_id=args.integer("queueId")
    )
    found = await admin.message_at(queue, args.integer("offset"))
    await _show(admin, found, with_offset_id=True, charset=_body_charset(args))


def _body_charset(args: Arguments) -> str | None:
    """How to show the body; None not at all."""
    return None if args.maybe("bodyFormat") is None else args.charset("bodyFormat")


async def _show(admin: AdminTool, message: ReceivedMessage, *, with_offset_id: bool, charset: str | None) -> None:
    """All about one message; its body goes to a file."""
    rows = {
        "OffsetID": message.offset_message_id,
        "Topic": message.topic,
        "Tags": f"[{message.tags or 'null'}]",
        "Keys": f"[{' '.join(message.keys)}]",
        "Queue ID": message.queue_id,
        "Queue Offset": message.queue_offset,
        "CommitLog Offset": message.physical_offset,
        "Reconsume Times": message.reconsume_times,
        "Born Timestamp": exact_text(message.born_timestamp),
        "Store Timestamp": exact_text(message.store_timestamp),
        "Born Host": message.born_host,
        "Store Host": message.store_host,
        "System Flag": message.sys_flag,
        "Properties": java_map(message.properties),
        "Message Body Path": _keep_body(message),
    }
    if charset is not None:
        rows["Message Body"] = body_text(message.body, charset)
    if not with_offset_id:
        del rows["OffsetID"]
    for name, value in rows.items():
        echo(f"{name + ':':<20} {value}")
    echo("\n")
    for track in await admin.message_track(message):
        remark = f"CODE:206 DESC:{track.remark}" if track.track_type.value == "NOT_ONLINE" else track.remark or "null"
        echo(f"MessageTrack [consumerGroup={track.group}, trackType={track.track_type.value}, exceptionDesc={remark}]")


def _keep_body(message: ReceivedMessage) -> str:
    """Write the body to a file of the temporary folder; where it is."""
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), "rocketmq", "msgbodys")
    # The sender chose the id: it may name only a file in this folder.
    unique_key = message.uniq_key or ""
    name = unique_key if re.fullmatch(r"[0-9A-Za-z_-]{1,128}", unique_key) else message.offset_message_id
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    # Others may write to the temporary folder too: do not follow their links.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(message.body)
    return path


async def query_cq(admin: AdminTool, args: Arguments) -> None:
    topic, queue_id, index = args.text("topic"), args.integer("queue"), args.integer("index")
    address = args.maybe("broker") or next(iter((await admin.brokers_of(topic)).values()))
    found = await admin.consume_queue_at(
        address, topic, queue_id, index=index, count=args.integer("count", 10), group=args.maybe("consumer") or ""
    )
    edge = "=" * 38
    if found.subscription_data is not None:
        echo(f"Subscription data: \n{indented_json(sorted_deep(found.subscription_data.to_value()))}\n{edge}")
        echo(f"Filter data: \n{found.filter_data or 'null'}\n{edge}")
    echo(f"Queue data: \nmax: {found.max_queue_index}, min: {found.min_queue_index}\n{edge}")
    for number, unit in enumerate(found.queue_data, index):
        echo(f"idx: {number}")
        echo(
            f"ConsumeQueueData{{physicOffset={unit.physic_offset}, physicSize={unit.physic_size}, "
            f"tagsCode={unit.tags_code}, extendDataJson='{unit.extend_data_json or 'null'}', "
            f"bitMap='{unit.bit_map or 'null'}', eval={java_text(unit.eval)}, msg='{unit.msg or 'null'}'}}\n{edge}"
        )


async def send_message(admin: AdminTool, args: Arguments) -> None:
    topic, broker = args.text("topic"), args.maybe("broker")
    message = Message(topic, args.text("body").encode(), tags=args.maybe("tags"), keys=args.maybe("key"))
    queue = None
    if args.maybe("qid") is not None:
        if broker is None:
            args.refuse("--qid needs --broker.")
        queue = MessageQueue(topic=topic, broker_name=broker, queue_id=args.integer("qid"))
    async with producer_of(admin.name_servers) as producer:
        if queue is None and broker is not None:
            queue = next((known for known in await producer.queues(topic) if known.broker_name == broker), None)
            if queue is None:
                args.refuse(f"Broker {broker!r} has no queue of {topic!r} to send to.")
        result = await producer.send(message, queue=queue)
    echo(_SEND_LAYOUT.format("#Broker Name", "#QID", "#Send Result", "#MsgId"))
    place = (result.queue.broker_name, result.queue.queue_id)
    echo(_SEND_LAYOUT.format(*place, result.status.value, result.message_id))


async def send_msg_status(admin: AdminTool, args: Arguments) -> None:
    # Every broker has a topic of its own name, with one queue.
    message = Message(args.text("brokerName"), b"a" * args.integer("messageSize", 128, most=FRAME_SIZE_MAX))
    async with producer_of(admin.name_servers) as producer:
        await producer.send(message)  # the first one also opens the connection
        for _ in range(args.integer("count", 50)):
            began = time.monotonic()
            result = await producer.send(message)
            echo(f"rt={round((time.monotonic() - began) * 1000)}ms, SendResult={send_result_text(result)}")


async def check_send_rt(admin: AdminTool, args: Arguments) -> None:
    topic = args.text("topic")
    message = Message(topic, b"a" * args.integer("size", 128, most=FRAME_SIZE_MAX))
    amount = args.integer("amount", 100)
    total = 0
    echo(_SEND_LAYOUT.format("#Broker Name", "#QID", "#Send Result", "#RT"))
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
            echo(_SEND_LAYOUT.format(queue.broker_name, queue.queue_id, outcome, spent))
    echo(f"Avg RT: {total / max(amount - 1, 1):.2f}")

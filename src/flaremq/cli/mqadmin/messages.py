"""Finding messages in RocketMQ's own spelling."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from flaremq.cli.admin.administration import producer_of
from flaremq.cli.mqadmin.given import Given
from flaremq.cli.output import say

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.consumer.received import ReceivedMessage

_HOUR_MS = 3_600_000
_END_OF_TIME = 2**63 - 1


async def query_by_id(admin: AdminTool, given: Given) -> None:
    for message_id in (part.strip() for part in given.text("msgId").split(",")):
        if given.truth("sendMessage"):
            await _send_again(admin, message_id)
        elif given.maybe("clientId") is not None or given.maybe("consumerGroup") is not None:
            await _push(admin, given, message_id)
        else:
            found = await admin.view_message(message_id)
            await _show(admin, found, with_offset_id=True, charset=_body_charset(given))


async def _send_again(admin: AdminTool, message_id: str) -> None:
    from flaremq.cli.mqadmin.text import send_result_text
    from flaremq.message.message import Message
    from flaremq.message.properties import UNIQUE_KEY

    found = await admin.view_message(message_id)
    properties = {name: value for name, value in found.properties.items() if name != UNIQUE_KEY}
    async with producer_of(admin.name_servers) as producer:
        result = await producer.send(Message.from_properties(found.topic, found.body, properties, flag=found.flag))
    say(f"prepare resend msg. originalMsgId={message_id}{send_result_text(result)}")


async def _push(admin: AdminTool, given: Given, message_id: str) -> None:
    """Let a consumer have a message again, now."""
    from flaremq.cli.mqadmin.text import java_text

    group, client_id = given.maybe("consumerGroup"), given.maybe("clientId")
    if group is None or client_id is None:
        given.refuse("--consumerGroup and --clientId go together.")
    result = await admin.consume_directly(group, client_id, message_id, topic=given.text("topic"))
    values = {
        "order": result.order,
        "autoCommit": result.auto_commit,
        "consumeResult": result.consume_result,
        "remark": result.remark,
        "spentTimeMills": result.spent_time_mills,
    }
    shown = ", ".join(f"{name}={java_text(value)}" for name, value in values.items())
    say(f"ConsumeMessageDirectlyResult [{shown}]")


async def query_by_key(admin: AdminTool, given: Given) -> None:
    from flaremq.errors import NotFoundError

    topic, key = given.text("topic"), given.text("msgKey")
    if (given.maybe("keyType") or "K") != "K":
        given.refuse("--keyType takes K: messages are indexed by their keys only.")
    found = await admin.query_by_key(
        topic,
        key,
        max_count=given.integer("maxNum", 64),
        begin_ms=given.integer("beginTimestamp"),
        end_ms=given.integer("endTimestamp", _END_OF_TIME),
    )
    if not found:
        raise NotFoundError(f"topic {topic!r} has no message with the key {key!r}")
    layout = "{:<50} {:>4} {:>40} {:<200}"
    say(layout.format("#Message ID", "#QID", "#Offset", "#IndexKey"))
    for message in found:
        hour = message.store_timestamp // _HOUR_MS * _HOUR_MS
        message_id = message.message_id
        index = f"{hour}@{topic}@K@{key}@{message_id}@{message.physical_offset}"
        say(layout.format(message_id, message.queue_id, message.queue_offset, index))


async def query_by_unique_key(admin: AdminTool, given: Given) -> None:
    from flaremq.errors import NotFoundError

    topic, message_id = given.text("topic"), given.text("msgId")
    found = await admin.query_by_unique_key(
        topic,
        message_id,
        begin_ms=given.integer("startTime"),
        end_ms=given.integer("endTime", _END_OF_TIME),
    )
    if not found:
        raise NotFoundError(f"topic {topic!r} has no message with the id {message_id!r}")
    if given.maybe("clientId") is not None or given.maybe("consumerGroup") is not None:
        await _push(admin, given, found[0].offset_message_id)
        return
    for message in found if given.truth("showAll") else found[:1]:
        await _show(admin, message, with_offset_id=False, charset=None)


async def query_by_offset(admin: AdminTool, given: Given) -> None:
    from flaremq.protocol.bodies.queue import MessageQueue

    queue = MessageQueue(
        topic=given.text("topic"), broker_name=given.text("brokerName"), queue_id=given.integer("queueId")
    )
    found = await admin.message_at(queue, given.integer("offset"))
    await _show(admin, found, with_offset_id=True, charset=_body_charset(given))


def _body_charset(given: Given) -> str | None:
    """How to show the body; None not at all."""
    return None if given.maybe("bodyFormat") is None else given.charset("bodyFormat")


async def _show(admin: AdminTool, message: ReceivedMessage, *, with_offset_id: bool, charset: str | None) -> None:
    """All about one message; its body goes to a file."""
    from flaremq.cli.mqadmin.text import body_text, java_map
    from flaremq.cli.times import exact_text

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
        say(f"{name + ':':<20} {value}")
    say("\n")
    for track in await admin.message_track(message):
        remark = f"CODE:206 DESC:{track.remark}" if track.track_type.value == "NOT_ONLINE" else track.remark or "null"
        say(f"MessageTrack [consumerGroup={track.group}, trackType={track.track_type.value}, exceptionDesc={remark}]")


def _keep_body(message: ReceivedMessage) -> str:
    """Write the body to a file of the temporary folder; where it is."""
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), "rocketmq", "msgbodys")
    # The id comes from whoever sent the message: it may only ever name a file in this folder.
    unique_key = message.uniq_key or ""
    name = unique_key if re.fullmatch(r"[0-9A-Za-z_-]{1,128}", unique_key) else message.offset_message_id
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    # Others may write to the temporary folder too: never through a link they left there.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(message.body)
    return path


async def query_cq(admin: AdminTool, given: Given) -> None:
    from flaremq.cli.mqadmin.text import indented_json, java_text, sorted_deep

    topic, queue_id, index = given.text("topic"), given.integer("queue"), given.integer("index")
    address = given.maybe("broker") or next(iter((await admin.brokers_of(topic)).values()))
    found = await admin.consume_queue_at(
        address, topic, queue_id, index=index, count=given.integer("count", 10), group=given.maybe("consumer") or ""
    )
    edge = "=" * 38
    if found.subscription_data is not None:
        say(f"Subscription data: \n{indented_json(sorted_deep(found.subscription_data.to_value()))}\n{edge}")
        say(f"Filter data: \n{found.filter_data or 'null'}\n{edge}")
    say(f"Queue data: \nmax: {found.max_queue_index}, min: {found.min_queue_index}\n{edge}")
    for number, unit in enumerate(found.queue_data, index):
        say(f"idx: {number}")
        say(
            f"ConsumeQueueData{{physicOffset={unit.physic_offset}, physicSize={unit.physic_size}, "
            f"tagsCode={unit.tags_code}, extendDataJson='{unit.extend_data_json or 'null'}', "
            f"bitMap='{unit.bit_map or 'null'}', eval={java_text(unit.eval)}, msg='{unit.msg or 'null'}'}}\n{edge}"
        )

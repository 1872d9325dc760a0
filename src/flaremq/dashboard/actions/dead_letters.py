"""Dead letters: some of a group, by id or by range, once more to the group or to all groups of their topics."""

from __future__ import annotations

from typing import Final

from flaremq.client.admin.dead_letters import origin_id, origin_topic
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.actions.fields import Fields
from flaremq.dashboard.actions.plan import STEPS_MAX, Desk, Plan, Row, Step
from flaremq.dashboard.questions.lookup import find_message
from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.message.topics import dlq_topic
from flaremq.protocol.bodies.queue import MessageQueue

_WAYS: Final = ("retry", "origin")


async def resend(desk: Desk, fields: Fields) -> Plan:
    group, to_all = fields.needed("group"), fields.chosen("to", _WAYS, "retry") == "origin"
    messages = await _chosen(desk, fields, dlq_topic(group))
    if not messages:
        raise NotFoundError(f"group {group!r} has no such dead letter")
    plan = Plan(steps=[], confirm=group if len(messages) > 1 else None)
    for message in messages:
        topic = origin_topic(message)
        row = {"id": origin_id(message), "origin_topic": topic, "state": "waiting", "new_id": None, "reason": None}
        plan.rows.append(row)
        plan.steps.append(_step(desk, group, message, to_all, len(plan.rows) - 1))
    plan.before = {"group": group, "messages": len(messages)}
    plan.effect("resent", count=len(messages))
    return plan


def _step(desk: Desk, group: str, message: ReceivedMessage, to_all: bool, row: int) -> Step:
    async def run() -> Row:
        sent = await desk.reader.resend_dead_letter(group, message, to_all_groups=to_all)
        place = f"{sent.topic}/{sent.broker_name}/{sent.queue_id}/{sent.queue_offset}"
        return {"state": sent.status.value, "new_id": place}

    return Step(message.offset_message_id, run, row)


async def _chosen(desk: Desk, fields: Fields, topic: str) -> list[ReceivedMessage]:
    ids = fields.texts("ids") or fields.texts("id")
    if len(ids) > STEPS_MAX:
        raise InvalidArgumentError(f"{len(ids)} dead letters at once, at most {STEPS_MAX} are taken")
    if ids:
        return [await _one(desk, topic, message_id) for message_id in ids]
    broker, _, number = fields.needed("queue").rpartition("/")
    queue_id = whole_number(number)
    if not broker or queue_id is None:
        raise InvalidArgumentError("queue is a broker and a number, as in broker-a/0")
    queue = MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id)
    low, high = fields.whole("from_offset"), fields.whole("to_offset")
    if high - low >= STEPS_MAX:
        raise InvalidArgumentError(f"{high - low + 1} dead letters at once, at most {STEPS_MAX} are taken")
    found: list[ReceivedMessage] = []
    at = low
    while at <= high:
        result = await desk.reader.pull(queue, at)
        found += [message for message in result.messages if low <= message.queue_offset <= high]
        if result.next_offset <= at:
            break
        at = result.next_offset
    return found


async def _one(desk: Desk, topic: str, message_id: str) -> ReceivedMessage:
    """A dead letter is found in its own queue: a copy has a place but no queue of its own in an answer by key."""
    message = await find_message(desk.state, desk.reader, topic, message_id)
    if message.topic != topic:
        raise NotFoundError(f"{message_id!r} is no dead letter of this group")
    return message

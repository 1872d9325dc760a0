"""Messages: send one, send one again, let a consumer have one again, dead letters, timed and half messages."""

from __future__ import annotations

from typing import Final

from flaremq.client.options import ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.dashboard.actions.fields import Fields
from flaremq.dashboard.actions.plan import Desk, Plan, Row, Step
from flaremq.dashboard.questions.lookup import find_message
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError, ReplyError
from flaremq.message import properties as names
from flaremq.message.message import Message
from flaremq.message.topics import NO_CLIENT_SEND

_GROUP: Final = "FLAREMQ_DASHBOARD"
_LEVEL_MAX: Final = 18
# What an earlier life left in a message, or brokers would obey in the next one.
_OWN: Final = frozenset(value for name, value in vars(names).items() if name.isupper() and isinstance(value, str))
_ROW: Final[Row] = {"message_id": None, "broker": None, "queue": None, "queue_offset": None}


async def send(desk: Desk, fields: Fields) -> Plan:
    topic, body = fields.needed("topic"), fields.body()
    if topic in NO_CLIENT_SEND:
        raise InvalidArgumentError(f"topic {topic!r} takes no messages of clients")
    if topic not in desk.state.topics:
        raise NotFoundError(f"topic {topic!r} does not exist: make it first")
    if not body:
        raise InvalidArgumentError("body is empty, which no broker accepts")
    message = Message(
        topic,
        body,
        tags=fields.text("tags") or None,
        keys=fields.text("keys").split() or None,
        properties=fields.pairs("properties") or None,
        delay_level=fields.whole("delay_level", 0, high=_LEVEL_MAX),
    )
    return _sending(desk, topic, message, fields.text("queue"), "sent")


async def resend(desk: Desk, fields: Fields) -> Plan:
    """A copy of a message, to its topic: every group gets it."""
    topic = fields.needed("topic")
    found = await find_message(desk.state, desk.reader, topic, fields.needed("id"))
    kept = {
        name: value for name, value in found.properties.items() if name not in _OWN and not name.startswith("TIMER_")
    }
    message = Message(topic, found.body, tags=found.tags, keys=found.keys or None, properties=kept or None)
    return _sending(desk, topic, message, "", "resent")


def _sending(desk: Desk, topic: str, message: Message, queue: str, effect: str) -> Plan:
    plan = Plan(steps=[], rows=[dict(_ROW)])

    async def run() -> Row:
        options = _producer_options(desk)
        async with Producer(desk.name_servers, group=_GROUP, options=options) as producer:
            chosen = None
            if queue:
                known = {f"{one.broker_name}/{one.queue_id}": one for one in await producer.queues(topic)}
                if queue not in known:
                    raise NotFoundError(f"topic {topic!r} has no queue {queue!r} that takes messages")
                chosen = known[queue]
            sent = await producer.send(message, queue=chosen)
        return {
            "message_id": sent.message_id,
            "broker": sent.queue.broker_name,
            "queue": sent.queue.queue_id,
            "queue_offset": sent.queue_offset,
            "status": sent.status.value,
        }

    plan.steps.append(Step(topic, run, 0))
    plan.after = {"topic": topic, "body_bytes": len(message.body)}
    plan.effect(effect, count=1)
    return plan


def _producer_options(desk: Desk) -> ProducerOptions:
    named = {name: getattr(desk.client, name) for name in desk.client.__dataclass_fields__}
    return ProducerOptions(**named, send_deadline=0)


async def consume(desk: Desk, fields: Fields) -> Plan:
    """One connected consumer gets the message again, now."""
    topic, group, client = fields.needed("topic"), fields.needed("group"), fields.needed("client_id")
    found = await find_message(desk.state, desk.reader, topic, fields.needed("id"))
    plan = Plan(steps=[], rows=[{"result": None, "remark": None, "took_ms": None}])

    async def run() -> Row:
        result = await desk.reader.consume_directly(group, client, found.offset_message_id, topic=topic)
        plan.effect("delivered", result=result.consume_result)
        return {"result": result.consume_result, "remark": result.remark, "took_ms": result.spent_time_mills}

    plan.steps.append(Step(client, run, 0))
    plan.before = {"message_id": found.message_id, "group": group, "client_id": client}
    return plan


async def recall(desk: Desk, fields: Fields) -> Plan:
    """Take a timed message back."""
    topic, handle = fields.needed("topic"), fields.needed("recall")
    brokers = await desk.reader.brokers_of(topic)
    plan = Plan(steps=[], rows=[{"message_id": None}], confirm=topic)

    async def run() -> Row:
        failure: FlareMQError | None = None
        for address in brokers.values():
            try:
                return {"message_id": await desk.reader.recall_at(address, topic, handle)}
            except ReplyError as error:  # the handle may name another broker
                failure = error
        raise failure or NotFoundError(f"no broker has topic {topic!r}")

    plan.steps.append(Step(topic, run, 0))
    plan.effect("recalled", topic=topic)
    return plan


async def check_half(desk: Desk, fields: Fields) -> Plan:
    """Let the broker ask its producer about a half message once more."""
    message_id = fields.needed("id")

    async def run() -> None:
        await desk.reader.resume_half_message(message_id)

    plan = Plan(steps=[Step(message_id, run, 0)], rows=[{"id": message_id}])
    plan.effect("rechecked")
    return plan

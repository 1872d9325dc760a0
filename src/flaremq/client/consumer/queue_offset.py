"""Asking a broker about one queue: where it begins and ends, and which offset a time has."""

from __future__ import annotations

from flaremq.client.instance import ClientInstance
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode


async def queue_offset(
    instance: ClientInstance, code: RequestCode, queue: MessageQueue, more: dict[str, str] | None = None
) -> int:
    """One end of a queue, or the place of a time in it."""
    ext = {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name, **(more or {})}
    reply = await instance.transport.call(instance.routes.keeper(queue.broker_name), code, ext)
    return reply.int_field("offset")

"""One message by whichever id one has."""

from __future__ import annotations

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.errors import InvalidArgumentError, NotFoundError


async def find_message(state: ClusterState, reader: ClusterReader, topic: str, message_id: str) -> ReceivedMessage:
    """By unique key in a topic, or by the place that an offset id names; without a topic by place alone.

    The address in an offset id is nothing we go to: the reader takes only those of brokers that the name servers tell.
    """
    if topic:
        found = await reader.query_by_unique_key(topic, message_id)
        if found:
            return found[-1]
    try:
        message = await reader.view_message(message_id)
    except InvalidArgumentError:
        message = None
    if message is None or (topic and message.topic != topic):
        where = f"topic {topic!r} has" if topic else "there is"
        raise NotFoundError(f"{where} no message {message_id[:100]!r}")
    return message

"""QueryRoute and QueryAssignment: where the queues of a topic are, and which of them a consumer asks for messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from flaremq.grpc.backends.backend import Backend, BrokerQueues, TopicQueues
from flaremq.grpc.call import Call
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, MessageType, Permission
from flaremq.grpc.rules.endpoints import answering, at
from flaremq.grpc.rules.names import group_of, topic_of
from flaremq.grpc.rules.status import OK, Refused

MIXED: Final = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)
_TYPES: Final = {
    "FIFO": (MessageType.FIFO,),
    "DELAY": (MessageType.DELAY,),
    "TRANSACTION": (MessageType.TRANSACTION,),
    "MIXED": MIXED,
    "PRIORITY": (MessageType.PRIORITY,),
    "LITE": (),  # not served here
}
_QUEUES_MAX: Final = 65_536


def accepted_types(topic: TopicQueues) -> tuple[MessageType, ...]:
    """The kinds of messages a topic takes; one that does not say takes normal ones."""
    return _TYPES.get(topic.message_type, (MessageType.NORMAL,))


async def find_topic(backend: Backend, name: str) -> TopicQueues:
    topic = await backend.find_topic(name)
    if topic is None:
        raise Refused(Code.TOPIC_NOT_FOUND, f"topic {name} does not exist; clients of gRPC create none")
    return topic


class Routes:
    """Answers questions for routes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def query_route(self, request: Any, call: Call) -> Any:
        topic = await find_topic(self._backend, topic_of(request.topic))
        here = answering(request.endpoints, call.local_address)
        types = accepted_types(topic)
        reply = classes.QueryRouteResponse(status=OK)
        for queues in topic.brokers:
            broker = _broker(queues, here)
            for queue_id, permission in enumerate(_permissions(queues)):
                reply.message_queues.add(
                    topic=request.topic, id=queue_id, permission=permission, broker=broker, accept_message_types=types
                )
                if len(reply.message_queues) > _QUEUES_MAX:
                    raise Refused(Code.INTERNAL_SERVER_ERROR, f"topic {topic.name} has more queues than are listed")
        return reply

    async def query_assignment(self, request: Any, call: Call) -> Any:
        """Every queue of a group in order; for all others one word that means any queue of a broker.

        Nothing is shared out: POP gives each message to whoever asks.
        """
        name = topic_of(request.topic)
        group = await self._backend.find_group(group_of(request.group))
        topic = await find_topic(self._backend, name)
        here = answering(request.endpoints, call.local_address)
        is_ordered = group is not None and group.consume_message_orderly
        reply = classes.QueryAssignmentResponse(status=OK)
        for queues in topic.brokers:
            if not queues.is_readable:
                continue
            broker = _broker(queues, here)
            for queue_id in range(min(queues.read, _QUEUES_MAX)) if is_ordered else (-1,):
                queue = reply.assignments.add().message_queue
                queue.topic.CopyFrom(request.topic)
                queue.id = queue_id
                queue.permission = Permission.READ_WRITE if queues.is_writable else Permission.READ
                queue.broker.CopyFrom(broker)
        if not reply.assignments:
            raise Refused(Code.FORBIDDEN, f"topic {name} has no queue that may be read")
        return reply


def _broker(queues: BrokerQueues, here: Any) -> Any:
    return classes.Broker(name=queues.broker, id=0, endpoints=at(queues.endpoint) if queues.endpoint else here)


def _permissions(queues: BrokerQueues) -> Iterator[Permission]:
    """One a queue, from the first: those only for reading, then only for writing, then for both."""
    if not queues.is_readable and not queues.is_writable:
        yield from [Permission.NONE] * max(1, queues.read, queues.write)
        return
    read = queues.read if queues.is_readable else 0
    write = queues.write if queues.is_writable else 0
    both = min(read, write)
    yield from [Permission.READ] * (read - both)
    yield from [Permission.WRITE] * (write - both)
    yield from [Permission.READ_WRITE] * both

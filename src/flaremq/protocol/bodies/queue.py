"""Message queues, maps keyed by them, their locks and their assignment to clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import orjson

from flaremq.java_json import object_keyed
from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, Bean, Misfit, Reader, row
from flaremq.protocol.bodies.bean_rows import bean, beans, integer, maybe_beans, maybe_flag, read_long, text

B = TypeVar("B", bound=Bean)


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue(Bean):
    """One queue of one broker. Sorts as Java's does: by topic, broker, number."""

    topic: str = text()
    broker_name: str = text()
    queue_id: int = integer()


def queue_table(kind: type[B], java_name: str | None = None) -> dict[MessageQueue, B]:
    """A property: beans by queue, the queue itself being the key. Not legal JSON, and the only form Java reads."""
    value: dict[MessageQueue, B] = row(java_name, queue_table_reader(kind.from_value), _write_bean_table, make=dict)
    return value


def queue_long_table(java_name: str | None = None) -> dict[MessageQueue, int]:
    """A property: numbers by queue."""
    value: dict[MessageQueue, int] = row(java_name, queue_table_reader(read_long), write_queue_table, make=dict)
    return value


def queue_table_reader(read: Reader) -> Reader:
    """Reads a map keyed by queues; null values are left out."""

    def read_table(value: Any) -> dict[MessageQueue, Any]:
        if not isinstance(value, dict):
            raise Misfit("an object")
        return {_read_key(key): read(item) for key, item in value.items() if item is not None}

    return read_table


def write_queue_table(table: Mapping[MessageQueue, Any]) -> orjson.Fragment:
    return object_keyed((queue.to_value(), item) for queue, item in table.items())


def _write_bean_table(table: Mapping[MessageQueue, Bean]) -> orjson.Fragment:
    return object_keyed((queue.to_value(), item.to_value()) for queue, item in table.items())


def _read_key(key: str) -> MessageQueue:
    """The parser hands an object key over as the text of that object."""
    try:
        value = orjson.loads(key)
    except orjson.JSONDecodeError:
        raise Misfit("keyed by message queues") from None
    return MessageQueue.from_value(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatchRequestBody(Bean):
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    consumer_group: str = text()
    client_id: str = text()
    mq_set: tuple[MessageQueue, ...] = beans(MessageQueue)
    only_this_broker: bool | None = maybe_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatchResponseBody(Bean):
    """The queues that the caller holds now."""

    lock_ok_mq_set: tuple[MessageQueue, ...] = beans(MessageQueue, "lockOKMQSet")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignmentRequestBody(Bean):
    """QUERY_ASSIGNMENT: a client leaves the distribution of queues to the broker."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    topic: str = text()
    consumer_group: str = text()
    client_id: str = text()
    strategy_name: str = text(default="AVG")
    message_model: str = text(default="CLUSTERING")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueueAssignment(Bean):
    """One queue and how to read it: PULL or POP."""

    message_queue: MessageQueue = bean(MessageQueue)
    mode: str = text(default="PULL")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAssignmentResponseBody(Bean):
    """None tells the client to keep what it has; an empty list takes everything away."""

    message_queue_assignments: tuple[MessageQueueAssignment, ...] | None = maybe_beans(MessageQueueAssignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMessageRequestModeRequestBody(Bean):
    """SET_MESSAGE_REQUEST_MODE: how a group reads a topic."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    topic: str = text()
    consumer_group: str = text()
    mode: str = text(default="PULL")
    pop_share_queue_num: int = integer()

"""Bodies: the names of topics and groups that stand in the body of a request, read as its handler reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from flaremq.access.needs import ResourceType
from flaremq.protocol.bodies.client import CheckClientRequestBody, HeartbeatData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.pop import BatchAckMessageRequestBody
from flaremq.protocol.bodies.queue import (
    LockBatchRequestBody,
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
)
from flaremq.protocol.bodies.topic import CreateTopicListRequestBody

# The resource, its name, the actions, and the group on whose behalf the request comes.
Named = tuple[ResourceType, str, str, str]
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP


def _heartbeat(body: bytes) -> Iterator[Named]:
    """Each consumer's group and topics. Producers need nothing here: their sends are looked at."""
    for consumer in HeartbeatData.from_json(body).consumer_data_set:
        group = consumer.group_name
        yield _GROUP, group, "Sub", group
        for subscription in consumer.subscription_data_set:
            yield _TOPIC, subscription.topic, "Sub", group


def _check_client(body: bytes) -> Iterator[Named]:
    if not body:
        return
    asked = CheckClientRequestBody.from_json(body)
    yield _GROUP, asked.group, "Sub", asked.group
    yield _TOPIC, asked.subscription_data.topic, "Sub", asked.group


def _locks(body: bytes) -> Iterator[Named]:
    asked = LockBatchRequestBody.from_json(body)
    yield _GROUP, asked.consumer_group, "Sub", asked.consumer_group
    for queue in asked.mq_set:
        yield _TOPIC, queue.topic, "Sub", asked.consumer_group


def _assignment(body: bytes) -> Iterator[Named]:
    asked = QueryAssignmentRequestBody.from_json(body)
    yield _GROUP, asked.consumer_group, "Sub", asked.consumer_group
    yield _TOPIC, asked.topic, "Sub", asked.consumer_group


def _mode(body: bytes) -> Iterator[Named]:
    asked = SetMessageRequestModeRequestBody.from_json(body)
    yield _GROUP, asked.consumer_group, "Update", asked.consumer_group
    yield _TOPIC, asked.topic, "Update", asked.consumer_group


def _acks(body: bytes) -> Iterator[Named]:
    for entry in BatchAckMessageRequestBody.from_json(body).acks:
        yield _GROUP, entry.consumer_group, "Sub", entry.consumer_group
        yield _TOPIC, entry.topic, "Sub", entry.consumer_group


def _topics(body: bytes) -> Iterator[Named]:
    for config in CreateTopicListRequestBody.from_json(body).topic_config_list:
        yield _TOPIC, config.topic_name, "Create/Update", ""


def _group(body: bytes) -> Iterator[Named]:
    yield _GROUP, SubscriptionGroupConfig.from_json(body).group_name, "Create/Update", ""


READERS: Final[Mapping[str, Callable[[bytes], Iterator[Named]]]] = {
    "heartbeat": _heartbeat,
    "check_client": _check_client,
    "locks": _locks,
    "assignment": _assignment,
    "mode": _mode,
    "acks": _acks,
    "topics": _topics,
    "group": _group,
}

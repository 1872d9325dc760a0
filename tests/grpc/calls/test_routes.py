"""QueryRoute and QueryAssignment: queues, their numbers and rights, and addresses by which a client finds us again."""

from __future__ import annotations

from typing import Any

from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import AddressScheme, Code, MessageType, Permission
from flaremq.protocol.bodies.topic import TopicConfig
from tests.grpc.door_lab import DoorLab, lab_test, resource


def endpoints(*addresses: tuple[str, int], scheme: AddressScheme = AddressScheme.DOMAIN_NAME) -> Any:
    return classes.Endpoints(
        scheme=scheme, addresses=[classes.Address(host=host, port=port) for host, port in addresses]
    )


async def route(lab: DoorLab, topic: str, asked: Any = None) -> Any:
    return await lab.call("QueryRoute", classes.QueryRouteRequest(topic=resource(topic), endpoints=asked))


async def assignments(lab: DoorLab, topic: str, group: str) -> Any:
    request = classes.QueryAssignmentRequest(topic=resource(topic), group=resource(group))
    return await lab.call("QueryAssignment", request)


@lab_test
async def test_queues_for_reading_come_first_then_those_for_writing_then_both(lab: DoorLab) -> None:
    lab.state.topics.update(TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=2))
    lab.state.topics.update(TopicConfig(topic_name="U", read_queue_nums=1, write_queue_nums=3))
    reply = await route(lab, "T")
    assert reply.status.code == Code.OK
    assert [(queue.id, queue.permission) for queue in reply.message_queues] == [
        (0, Permission.READ),
        (1, Permission.READ_WRITE),
        (2, Permission.READ_WRITE),
    ]
    assert {(queue.broker.name, queue.broker.id) for queue in reply.message_queues} == {(lab.backend._name, 0)}
    permissions = [queue.permission for queue in (await route(lab, "U")).message_queues]
    assert permissions == [Permission.WRITE, Permission.WRITE, Permission.READ_WRITE]
    for perm, expected in ((4, Permission.READ), (2, Permission.WRITE), (0, Permission.NONE)):
        lab.topic("V", queues=2, perm=perm)
        assert {queue.permission for queue in (await route(lab, "V")).message_queues} == {expected}


@lab_test
async def test_a_client_is_told_the_address_it_came_by(lab: DoorLab) -> None:
    lab.topic("T", queues=1)
    for asked in (
        endpoints(("mq.example.org", 8081)),
        endpoints(("mq.example.org", 9999), ("other", 8081)),  # behind something that forwards
        endpoints(("10.0.0.1", 8081), scheme=AddressScheme.IPv4),
        endpoints(("::1", 8081), scheme=AddressScheme.IPv6),
    ):
        (queue,) = (await route(lab, "T", asked)).message_queues
        assert queue.broker.endpoints == asked
    (queue,) = (await route(lab, "T")).message_queues
    assert queue.broker.endpoints == endpoints(("127.0.0.1", 8081), scheme=AddressScheme.IPv4)


@lab_test
async def test_what_a_route_repeats_for_each_queue_cannot_be_made_long(lab: DoorLab) -> None:
    lab.topic("T", queues=100)
    for asked in (endpoints(*[("host", 8081)] * 65), endpoints(("h" * 256, 8081))):
        assert (await route(lab, "T", asked)).status.code == Code.ILLEGAL_ACCESS_POINT
    request = classes.QueryRouteRequest(topic=classes.Resource(name="T", resource_namespace="n" * 128))
    assert (await lab.call("QueryRoute", request)).status.code == Code.ILLEGAL_TOPIC


@lab_test
async def test_the_types_a_topic_takes_are_those_of_its_attribute(lab: DoorLab) -> None:
    mixed = [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION]
    for attribute, types in (
        ("", [MessageType.NORMAL]), ("NORMAL", [MessageType.NORMAL]), ("FIFO", [MessageType.FIFO]),
        ("DELAY", [MessageType.DELAY]), ("TRANSACTION", [MessageType.TRANSACTION]), ("MIXED", mixed), ("LITE", []),
    ):  # fmt: skip
        lab.topic("T", attribute, queues=1)
        (queue,) = (await route(lab, "T")).message_queues
        assert list(queue.accept_message_types) == types


@lab_test
async def test_names_are_judged_before_anything_else(lab: DoorLab) -> None:
    for name in ("", "  ", "a b", "ä", "x" * 128, "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102"):
        assert (await route(lab, name)).status.code == Code.ILLEGAL_TOPIC, name
    assert (await route(lab, "missing")).status.code == Code.TOPIC_NOT_FOUND
    lab.topic("T")
    for name in ("", " ", "a b", "x" * 256, "CID_RMQ_SYS_PROXY"):
        assert (await assignments(lab, "T", name)).status.code == Code.ILLEGAL_CONSUMER_GROUP, name
    assert (await lab.call("QueryRoute", classes.QueryRouteRequest(), client="")).status.code == Code.CLIENT_ID_REQUIRED


@lab_test
async def test_a_group_in_order_is_assigned_each_queue_and_others_one_word_for_all(lab: DoorLab) -> None:
    lab.topic("T", queues=3)
    lab.group("ordered", consume_message_orderly=True)
    plain = await assignments(lab, "T", "G")
    assert [each.message_queue.id for each in plain.assignments] == [-1]
    ordered = await assignments(lab, "T", "ordered")
    assert [each.message_queue.id for each in ordered.assignments] == [0, 1, 2]
    lab.topic("T", queues=3, perm=2)
    assert (await assignments(lab, "T", "G")).status.code == Code.FORBIDDEN
    assert (await assignments(lab, "missing", "G")).status.code == Code.TOPIC_NOT_FOUND

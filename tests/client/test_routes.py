"""Routes as name servers tell them."""

from __future__ import annotations

from flaremq.client.routes import TopicRoute
from flaremq.protocol.bodies import BrokerData, MessageQueue, QueueData, TopicRouteData


def route(*queues: QueueData, masters: str = "ab", order: str | None = None) -> TopicRouteData:
    brokers = tuple(
        BrokerData(cluster="C", broker_name=f"broker-{name}", broker_addrs={0 if name in masters else 1: f"h-{name}:1"})
        for name in "ab"
    )
    return TopicRouteData(broker_datas=brokers, queue_datas=queues, order_topic_conf=order)


def data(name: str, *, read: int = 2, write: int = 2, perm: int = 6) -> QueueData:
    return QueueData(broker_name=f"broker-{name}", read_queue_nums=read, write_queue_nums=write, perm=perm)


def short(queues: list[MessageQueue]) -> str:
    return " ".join(f"{queue.broker_name[-1]}{queue.queue_id}" for queue in queues)


def test_queues_are_in_the_order_of_brokers_and_numbers() -> None:
    found = TopicRoute("T", route(data("b"), data("a", read=3)))
    assert (short(found.write_queues), short(found.read_queues)) == ("a0 a1 b0 b1", "a0 a1 a2 b0 b1")


def test_only_writable_queues_of_masters_are_written_to() -> None:
    assert short(TopicRoute("T", route(data("a", perm=4), data("b"))).write_queues) == "b0 b1"
    found = TopicRoute("T", route(data("a"), data("b"), masters="b"))
    assert (short(found.write_queues), short(found.read_queues)) == ("b0 b1", "a0 a1 b0 b1")
    assert short(TopicRoute("T", route(data("a", perm=2), data("b"))).read_queues) == "b0 b1"


def test_borrowed_route_has_as_many_queues_as_the_topic_will_get() -> None:
    found = TopicRoute("T", route(data("a", read=8, write=8)), queues_max=4)
    assert (short(found.write_queues), found.is_borrowed) == ("a0 a1 a2 a3", True)


def test_order_configuration_says_how_many_queues_are_written_to() -> None:
    found = TopicRoute("T", route(data("a", write=8), data("b", write=8), order="broker-a:1;broker-b:2;broken"))
    assert short(found.write_queues) == "a0 b0 b1"

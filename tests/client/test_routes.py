"""Routes as name servers tell them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from flaremq.client.routes import RouteTable, TopicRoute
from flaremq.errors import InvalidArgumentError, RemoteProtocolError
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand


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


ABSURD = 2**31 - 1


@pytest.mark.parametrize(
    "absurd",
    [
        route(data("a", read=ABSURD)),
        route(data("a", write=ABSURD)),
        route(data("a"), order=f"broker-a:{10**8}"),
        route(*(data("a", read=60_000) for _ in range(3))),
    ],
    ids=["read", "write", "order", "many"],
)
def test_route_with_an_absurd_number_of_queues_is_refused_before_it_is_listed(absurd: TopicRouteData) -> None:
    with pytest.raises(RemoteProtocolError, match=r"topic 'T' has \d+ queues, at most 131072"):
        TopicRoute("T", absurd)


@pytest.mark.parametrize("count", ["9" * 10, "9" * 5_000, "-1", "+1", "1.5", "\u0661"])
def test_order_configuration_that_is_no_number_is_left_out(count: str) -> None:
    assert short(TopicRoute("T", route(data("a"), order=f"broker-a:{count};broker-b:1")).write_queues) == "b0"


def test_absurd_route_of_one_topic_leaves_the_others_up_to_date() -> None:
    answers = {"good": route(data("a")), "bad": route(data("a"))}

    class Transport:
        name_servers = ("ns:9876",)

        async def ask_name_server(self, code: int, ext: dict[str, str], **_: object) -> RemotingCommand:
            return RemotingCommand.response(body=answers[ext["topic"]].to_json())

    async def scenario() -> None:
        routes = RouteTable(cast(Any, Transport()))
        for topic in ("bad", "good"):
            await routes.find(topic)
        answers.update(bad=route(data("a", read=ABSURD)), good=route(data("a", read=5)))
        await routes.refresh_all()
        bad, good = routes.known("bad"), routes.known("good")
        assert bad is not None and short(bad.read_queues) == "a0 a1"
        assert good is not None and short(good.read_queues) == "a0 a1 a2 a3 a4"
        with pytest.raises(RemoteProtocolError):
            await routes.refresh("bad")

    asyncio.run(scenario())


def test_broker_that_is_asked_as_a_name_server_is_told_to_be_none() -> None:
    class Transport:
        name_servers = ("h:10911",)

        async def ask_name_server(self, *_: object, accept: tuple[int, ...], **__: object) -> RemotingCommand:
            assert ResponseCode.REQUEST_CODE_NOT_SUPPORTED in accept
            return RemotingCommand.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type 105 not supported")

    with pytest.raises(InvalidArgumentError, match=r"h:10911 is no name server, .* a broker's address\?"):
        asyncio.run(RouteTable(cast(Any, Transport())).find("T"))

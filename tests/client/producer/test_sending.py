"""Sends that meet trouble, and sends that travel together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from flaremq.client.options import ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.client.producer.send_result import SendResult, SendStatus
from flaremq.client.producer.transactions import TransactionState
from flaremq.errors import (
    InvalidArgumentError,
    InvalidReplyError,
    NotFoundError,
    NotFoundReplyError,
    ReplyError,
    UnavailableError,
    UnavailableReplyError,
)
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import parse_properties
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.route import TopicRouteData
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import RequestTimeoutError
from tests.support.fake_cluster import FakeCluster, fake_cluster

TWO_BROKERS = {"broker-a": 2, "broker-b": 2}
Test = Callable[[FakeCluster, Producer], Awaitable[None]]


def play(test: Test, brokers: dict[str, int] | None = None, options: ProducerOptions | None = None) -> None:
    async def run() -> None:
        async with fake_cluster(brokers) as cluster, Producer(cluster.address, group="g", options=options) as producer:
            await test(cluster, producer)

    asyncio.run(run())


# Trouble


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
def test_refusal_that_may_pass_is_tried_again_on_another_broker(code: int) -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        for broker in cluster.brokers.values():
            broker.answer_sends(code)
        result = await producer.send(Message("T", b"x"))
        assert result.ok
        tried = {name for name, broker in cluster.brokers.items() if broker.sends}
        assert tried == {"broker-a", "broker-b"}
        assert sum(len(broker.sends) for broker in cluster.brokers.values()) == 3

    play(test, TWO_BROKERS)


@pytest.mark.parametrize(
    ("code", "kind"), [(13, InvalidReplyError), (29, InvalidReplyError), (26, NotFoundReplyError), (999, ReplyError)]
)
def test_refusal_that_will_not_pass_is_raised_at_once(code: int, kind: type[ReplyError]) -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        cluster.broker().answer_sends(code)
        with pytest.raises(kind, match="as the test wants it") as caught:
            await producer.send(Message("T", b"x"))
        assert caught.value.code == code
        assert "'T' on broker-a" in str(caught.value)
        assert len(cluster.broker().sends) == 1

    play(test)


def test_broker_that_stays_busy_is_given_up_after_three_tries() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        cluster.broker().answer_sends(*[ResponseCode.SYSTEM_BUSY] * 9)
        with pytest.raises(UnavailableReplyError, match="SYSTEM_BUSY"):
            await producer.send(Message("T", b"x"))
        assert len(cluster.broker().sends) == 3

    play(test)


def test_dead_broker_is_passed_over() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        await cluster.broker("broker-a").stop()
        results = [await producer.send(Message("T", b"x")) for _ in range(6)]
        assert {result.queue.broker_name for result in results} == {"broker-b"}

    play(test, TWO_BROKERS)


@pytest.mark.slow
def test_send_waits_for_a_broker_that_restarts() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        await producer.send(Message("T", b"before"))
        broker = cluster.broker()
        port = int(broker.address.rpartition(":")[2])
        await broker.stop()
        sends = [asyncio.create_task(producer.send(Message("T", body))) for body in (b"1", b"2")]
        while len(cluster.name_server.of(RequestCode.GET_ROUTEINFO_BY_TOPIC)) < 8:  # it asks again after each try
            await asyncio.sleep(0.01)
        assert not any(task.done() for task in sends)
        await broker.restart(port)
        assert all([(await task).ok for task in sends])
        assert sorted(broker.bodies) == [b"1", b"2", b"before"]

    play(test)


@pytest.mark.parametrize("limit", ["option", "argument"])
def test_send_to_a_broker_that_stays_away_fails_at_its_deadline(limit: str) -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        await producer.queues("T")
        await cluster.broker().stop()
        with pytest.raises(UnavailableError, match=cluster.broker().address):
            await producer.send(Message("T", b"x"), timeout=0.3 if limit == "argument" else None)
        looks = len(cluster.name_server.of(RequestCode.GET_ROUTEINFO_BY_TOPIC))
        assert looks >= 3 if limit == "argument" else looks <= 4

    play(test, options=ProducerOptions(send_deadline=0) if limit == "option" else None)


class Committing:
    """A listener whose local transactions succeed."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check(self, message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT


WAYS: dict[str, Callable[[Producer], Awaitable[object]]] = {
    "send to a new topic": lambda producer: producer.send(Message("T2", b"x")),
    "batch to a new topic": lambda producer: producer.send_batch([Message("T2", b"x")]),
    "ordered, to a new topic": lambda producer: producer.send_ordered(Message("T2", b"x"), "key"),
    "delayed by seconds": lambda producer: producer.send_delayed(Message("T", b"x"), seconds=7),
    "transaction": lambda producer: producer.transaction(Message("T", b"x")),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_every_way_of_sending_waits_for_a_cluster_that_restarts(way: str) -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            cluster.name_server.routes["T2"] = cluster.route()
            async with Producer(cluster.address, group="g", listener=Committing()) as producer:
                await producer.send(Message("T", b"before"))
                servers = [cluster.name_server, cluster.broker()]
                ports = [int(server.address.rpartition(":")[2]) for server in servers]
                for server in servers:
                    await server.stop()
                sending = asyncio.ensure_future(WAYS[way](producer))
                done, _ = await asyncio.wait([sending], timeout=0.1)  # it would fail within milliseconds
                assert not done
                for server, port in zip(servers, ports, strict=True):
                    await server.restart(port)
                await sending
                assert cluster.broker().bodies[-1] == b"x"

    asyncio.run(run())


def test_timeout_of_a_send_bounds_the_search_for_its_route() -> None:
    async def run() -> None:
        async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        silent = await asyncio.start_server(ignore, "127.0.0.1", 0)
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        async with silent, Producer(address, group="g") as producer:
            with pytest.raises(UnavailableError, match=r"within 0\.2 seconds"):
                await producer.send(Message("T", b"x"), timeout=0.2)
            with pytest.raises(UnavailableError, match=r"within 0\.2 seconds"):
                await producer.send_delayed(Message("T", b"x"), seconds=7, timeout=0.2)

    asyncio.run(run())


def test_cluster_that_was_never_reached_is_not_waited_for() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster, Producer(cluster.address, group="g") as producer:
            await cluster.name_server.stop()
            with pytest.raises(UnavailableError, match="no name server can be reached"):
                await producer.send(Message("T", b"x"))

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("way", ["send", "batch", "delayed"])
def test_timeout_that_leaves_no_time_is_refused(way: str) -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        message = Message("T", b"x")
        sending: dict[str, Callable[[], Awaitable[object]]] = {
            "send": lambda: producer.send(message, timeout=0),
            "batch": lambda: producer.send_batch([message], timeout=0),
            "delayed": lambda: producer.send_delayed(message, level=1, timeout=0),
        }
        with pytest.raises(InvalidArgumentError, match="leaves no time"):
            await sending[way]()

    play(test)


@pytest.mark.parametrize("level", [0, -1, 19, 99])
def test_delay_level_that_is_none_is_refused(level: int) -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        with pytest.raises(InvalidArgumentError, match=f"delay level {level} is none"):
            await producer.send_delayed(Message("T", b"x"), level=level)
        assert cluster.broker().sends == []

    play(test)


def test_tag_that_no_consumer_could_ask_for_is_refused() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        with pytest.raises(InvalidArgumentError, match="one tag"):
            await producer.send(Message("T", b"x", tags="a || b"))
        assert cluster.broker().sends == []

    play(test)


def test_retry_keeps_the_message_id() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        cluster.broker().answer_sends(ResponseCode.SYSTEM_BUSY)
        result = await producer.send(Message("T", b"x"))
        keys = [parse_properties(request.field("i").encode())["UNIQ_KEY"] for request in cluster.broker().sends]
        assert keys == [result.message_id] * 2

    play(test)


def test_silent_broker_is_a_timeout_that_names_it() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        cluster.broker().ignore_sends()
        with pytest.raises(RequestTimeoutError, match=cluster.broker().address):
            await producer.send(Message("T", b"x"), timeout=0.3)
        assert len(cluster.broker().sends) == 1

    play(test)


def test_after_a_timeout_the_route_is_asked_for_so_that_the_next_send_goes_to_the_next_master() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        assert (await producer.send(Message("T", b"x"))).ok
        cluster.broker("broker-a").ignore_sends()
        asked = len(cluster.name_server.of(RequestCode.GET_ROUTEINFO_BY_TOPIC))
        with pytest.raises(RequestTimeoutError):
            await producer.send(Message("T", b"x"), timeout=0.3)
        await cluster.name_server.until(asked + 1, RequestCode.GET_ROUTEINFO_BY_TOPIC)

    play(test)


def test_stored_but_not_flushed_is_a_status_and_not_an_error() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        def answer(request: RemotingCommand) -> RemotingCommand:
            reply = cluster.broker().store(request)
            reply.code = ResponseCode.FLUSH_DISK_TIMEOUT
            return reply

        cluster.broker().answers[RequestCode.SEND_MESSAGE_V2] = answer
        result = await producer.send(Message("T", b"x"))
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
        assert len(cluster.broker().sends) == 1

    play(test)


def test_stored_but_not_flushed_goes_elsewhere_if_that_is_wanted() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        def answer(request: RemotingCommand) -> RemotingCommand:
            reply = cluster.broker("broker-a").store(request)
            reply.code = ResponseCode.SLAVE_NOT_AVAILABLE
            return reply

        cluster.broker("broker-a").answers[RequestCode.SEND_MESSAGE_V2] = answer
        results = [await producer.send(Message("T", b"x")) for _ in range(4)]
        assert {result.queue.broker_name for result in results} == {"broker-b"}

    play(test, TWO_BROKERS, ProducerOptions(retry_another_broker_when_not_store_ok=True))


def test_unknown_topic_is_not_found() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        with pytest.raises(NotFoundError, match=r"topic 'nowhere' is unknown .* no TBW102 to create it from"):
            await producer.send(Message("nowhere", b"x"))

    play(test)


def test_topic_that_does_not_exist_borrows_a_route_until_it_has_its_own() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        cluster.name_server.routes["TBW102"] = cluster.route()
        first = await producer.send(Message("young", b"x"))
        assert cluster.broker().sends[0].field("c") == "TBW102"
        assert first.queue.queue_id < 4
        cluster.name_server.routes["young"] = cluster.route()
        await producer.send(Message("young", b"x"))  # whose success makes the producer look again
        async with asyncio.timeout(10):
            while (await producer.queues("young"))[-1].queue_id != 7:
                await asyncio.sleep(0.01)

    play(test, {"broker-a": 8})


def test_no_name_server_is_an_error_that_names_all_of_them() -> None:
    async def run() -> None:
        async with Producer("127.0.0.1:1;127.0.0.1:2") as producer:
            with pytest.raises(
                UnavailableError, match=r"no name server can be reached: 127.0.0.1:1: .*; 127.0.0.1:2: "
            ):
                await producer.send(Message("T", b"x"))

    asyncio.run(run())


def test_next_name_server_is_asked_when_one_is_away() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster, Producer(["127.0.0.1:1", cluster.address]) as producer:
            assert (await producer.send(Message("T", b"x"))).ok

    asyncio.run(run())


def test_route_without_a_master_is_unavailable() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        route = cluster.route()
        (broker,) = route.broker_datas
        slave = type(broker)(cluster="C", broker_name="broker-a", broker_addrs={1: broker.broker_addrs[0]})
        cluster.name_server.routes["T"] = TopicRouteData(broker_datas=(slave,), queue_datas=route.queue_datas)
        with pytest.raises(UnavailableError, match="no broker of topic 'T' has a master at the moment"):
            await producer.send(Message("T", b"x"), timeout=0.3)

    play(test)


def test_send_waits_for_a_master_to_come_back() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        route = cluster.route()
        (broker,) = route.broker_datas
        slave = type(broker)(cluster="C", broker_name="broker-a", broker_addrs={1: broker.broker_addrs[0]})
        cluster.name_server.routes["T"] = TopicRouteData(broker_datas=(slave,), queue_datas=route.queue_datas)
        sending = asyncio.create_task(producer.send(Message("T", b"x")))
        await asyncio.sleep(0)
        cluster.name_server.routes["T"] = route
        assert (await sending).ok

    play(test)


# What is refused before it is sent


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("T", b""), "empty body"),
        (Message("no spaces", b"x"), "not legal"),
        (Message("x" * 128, b"x"), "at most 127"),
        (Message("T", bytes(101)), "larger than maxMessageSize 100"),
        (Message("T", b"x", properties={"a": "b" * 40_000}), "at most 32767"),
        (Message("T", b"x", properties={"a": "b\x01c"}), "separator"),
    ],
)
def test_message_that_no_broker_would_take_is_refused_here(message: Message, reason: str) -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        for send in (producer.send, producer.send_oneway, producer.submit):
            with pytest.raises(InvalidArgumentError, match=reason):
                outcome = send(message)
                assert isinstance(outcome, Awaitable)
                await outcome
        assert not cluster.broker().requests

    play(test, options=ProducerOptions(max_message_size=100))


def test_bad_arguments_are_refused_by_name() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        message = Message("T", b"x")
        with pytest.raises(InvalidArgumentError, match="exactly one of"):
            await producer.send_delayed(message)
        with pytest.raises(InvalidArgumentError, match="exactly one of"):
            await producer.send_delayed(message, level=1, seconds=1)
        with pytest.raises(InvalidArgumentError, match="delay level 0"):
            await producer.send_delayed(message, level=0)
        with pytest.raises(InvalidArgumentError, match="timeout of 0"):
            await producer.send(message, timeout=0)
        with pytest.raises(InvalidArgumentError, match="needs a listener"):
            await producer.transaction(message)
        with pytest.raises(InvalidArgumentError, match="one topic, not to T, U"):
            await producer.send_batch([message, Message("U", b"x")])
        with pytest.raises(InvalidArgumentError, match="cannot be part of a batch"):
            await producer.send_batch([message, Message("T", b"x", delay_level=1)])
        with pytest.raises(InvalidArgumentError, match="is no request"):
            await producer.reply(message, b"answer")
        assert await producer.send_batch([]) == []

    play(test)


@pytest.mark.parametrize("group", ["", "no spaces", "ä", "x" * 256])
def test_bad_group_is_refused(group: str) -> None:
    with pytest.raises(InvalidArgumentError, match="group"):
        Producer("127.0.0.1:9876", group=group)


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:x", "127.0.0.1:70000", []])
def test_bad_name_server_address_is_refused(address: str | list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"127\.0\.0\.1:9876"):
        Producer(address)


def test_producer_works_only_between_start_and_close() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            producer = Producer(cluster.address)
            with pytest.raises(InvalidArgumentError, match="not started"):
                await producer.send(Message("T", b"x"))
            async with producer:
                await producer.send(Message("T", b"x"))
                with pytest.raises(InvalidArgumentError, match="started already"):
                    await producer.start()
            with pytest.raises(InvalidArgumentError, match="closed"):
                await producer.send(Message("T", b"x"))

    asyncio.run(run())


# Together


def test_lone_send_travels_alone_and_many_travel_together() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        await producer.send(Message("T", b"first"))
        results = await asyncio.gather(*(producer.send(Message("T", str(n).encode())) for n in range(300)))
        broker = cluster.broker()
        assert broker.sends[0].code == RequestCode.SEND_MESSAGE_V2
        assert len(broker.sends) < 30
        assert sorted(broker.bodies[1:]) == sorted(str(n).encode() for n in range(300))
        assert len({(result.queue, result.queue_offset) for result in results}) == 300
        for number, result in enumerate(results):  # each got its own place
            assert (await _stored(cluster, result.queue, result.queue_offset)) == str(number).encode()

    play(test)


async def _stored(cluster: FakeCluster, queue: MessageQueue, offset: int) -> bytes:
    from flaremq.message.batch import decode_batch

    at = 0
    for request in cluster.broker(queue.broker_name).sends:
        if request.field("e") != str(queue.queue_id):
            continue
        bodies = [request.body_bytes]
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            bodies = [bytes(item.body) for item in decode_batch(request.body_bytes)]
        if offset < at + len(bodies):
            return bodies[offset - at]
        at += len(bodies)
    raise AssertionError(f"nothing at {offset} of {queue}")


def test_messages_that_must_travel_alone_do() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        odd = [
            Message("T", b"delayed", delay_level=3),
            Message("T", b"timer", properties={"TIMER_DELAY_MS": "5"}),
            Message("T", b"l" * 5000),
            Message("T", b"not waiting", wait_store_msg_ok=False),
        ]
        plain = [Message("T", str(n).encode()) for n in range(20)]
        await asyncio.gather(*(producer.send(message) for message in [*plain, *odd, *plain]))
        alone = {request.body_bytes[:7] for request in cluster.broker().of(RequestCode.SEND_MESSAGE_V2)}
        assert {b"delayed", b"timer", b"not wai"} <= alone
        batched = b"".join(r.body_bytes for r in cluster.broker().of(RequestCode.SEND_BATCH_MESSAGE))
        assert b"delayed" not in batched and b"timer" not in batched and b"llll" not in batched

    play(test)


def test_large_body_is_compressed_and_says_so() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        await producer.send(Message("T", b"l" * 4096))
        await producer.send(Message("T", b"l" * 4095))
        large, small = cluster.broker().sends
        assert (large.int_field("f"), small.int_field("f")) == (0x301, 0)
        assert len(large.body_bytes) < 100 < len(small.body_bytes)

    play(test)


def test_batch_a_broker_finds_illegal_is_sent_one_by_one_and_only_the_bad_one_fails() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        broker = cluster.broker()

        def answer(request: RemotingCommand) -> RemotingCommand:
            if request.code == RequestCode.SEND_BATCH_MESSAGE or request.body_bytes == b"bad":
                return RemotingCommand.response(ResponseCode.MESSAGE_ILLEGAL, "too large")
            return broker.store(request)

        broker.answers[RequestCode.SEND_BATCH_MESSAGE] = broker.answers[RequestCode.SEND_MESSAGE_V2] = answer
        bodies = [b"a", b"b", b"bad", b"c"]
        outcomes = await asyncio.gather(*(producer.send(Message("T", body)) for body in bodies), return_exceptions=True)
        assert [isinstance(outcome, InvalidReplyError) for outcome in outcomes] == [False, False, True, False]
        assert sorted(broker.bodies) == [b"a", b"b", b"c"]

    play(test)


def test_without_auto_batch_every_message_travels_alone() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(50)))
        assert len(cluster.broker().of(RequestCode.SEND_MESSAGE_V2)) == 50

    play(test, options=ProducerOptions(auto_batch=False))


def test_ordered_sends_wait_for_the_retry_of_what_went_ahead() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        cluster.broker().answer_sends(ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY)
        results = await asyncio.gather(
            *(producer.send_ordered(Message("T", str(n).encode()), "key") for n in range(50))
        )
        assert cluster.broker().bodies == [str(n).encode() for n in range(50)]
        assert [result.queue_offset for result in results] == list(range(50))

    play(test)


def test_explicit_batch_is_split_by_size_and_stays_in_one_queue() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        results = await producer.send_batch([Message("T", bytes(1000)) for _ in range(10)])
        assert len(cluster.broker().sends) > 3
        assert {result.queue for result in results} == {results[0].queue}
        assert [result.queue_offset for result in results] == list(range(10))
        assert all(len(request.body_bytes) <= 3000 for request in cluster.broker().sends)

    play(test, options=ProducerOptions(max_message_size=3000))


def test_close_sends_what_is_waiting() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            async with Producer(cluster.address) as producer:
                futures = [producer.submit(Message("T", str(n).encode())) for n in range(100)]
            assert all(future.result().ok for future in futures)
            assert len(cluster.broker().bodies) == 100

    asyncio.run(run())


def test_cancelled_producer_does_not_wait_for_a_silent_broker() -> None:
    async def run() -> None:
        async with fake_cluster() as cluster:
            cluster.broker().ignore_sends()
            started = asyncio.Event()
            futures: list[asyncio.Future[SendResult]] = []

            async def work() -> None:
                async with Producer(cluster.address) as producer:
                    futures.extend(producer.submit(Message("T", b"x")) for _ in range(3))
                    started.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await started.wait()
            await cluster.broker().until(1, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for future in futures:
                with pytest.raises(UnavailableError, match="closed"):
                    await future

    asyncio.run(run())


def test_oneway_send_expects_no_reply() -> None:
    async def test(cluster: FakeCluster, producer: Producer) -> None:
        await producer.send_oneway(Message("T", b"x"))
        (request,) = await cluster.broker().until(1, RequestCode.SEND_MESSAGE_V2)
        assert request.is_oneway

    play(test)

"""Consumers: how they start, what they refuse, how they get over trouble."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from flaremq.client.admin.admin import Admin
from flaremq.client.consumer import consumption as consuming
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.consumer.subscription import SqlFilter
from flaremq.client.producer.producer import Producer
from flaremq.errors import InvalidArgumentError, NotFoundError, ReplyError, UnavailableError
from flaremq.message.message import Message
from flaremq.protocol.bodies.client import HeartbeatData
from flaremq.protocol.bodies.group import GetConsumerListByGroupResponseBody
from flaremq.protocol.bodies.queue import LockBatchResponseBody, MessageQueue
from flaremq.protocol.bodies.stats import ResetOffsetBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.client.consumer.test_received import record
from tests.support.client_scenarios import quick, take, until
from tests.support.fake_cluster import FakeBroker, FakeCluster, fake_cluster

Test = Callable[[EphemeralBroker], Awaitable[None]]


def play(test: Test, *, filters: bool = False) -> None:
    async def run() -> None:
        async with ephemeral_broker(enablePropertyFilter=filters) as broker:
            await test(broker)

    asyncio.run(run())


async def create(broker: EphemeralBroker, topic: str, queues: int = 4) -> None:
    async with Admin(broker.name_server) as admin:
        await admin.create_topic(topic, read_queues=queues, write_queues=queues)


# Starting


def test_unknown_topic_is_an_error_at_the_start() -> None:
    async def test(broker: EphemeralBroker) -> None:
        with pytest.raises(NotFoundError, match="topic 'nowhere' is unknown"):
            await Consumer(broker.name_server, group="g", subscribe="nowhere").start()

    play(test)


def test_unreachable_name_server_is_an_error_at_the_start() -> None:
    with pytest.raises(UnavailableError, match="no name server can be reached"):
        asyncio.run(Consumer("127.0.0.1:1", group="g", subscribe="T").start())


def test_sql_filter_is_judged_at_the_start() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T")
        with pytest.raises(ReplyError, match="amount >>"):
            await Consumer(broker.name_server, group="g", subscribe={"T": SqlFilter("amount >> 3")}).start()

    play(test, filters=True)


def test_sql_filter_is_refused_where_brokers_do_not_filter() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T")
        with pytest.raises(ReplyError, match="amount"):
            await Consumer(broker.name_server, group="g", subscribe={"T": SqlFilter("amount > 3")}).start()

    play(test)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="group ''"):
        Consumer("127.0.0.1:9876", group="")
    with pytest.raises(InvalidArgumentError, match="start_from is 'middle'"):
        Consumer("127.0.0.1:9876", group="g", start_from="middle")
    with pytest.raises(InvalidArgumentError, match="no time zone"):
        Consumer("127.0.0.1:9876", group="g", start_from=datetime(2026, 1, 1))
    with pytest.raises(InvalidArgumentError, match="topic 'a b'"):
        Consumer("127.0.0.1:9876", group="g", subscribe={"a b": "*"})
    with pytest.raises(InvalidArgumentError, match="not started"):
        aiter(Consumer("127.0.0.1:9876", group="g"))


def test_queues_of_others_cannot_be_used() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T")
        queue = MessageQueue("T", "broker-a", 0)
        async with Consumer(broker.name_server, group="g") as consumer:
            for use in (
                lambda: consumer.seek(queue, 0),
                lambda: consumer.position(queue),
                lambda: consumer.pause(queue),
            ):
                with pytest.raises(InvalidArgumentError, match="does not belong to this consumer"):
                    use()
            with pytest.raises(InvalidArgumentError, match="does not exist"):
                await consumer.assign([MessageQueue("T", "broker-a", 99)])
            with pytest.raises(InvalidArgumentError, match="offset -1"):
                await consumer.assign([queue])
                consumer.seek(queue, -1)
            with pytest.raises(InvalidArgumentError, match="cannot pull 0 messages"):
                await consumer.pull(queue, 0, max_count=0)
        async with Consumer(broker.name_server, group="h", subscribe="T") as consumer:
            with pytest.raises(InvalidArgumentError, match="assigned by the group"):
                await consumer.assign([queue])

    play(test)


@pytest.mark.parametrize(
    ("start_from", "expected"),
    [("first", ["old", "new"]), ("last", ["old", "new"]), (datetime(2001, 1, 1, tzinfo=UTC), ["old", "new"])],
)
def test_new_group_on_a_young_queue_gets_everything(start_from: str | datetime, expected: list[str]) -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T", queues=1)
        async with Producer(broker.name_server) as producer:
            await producer.send(Message("T", b"old"))
            async with Consumer(
                broker.name_server, group="g", subscribe="T", start_from=start_from, options=quick()
            ) as consumer:
                await producer.send(Message("T", b"new"))
                received = await take(consumer, len(expected))
        assert [message.body.decode() for message in received] == expected

    play(test)


# Receiving


def test_several_loops_of_one_consumer_share_its_messages() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T")
        async with Producer(broker.name_server) as producer:
            await asyncio.gather(*(producer.send(Message("T", str(n).encode())) for n in range(200)))
        async with Consumer(broker.name_server, group="g", subscribe="T", start_from="first") as consumer:
            seen: list[int] = []

            async def loop() -> None:
                async for message in consumer:
                    seen.append(int(message.body))
                    await asyncio.sleep(0)
                    if len(seen) == 200:
                        await consumer.close()

            async with asyncio.timeout(20):
                await asyncio.gather(*(loop() for _ in range(5)))
        assert sorted(seen) == list(range(200))

    play(test)


def test_handlers_run_at_the_same_time_and_failures_come_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T")
        async with Producer(broker.name_server) as producer:
            for number in range(10):
                await producer.send(Message("T", str(number).encode()))
        seen: list[tuple[int, int]] = []
        async with Consumer(
            broker.name_server, group="g", subscribe="T", start_from="first", options=quick()
        ) as consumer:

            async def handle(message: ReceivedMessage) -> None:
                seen.append((int(message.body), message.delivery_attempt))
                if seen[-1] == (3, 1):
                    raise ValueError("not this time")

            work = asyncio.create_task(consumer.run(handle, concurrency=4))

            async def is_retried() -> bool:
                await broker.advanced(seconds=10)
                return (3, 2) in seen

            await until(is_retried, "the second delivery")
            await consumer.close()
            await work
        assert sorted(seen) == sorted([*((n, 1) for n in range(10)), (3, 2)])

    with caplog.at_level(logging.CRITICAL, logger="flaremq.client.consumer.consumer"):
        play(test)


def test_handler_that_blocks_runs_on_a_thread() -> None:
    async def test(broker: EphemeralBroker) -> None:
        import threading

        await create(broker, "T")
        threads: set[str] = set()
        done = threading.Event()

        def handle(message: ReceivedMessage) -> None:
            threads.add(threading.current_thread().name)
            done.set()

        async with Producer(broker.name_server) as producer:
            await producer.send(Message("T", b"x"))
        async with Consumer(broker.name_server, group="g", subscribe="T", start_from="first") as consumer:
            work = asyncio.create_task(consumer.run(handle, concurrency=2))
            await asyncio.to_thread(done.wait, 20)
            await consumer.close()
            await work
        assert threads and threading.current_thread().name not in threads

    play(test)


def test_batches_are_delivered_and_settled_together() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T", queues=1)
        async with Producer(broker.name_server) as producer:
            await producer.send_batch(Message("T", str(n).encode()) for n in range(50))
        async with Consumer(broker.name_server, group="g", subscribe="T", start_from="first") as consumer:
            bodies: list[bytes] = []
            async with asyncio.timeout(20):
                async for batch in consumer.batches(20):
                    assert len(batch) <= 20
                    bodies += [message.body for message in batch]
                    if len(bodies) == 50:
                        for message in batch:
                            message.ack()
                        break
            assert bodies == [str(n).encode() for n in range(50)]
            (queue,) = await consumer.queues("T")
            assert consumer.position(queue) == 50

    play(test)


def test_paused_queue_delivers_nothing_until_it_is_resumed() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T", queues=2)
        async with (
            Producer(broker.name_server) as producer,
            Consumer(broker.name_server, group="g", subscribe="T", options=quick()) as consumer,
        ):
            first, second = await producer.queues("T")
            consumer.pause(first)
            await producer.send(Message("T", b"paused"), queue=first)
            await producer.send(Message("T", b"free"), queue=second)
            assert [message.body for message in await take(consumer, 1)] == [b"free"]
            consumer.resume()
            assert [message.body for message in await take(consumer, 1)] == [b"paused"]

    play(test)


def test_message_held_for_too_long_comes_again() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T")
        clock = broker.clock
        async with Producer(broker.name_server) as producer:
            await producer.send(Message("T", b"x"))
        async with Consumer(
            broker.name_server, group="g", subscribe="T", start_from="first", options=quick(), clock=clock
        ) as consumer:
            loop = aiter(consumer)
            first = await anext(loop)
            consumption = consumer._consumption
            assert consumption is not None
            consumption.expire()
            await broker.advanced(minutes=16)
            consumption.expire()

            async def is_back() -> bool:
                await broker.advanced(seconds=10)
                return bool([queue for queue in consumer.assignment if consumption.queues[queue].waiting])

            await until(is_back, "the retry")
            second = await anext(loop)
            assert (first.message_id, second.delivery_attempt) == (second.message_id, 2)
            second.ack()

    play(test)


# Trouble


@pytest.mark.slow
def test_consumer_goes_on_after_its_connections_were_lost() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T")
        async with (
            Producer(broker.name_server) as producer,
            Consumer(broker.name_server, group="g", subscribe="T", options=quick()) as consumer,
        ):
            await producer.send(Message("T", b"before"))
            assert len(await take(consumer, 1)) == 1
            for connection in list(broker.broker.server.connections):
                connection.abort()
            await producer.send(Message("T", b"after"))
            assert [message.body for message in await take(consumer, 1)] == [b"after"]

    play(test)


@pytest.mark.slow
def test_orderly_queue_changes_hands_only_when_its_message_is_done() -> None:
    async def test(broker: EphemeralBroker) -> None:
        await create(broker, "T", queues=2)
        order: list[tuple[str, bytes]] = []
        async with Producer(broker.name_server) as producer:
            for queue in await producer.queues("T"):
                await producer.send_batch([Message("T", str(n).encode()) for n in range(2)], queue=queue)
        first = Consumer(
            broker.name_server, group="g", subscribe="T", start_from="first", orderly=True, options=quick()
        )
        second = Consumer(
            broker.name_server, group="g", subscribe="T", start_from="first", orderly=True, options=quick()
        )
        async with first:
            loops = [aiter(first), aiter(first)]
            held = [await anext(loop) for loop in loops]  # one message of each queue is being worked on
            async with second:
                (mine,) = {queue.queue_id for queue in (await _share(first, second))[0]}
                (moving,) = [message for message in held if message.queue.queue_id != mine]
                waiting = asyncio.ensure_future(anext(aiter(second)))

                async def is_asked_for() -> bool:
                    return not [queue for queue in first.assignment if queue == moving.queue]

                await until(is_asked_for, "the first consumer to let go")
                assert not waiting.done()
                order.append(("first", moving.body))
                moving.ack()
                message = await asyncio.wait_for(waiting, 30)
                order.append(("second", message.body))
                assert message.queue == moving.queue
                message.ack()
                for other in held:
                    other.ack()
        assert order == [("first", b"0"), ("second", b"1")]

    play(test)


async def _share(first: Consumer, second: Consumer) -> list[set[MessageQueue]]:
    """Wait until the first consumer has let one of its two queues go."""

    def own(consumer: Consumer) -> set[MessageQueue]:
        return {queue for queue in consumer.assignment if queue.topic == "T"}

    async def is_shared() -> bool:
        return len(own(first)) == 1

    await until(is_shared, "one queue each")
    return [own(first), own(second)]


def test_consumer_moves_where_its_broker_tells_it_to() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        script.replies = [reply(next_offset=6, body=record(b"a", offset=5))]
        async with Consumer(cluster.address, group="g", subscribe="T", options=quick()) as consumer:
            await take(consumer, 1)
            script.replies = [reply(next_offset=3, body=record(b"again", offset=2))]
            table = {MessageQueue("T", "broker-a", 0): 2, MessageQueue("T", "broker-a", 7): 9}
            request = RemotingCommand.request(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"},
                ResetOffsetBody(offset_table=table).to_json(),
                oneway=True,
            )
            cluster.broker().connections[0].notify(request)
            (message,) = await take(consumer, 1)
            assert (message.body, message.queue_offset) == (b"again", 2)

    scripted(test)


def test_change_of_the_group_is_followed_at_once() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        options = quick(rebalance_interval=3_600_000)
        async with Consumer(cluster.address, group="g", subscribe="T", options=options) as consumer:
            cluster.name_server.routes["%RETRY%g"] = cluster.route()
            notice = RemotingCommand.request(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}, oneway=True
            )

            async def has_retry_queue() -> bool:
                cluster.broker().connections[0].notify(notice)
                return any(queue.topic == "%RETRY%g" for queue in consumer.assignment)

            await until(has_retry_queue, "the queue that was not there before")

    scripted(test)


class PullBroker:
    """Scripts what a fake broker answers to a consumer of one queue."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.pulls: list[RemotingCommand] = []
        self.replies: list[RemotingCommand] = []
        broker.answers[RequestCode.PULL_MESSAGE] = self._pull
        broker.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = self._members
        broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda request: RemotingCommand.response(
            ext={"offset": "5"}
        )

    def _members(self, request: RemotingCommand) -> RemotingCommand:
        heartbeats = self.broker.of(RequestCode.HEART_BEAT)
        ids = {HeartbeatData.from_json(beat.body_bytes).client_id for beat in heartbeats}
        return RemotingCommand.response(
            body=GetConsumerListByGroupResponseBody(consumer_id_list=tuple(sorted(ids))).to_json()
        )

    def _pull(self, request: RemotingCommand) -> RemotingCommand | None:
        if request.field("topic") != "T":
            return None  # the retry topic: held for ever
        self.pulls.append(request)
        return self.replies.pop(0) if self.replies else None

    @property
    def offsets(self) -> list[int]:
        return [request.int_field("queueOffset") for request in self.pulls]


def reply(code: int = 0, *, next_offset: int = 0, body: bytes = b"", broker_id: int = 0) -> RemotingCommand:
    ext = {
        "nextBeginOffset": str(next_offset),
        "minOffset": "0",
        "maxOffset": "100",
        "suggestWhichBrokerId": str(broker_id),
    }
    return RemotingCommand.response(code, ext=ext, body=body)


def scripted(test: Callable[[FakeCluster, PullBroker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with fake_cluster({"broker-a": 1}) as cluster:
            await test(cluster, PullBroker(cluster.broker()))

    asyncio.run(run())


def test_pull_goes_on_where_each_answer_says() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        script.replies = [
            reply(ResponseCode.PULL_NOT_FOUND, next_offset=5),
            reply(ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=9),
            reply(next_offset=12, body=record(b"a", offset=9) + record(b"b", offset=11)),
        ]
        async with Consumer(cluster.address, group="g", subscribe="T", options=quick()) as consumer:
            assert [message.body for message in await take(consumer, 2)] == [b"a", b"b"]
            async with asyncio.timeout(20):
                while len(script.pulls) < 4:
                    await asyncio.sleep(0.01)
        assert script.offsets == [5, 5, 9, 12]

    scripted(test)


def test_moved_offset_is_reported_and_followed() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        script.replies = [
            reply(ResponseCode.PULL_OFFSET_MOVED, next_offset=50),
            reply(next_offset=51, body=record(b"a", offset=50)),
        ]
        async with Consumer(cluster.address, group="g", subscribe="T", options=quick()) as consumer:
            assert [message.queue_offset for message in await take(consumer, 1)] == [50]
        commits = [r.int_field("commitOffset") for r in cluster.broker().of(RequestCode.UPDATE_CONSUMER_OFFSET)]
        assert 50 in commits and commits[-1] == 51

    scripted(test)


@pytest.mark.slow
def test_broker_that_forgot_the_group_hears_of_it_again() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        script.replies = [
            RemotingCommand.response(ResponseCode.SUBSCRIPTION_NOT_EXIST, "who?"),
            reply(next_offset=6, body=record(b"a", offset=5)),
        ]
        async with Consumer(cluster.address, group="g", subscribe="T", options=quick()) as consumer:
            beats = len(cluster.broker().of(RequestCode.HEART_BEAT))
            assert len(await take(consumer, 1)) == 1
            assert len(cluster.broker().of(RequestCode.HEART_BEAT)) > beats

    scripted(test)


def test_tag_that_only_shares_the_hash_is_not_delivered() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        # "Aa" and "BB" have the same Java hash.
        records = record(b"wrong", offset=5, TAGS="BB") + record(b"right", offset=6, TAGS="Aa")
        script.replies = [reply(next_offset=7, body=records)]
        async with Consumer(cluster.address, group="g", subscribe={"T": "Aa"}, options=quick()) as consumer:
            assert [message.body for message in await take(consumer, 1)] == [b"right"]

    scripted(test)


@pytest.mark.parametrize(
    "answer",
    [
        RemotingCommand.response(0, ext={"nextBeginOffset": "6"}),
        RemotingCommand.response(0, ext={"nextBeginOffset": "x", "minOffset": "0", "maxOffset": "1"}),
        reply(next_offset=6, body=b"\x00" * 95),
        RemotingCommand.response(777, "what is this"),
    ],
)
def test_consumer_survives_answers_that_make_no_sense(
    answer: RemotingCommand, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "_AFTER_FAILURE", 0.01)

    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        script.replies = [answer, reply(next_offset=6, body=record(b"a", offset=5))]
        async with Consumer(cluster.address, group="g", subscribe="T", options=quick()) as consumer:
            assert [message.body for message in await take(consumer, 1)] == [b"a"]

    with caplog.at_level(logging.WARNING, logger="flaremq.client"):
        scripted(test)
    assert any("queue 0 of topic T" in text for text in caplog.messages)


def test_message_that_cannot_be_sent_back_goes_to_the_retry_topic_as_a_new_one() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        cluster.name_server.routes["%RETRY%g"] = cluster.route()
        cluster.broker().answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda request: RemotingCommand.response(
            ResponseCode.SYSTEM_ERROR, "no record there"
        )
        script.replies = [reply(next_offset=6, body=record(b"bad", offset=5, UNIQ_KEY="u-1"))]
        async with Consumer(cluster.address, group="g", subscribe="T", options=quick()) as consumer:
            async with asyncio.timeout(20):
                async for message in consumer:
                    message.retry()
                    break
            (sent,) = await cluster.broker().until(1, RequestCode.SEND_MESSAGE_V2)
        assert (sent.field("b"), sent.field("j"), sent.field("l"), sent.body_bytes) == ("%RETRY%g", "1", "16", b"bad")
        properties = sent.field("i")
        assert "RETRY_TOPIC\x01T\x02" in properties and "DELAY\x013\x02" in properties
        assert "ORIGIN_MESSAGE_ID\x01u-1\x02" in properties

    scripted(test)


def test_closed_consumer_has_reported_its_progress_and_said_goodbye() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        script.replies = [reply(next_offset=7, body=record(b"a", offset=5) + record(b"b", offset=6))]
        async with Consumer(cluster.address, group="g", subscribe="T") as consumer:
            await take(consumer, 1)
        (commit,) = cluster.broker().of(RequestCode.UPDATE_CONSUMER_OFFSET)[-1:]
        assert commit.int_field("commitOffset") == 6  # the second message was not done
        (goodbye,) = cluster.broker().of(RequestCode.UNREGISTER_CLIENT)
        assert goodbye.field("consumerGroup") == "g"

    scripted(test)


def test_slave_is_read_from_when_the_broker_suggests_it() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        slave = FakeBroker("slave")
        await slave.start()
        route = cluster.route()
        (data,) = route.broker_datas
        both = {0: data.broker_addrs[0], 1: slave.address}
        cluster.name_server.routes["T"] = type(route)(
            broker_datas=(type(data)(cluster="C", broker_name="broker-a", broker_addrs=both),),
            queue_datas=route.queue_datas,
        )
        behind = [reply(next_offset=7, body=record(b"from the slave", offset=6), broker_id=0)]
        slave.answers[RequestCode.PULL_MESSAGE] = lambda request: behind.pop() if behind else None
        script.replies = [reply(next_offset=6, body=record(b"from the master", offset=5), broker_id=1)]
        async with Consumer(cluster.address, group="g", subscribe="T", options=quick()) as consumer:
            bodies = [message.body for message in await take(consumer, 2)]
            assert bodies == [b"from the master", b"from the slave"]
            assert slave.of(RequestCode.HEART_BEAT)
        await slave.stop()

    scripted(test)


# A broker that comes back


@pytest.mark.slow
def test_offsets_are_told_again_to_a_broker_that_was_lost() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        script.replies = [reply(next_offset=7, body=record(b"a", offset=6))]
        options = quick(persist_consumer_offset_interval=60_000)
        async with Consumer(cluster.address, group="g", subscribe="T", options=options) as consumer:
            (message,) = await take(consumer, 1)
            message.ack()
            await consumer.commit()
            broker = cluster.broker()
            told = len(broker.of(RequestCode.UPDATE_CONSUMER_OFFSET))
            for connection in broker.connections:
                connection.close()
            async with asyncio.timeout(20):
                while len(script.pulls) < 3 or "commitOffset" not in (script.pulls[-1].ext or {}):
                    await asyncio.sleep(0.01)
            again = script.pulls[-1]
            assert again.int_field("sysFlag") & 1 and again.int_field("commitOffset") == 7
            assert len(broker.of(RequestCode.UPDATE_CONSUMER_OFFSET)) == told

    scripted(test)


@pytest.mark.slow
def test_orderly_consumer_hands_out_nothing_before_a_lost_broker_has_locked_again() -> None:
    async def test(cluster: FakeCluster, script: PullBroker) -> None:
        broker = cluster.broker()
        queue = MessageQueue("T", "broker-a", 0)
        is_ours = True

        def lock(_: RemotingCommand) -> RemotingCommand:
            locked = frozenset((queue,)) if is_ours else frozenset()
            return RemotingCommand.response(body=LockBatchResponseBody(lock_ok_mq_set=locked).to_json())

        broker.answers[RequestCode.LOCK_BATCH_MQ] = lock
        script.replies = [reply(next_offset=8, body=record(b"a", offset=6) + record(b"b", offset=7))]
        async with Consumer(cluster.address, group="g", subscribe="T", orderly=True, options=quick()) as consumer:
            first = await consumer.receive(timeout=20)
            assert first is not None and first.body == b"a"
            is_ours = False  # another consumer was quicker
            asked = len(broker.of(RequestCode.LOCK_BATCH_MQ))
            for connection in broker.connections:
                connection.close()
            await broker.until(asked + 1, RequestCode.LOCK_BATCH_MQ)
            assert await consumer.receive(timeout=0) is None
            is_ours = True
            second = await consumer.receive(timeout=20)
            assert second is not None and second.body == b"b"

    scripted(test)

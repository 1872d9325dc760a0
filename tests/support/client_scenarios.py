"""What a client must be able to do, whoever wrote the servers: run against ours and against real RocketMQ brokers.

Each scenario gets a name server and does something end to end; it waits for conditions with a deadline, never for time
to pass. Names are new each time, so scenarios do not see each other.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from flaremq.client.admin.admin import Admin
from flaremq.client.admin.messages import TrackType
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.consumer.pulling import PullStatus
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.consumer.subscription import SqlFilter
from flaremq.client.options import ConsumerOptions, ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.client.producer.transactions import TransactionState
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import dlq_topic

Scenario = Callable[[str], Coroutine[Any, Any, None]]
SCENARIOS: dict[str, Scenario] = {}
DEADLINE = 40.0
_numbers = itertools.count()


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def fresh(name: str) -> str:
    return f"{name}-{next(_numbers)}-{uuid.uuid4().hex[:8]}"


def quick(**changes: object) -> ConsumerOptions:
    """A consumer that looks around often."""
    settings: dict[str, object] = {
        "rebalance_interval": 500,
        "persist_consumer_offset_interval": 200,
        "poll_name_server_interval": 500,
        "suspend_current_queue_time_millis": 50,
        "broker_suspend_max_time_millis": 1000,
    }
    return ConsumerOptions(**(settings | changes))  # type: ignore[arg-type]  # names of options


async def take(consumer: Consumer, count: int) -> list[ReceivedMessage]:
    """So many messages, done with."""
    taken: list[ReceivedMessage] = []
    async with asyncio.timeout(DEADLINE):
        async for message in consumer:
            taken.append(message)
            if len(taken) == count:
                message.ack()
                break
    return taken


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE):
            while not await condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not in {DEADLINE} s: {what}") from None


@scenario
async def every_kind_of_send_arrives_as_it_was_sent(name_server: str) -> None:
    topic = fresh("sends")
    large = bytes(range(256)) * 64
    async with Producer(name_server, group=fresh("p")) as producer:
        message = Message(topic, b"one", tags="paid", keys=["k-1", "k-2"], properties={"region": "eü"}, flag=7)
        first = await producer.send(message)
        assert first.ok and first.queue.topic == topic
        compressed = await producer.send(Message(topic, large))
        batch = await producer.send_batch(Message(topic, f"b-{number}".encode(), tags="b") for number in range(10))
        assert [result.queue_offset - batch[0].queue_offset for result in batch] == list(range(10))
        assert len({result.queue for result in batch}) == 1
        many = await asyncio.gather(*(producer.send(Message(topic, f"m-{number}".encode())) for number in range(200)))
        submitted = await asyncio.gather(*(producer.submit(Message(topic, f"s-{n}".encode())) for n in range(50)))
        results = [first, compressed, *batch, *many, *submitted]
        assert len({result.message_id for result in results}) == len(results)
        assert len({(result.queue, result.queue_offset) for result in results}) == len(results)
        await producer.send_oneway(Message(topic, b"oneway"))
        async with Admin(name_server) as admin:
            await _until_routed(admin, topic)  # the first send has made it
        async with Consumer(name_server, group=fresh("c"), subscribe=topic, start_from="first") as consumer:
            received = await take(consumer, len(results) + 1)
    by_id = {message.message_id: message for message in received}
    for result in results:
        message_found = by_id[result.message_id]
        assert (message_found.queue, message_found.queue_offset) == (result.queue, result.queue_offset)
        assert message_found.offset_message_id == result.offset_message_id
    assert by_id[compressed.message_id].body == large
    one = by_id[first.message_id]
    assert (one.body, one.tags, one.keys, one.flag, one.properties["region"]) == (
        b"one",
        "paid",
        ["k-1", "k-2"],
        7,
        "eü",
    )
    assert b"oneway" in {message.body for message in received}


@scenario
async def ordered_sends_of_a_key_keep_their_order(name_server: str) -> None:
    topic = fresh("ordered")
    async with Producer(name_server, group=fresh("p")) as producer, Admin(name_server) as admin:
        await admin.create_topic(topic, read_queues=4, write_queues=4)
        await _until_routed(admin, topic)
        sends = [
            producer.send_ordered(Message(topic, f"{key} {number}".encode()), key)
            for number in range(30)
            for key in ("a", "b", "c")
        ]
        results = await asyncio.gather(*sends)
        for number in range(3):
            own = results[number::3]
            assert len({result.queue for result in own}) == 1
            assert [result.queue_offset for result in own] == sorted(result.queue_offset for result in own)
        async with Consumer(
            name_server, group=fresh("c"), subscribe=topic, start_from="first", orderly=True, options=quick()
        ) as consumer:
            received = await take(consumer, 90)
    for key in ("a", "b", "c"):
        numbers = [int(m.body.split()[1]) for m in received if m.body.startswith(key.encode())]
        assert numbers == list(range(30))


@scenario
async def orderly_consumer_gets_a_failed_message_again_before_the_next(name_server: str) -> None:
    topic = await _created(name_server, fresh("orderly"))
    async with Producer(name_server, group=fresh("p")) as producer:
        for number in range(5):
            await producer.send_ordered(Message(topic, str(number).encode()), "key")
        seen: list[tuple[bytes, int]] = []
        async with Consumer(
            name_server, group=fresh("c"), subscribe=topic, start_from="first", orderly=True, options=quick()
        ) as consumer:
            async with asyncio.timeout(DEADLINE):
                async for message in consumer:
                    seen.append((message.body, message.delivery_attempt))
                    if message.body == b"2" and message.delivery_attempt < 3:
                        message.retry()
                    elif message.body == b"4":
                        message.ack()
                        break
    assert seen == [(b"0", 1), (b"1", 1), (b"2", 1), (b"2", 2), (b"2", 3), (b"3", 1), (b"4", 1)]


@scenario
async def tags_choose_messages(name_server: str) -> None:
    topic = await _created(name_server, fresh("tags"))
    async with Producer(name_server, group=fresh("p")) as producer:
        for number in range(30):
            await producer.send(Message(topic, str(number).encode(), tags=("paid", "open", "shipped")[number % 3]))
        await producer.send(Message(topic, b"no tag"))
        subscribe = {topic: "paid || shipped"}
        async with Consumer(name_server, group=fresh("c"), subscribe=subscribe, start_from="first") as consumer:
            received = await take(consumer, 20)
    assert Counter(message.tags for message in received) == {"paid": 10, "shipped": 10}


@scenario
async def sql_chooses_messages(name_server: str) -> None:
    topic = await _created(name_server, fresh("sql"))
    async with Producer(name_server, group=fresh("p")) as producer:
        for number in range(20):
            properties = {"amount": str(number), "region": "eu" if number % 2 else "us"}
            await producer.send(Message(topic, str(number).encode(), properties=properties))
        subscribe = {topic: SqlFilter("amount BETWEEN 5 AND 15 AND region = 'eu'")}
        async with Consumer(name_server, group=fresh("c"), subscribe=subscribe, start_from="first") as consumer:
            received = await take(consumer, 6)
    assert sorted(int(message.body) for message in received) == [5, 7, 9, 11, 13, 15]


@scenario
async def failed_message_comes_again_and_ends_among_the_dead_letters(name_server: str) -> None:
    topic, group = await _created(name_server, fresh("retry")), fresh("c")
    async with Producer(name_server, group=fresh("p")) as producer:
        sent = await producer.send(Message(topic, b"poison", keys="k"))
        await producer.send(Message(topic, b"fine"))
        attempts: list[int] = []
        options = quick(max_reconsume_times=1)
        async with (
            Consumer(name_server, group=group, subscribe=topic, start_from="first", options=options) as consumer,
            asyncio.timeout(DEADLINE),
        ):
            async for message in consumer:
                assert message.topic == topic
                if message.body == b"poison":
                    assert message.message_id == sent.message_id
                    attempts.append(message.delivery_attempt)
                    message.retry(1)  # a second
                    if len(attempts) == 2:
                        break
        assert attempts == [1, 2]
    async with Admin(name_server) as admin:

        async def is_dead() -> bool:
            try:
                queues = await admin.queues(dlq_topic(group))
                return bool((await admin.pull(queues[0], 0)).messages)
            except NotFoundError:
                return False

        await until(is_dead, "a dead letter")
        (queue,) = await admin.queues(dlq_topic(group))
        letter = (await admin.pull(queue, 0)).messages[0]
        assert (letter.body, letter.uniq_key, letter.keys) == (b"poison", sent.message_id, ["k"])


@scenario
async def two_consumers_share_queues_and_a_leaver_hands_them_over(name_server: str) -> None:
    topic, group = fresh("shared"), fresh("c")
    async with Admin(name_server) as admin, Producer(name_server, group=fresh("p")) as producer:
        await admin.create_topic(topic, read_queues=4, write_queues=4)
        await _until_routed(admin, topic)
        first = Consumer(name_server, group=group, subscribe=topic, options=quick())
        second = Consumer(name_server, group=group, subscribe=topic, options=quick())
        await first.start()
        await second.start()

        def own(consumer: Consumer) -> set[int]:
            return {queue.queue_id for queue in consumer.assignment if queue.topic == topic}

        async def is_shared() -> bool:
            return len(own(first)) == len(own(second)) == 2 and own(first) | own(second) == {0, 1, 2, 3}

        await until(is_shared, "two queues each")
        connections = await admin.group_connections(group)
        assert {c.client_id for c in connections.connection_set} == {first.client_id, second.client_id}
        for number in range(40):
            await producer.send(Message(topic, str(number).encode()))
        received: Counter[bytes] = Counter()

        async def collect(consumer: Consumer) -> None:
            async for message in consumer:
                received[message.body] += 1

        tasks = [asyncio.create_task(collect(first)), asyncio.create_task(collect(second))]

        async def has_all() -> bool:
            return len(received) == 40

        await until(has_all, "all 40 messages")
        assert set(received.values()) == {1}
        await second.close()

        async def is_alone() -> bool:
            return own(first) == {0, 1, 2, 3}

        await until(is_alone, "all queues with the one that stayed")
        for number in range(40, 60):
            await producer.send(Message(topic, str(number).encode()))

        async def has_rest() -> bool:
            return len(received) == 60

        await until(has_rest, "all 60 messages")
        await first.close()
        await asyncio.gather(*tasks)


@scenario
async def progress_survives_a_restart_of_the_consumer(name_server: str) -> None:
    topic, group = await _created(name_server, fresh("progress")), fresh("c")
    async with Producer(name_server, group=fresh("p")) as producer, Admin(name_server) as admin:
        for number in range(20):
            await producer.send(Message(topic, str(number).encode()))
        async with Consumer(name_server, group=group, subscribe=topic, start_from="first") as consumer:
            assert len(await take(consumer, 20)) == 20

        async def is_reported() -> bool:
            stats = (await admin.group_progress(group, topic=topic)).offset_table
            own = {queue: entry for queue, entry in stats.items() if queue.topic == topic}
            return bool(own) and all(entry.consumer_offset == entry.broker_offset for entry in own.values())

        await until(is_reported, "no lag")
        for number in range(20, 25):
            await producer.send(Message(topic, str(number).encode()))
        async with Consumer(name_server, group=group, subscribe=topic, start_from="first") as consumer:
            received = await take(consumer, 5)
        assert sorted(int(message.body) for message in received) == [20, 21, 22, 23, 24]


@scenario
async def raising_in_the_loop_sends_the_message_back(name_server: str) -> None:
    topic, group = await _created(name_server, fresh("raise")), fresh("c")
    async with Producer(name_server, group=fresh("p")) as producer:
        await producer.send(Message(topic, b"x"))
        options = quick()
        try:
            async with (
                Consumer(name_server, group=group, subscribe=topic, start_from="first", options=options) as consumer,
                asyncio.timeout(DEADLINE),
            ):
                async for message in consumer:
                    raise RuntimeError(message.body)
        except RuntimeError:
            pass
        # It is not to be had from the topic again, because it waits in the retry topic.
        async with Admin(name_server) as admin:

            async def is_done() -> bool:
                stats = (await admin.group_progress(group)).offset_table
                return sum(e.consumer_offset for queue, e in stats.items() if queue.topic == topic) == 1

            await until(is_done, "the offset behind the message")


@scenario
async def delayed_message_comes_after_its_delay(name_server: str) -> None:
    topic = await _created(name_server, fresh("delayed"))
    async with Producer(name_server, group=fresh("p")) as producer:
        await producer.send_delayed(Message(topic, b"late"), level=1)
        await producer.send(Message(topic, b"now"))
        async with Consumer(name_server, group=fresh("c"), subscribe=topic, start_from="first") as consumer:
            received = await take(consumer, 2)
    assert [message.body for message in received] == [b"now", b"late"]
    late = received[1]
    assert late.store_timestamp - late.born_timestamp >= 1000


@scenario
async def timer_message_comes_at_its_time_or_is_refused(name_server: str) -> None:
    topic = await _created(name_server, fresh("timer"))
    async with Producer(name_server, group=fresh("p")) as producer, Admin(name_server) as admin:
        status = await admin.broker_status("broker-a")
        if status["brokerVersionDesc"].startswith("V4"):
            with pytest.raises(InvalidArgumentError, match="delivered at once"):
                await producer.send_delayed(Message(topic, b"late"), seconds=1.5)
            return
        await producer.send_delayed(Message(topic, b"late"), seconds=1.5)
        await producer.send(Message(topic, b"now"))
        async with Consumer(name_server, group=fresh("c"), subscribe=topic, start_from="first") as consumer:
            now, late = await take(consumer, 2)
    assert (now.body, late.body) == (b"now", b"late")
    assert late.store_timestamp - late.born_timestamp >= 1000


class Ledger:
    """A transaction listener whose verdicts are set by the test."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    def execute(self, message: Message, argument: object) -> TransactionState:
        assert isinstance(argument, TransactionState)
        return argument

    async def check(self, message: MessageExt) -> TransactionState:
        self.checked.append(message.body.decode())
        return TransactionState.COMMIT


@scenario
async def transactions_commit_roll_back_and_are_asked_back(name_server: str) -> None:
    topic = fresh("transactions")
    ledger = Ledger()
    await _created(name_server, topic)
    async with (
        Producer(name_server, group=fresh("p"), listener=ledger) as producer,
        Consumer(name_server, group=fresh("c"), subscribe=topic) as consumer,
    ):
        committed = await producer.transaction(Message(topic, b"committed"), TransactionState.COMMIT)
        rolled_back = await producer.transaction(Message(topic, b"rolled back"), TransactionState.ROLLBACK)
        unknown = await producer.transaction(Message(topic, b"unknown"), TransactionState.UNKNOWN)
        assert [committed.state, rolled_back.state, unknown.state] == [
            TransactionState.COMMIT,
            TransactionState.ROLLBACK,
            TransactionState.UNKNOWN,
        ]
        received = await take(consumer, 2)
    assert [message.body for message in received] == [b"committed", b"unknown"]
    assert [m.message_id for m in received] == [committed.send.message_id, unknown.send.message_id]
    assert set(ledger.checked) == {"unknown"}


@scenario
async def request_gets_the_reply_of_its_consumer(name_server: str) -> None:
    topic = fresh("questions")
    await _created(name_server, topic)
    async with (
        Producer(name_server, group=fresh("asking")) as asking,
        Producer(name_server, group=fresh("answering")) as answering,
        Consumer(name_server, group=fresh("c"), subscribe=topic) as consumer,
    ):

        async def answer(message: ReceivedMessage) -> None:
            await answering.reply(message, b"re: " + message.body)

        worker = asyncio.create_task(consumer.run(answer, concurrency=4))
        replies = await asyncio.gather(
            *(asking.request(Message(topic, str(number).encode()), timeout=20) for number in range(8))
        )
        assert [reply.body for reply in replies] == [f"re: {number}".encode() for number in range(8)]
        await consumer.close()
        await worker


@scenario
async def messages_are_found_by_key_id_unique_key_and_place(name_server: str) -> None:
    topic, group = await _created(name_server, fresh("found")), fresh("c")
    async with Producer(name_server, group=fresh("p")) as producer, Admin(name_server) as admin:
        results = [await producer.send(Message(topic, str(n).encode(), keys=[f"key-{n}", "all"])) for n in range(3)]

        async def is_indexed() -> bool:
            return len(await admin.query_by_key(topic, "all")) == 3

        await until(is_indexed, "three messages with one key")
        (found,) = await admin.query_by_key(topic, "key-1")
        assert found.body == b"1"
        assert await admin.query_by_key(topic, "nobody") == []
        (found,) = await admin.query_by_unique_key(topic, results[2].message_id)
        assert found.body == b"2"
        assert (await admin.view_message(results[0].offset_message_id)).body == b"0"
        for id_ in (results[1].message_id, results[1].offset_message_id):
            assert (await admin.get_message(topic, id_)).body == b"1"
        assert (await admin.message_at(results[2].queue, results[2].queue_offset)).body == b"2"
        status = await admin.topic_status(topic)
        assert sum(entry.max_offset - entry.min_offset for entry in status.values()) == 3
        async with Consumer(name_server, group=group, subscribe=topic, start_from="first") as consumer:
            await take(consumer, 3)
            await consumer.commit()
            (track,) = await admin.message_track(found)
            assert (track.group, track.track_type) == (group, TrackType.CONSUMED)
        (track,) = await admin.message_track(found)
        assert track.track_type is TrackType.NOT_ONLINE


@scenario
async def queues_can_be_pulled_assigned_and_sought(name_server: str) -> None:
    topic = await _created(name_server, fresh("pulled"), queues=2)
    async with Producer(name_server, group=fresh("p")) as producer:
        queues = await producer.queues(topic)
        for number in range(10):
            await producer.send(
                Message(topic, str(number).encode(), tags="even" if number % 2 == 0 else "odd"), queue=queues[0]
            )
        async with Consumer(name_server, group=fresh("c")) as consumer:
            (queue, other) = await consumer.queues(topic)
            assert queue == queues[0]

            async def is_readable() -> bool:
                return await consumer.max_offset(queue) == 10

            await until(is_readable, "ten messages")
            assert (await consumer.min_offset(queue), await consumer.max_offset(other)) == (0, 0)
            result = await consumer.pull(queue, 4, max_count=3)
            assert [message.body for message in result.messages] == [b"4", b"5", b"6"]
            assert (result.status, result.next_offset, result.max_offset) == (PullStatus.FOUND, 7, 10)
            result = await consumer.pull(queue, 0, expression="odd")
            assert [message.body for message in result.messages] == [b"1", b"3", b"5", b"7", b"9"]
            assert (await consumer.pull(queue, 10)).status is PullStatus.NO_NEW_MESSAGE
            assert (await consumer.pull(queue, 99)).status is PullStatus.OFFSET_ILLEGAL
            await consumer.assign([queue])
            consumer.seek(queue, 7)
            assert [message.body for message in await take(consumer, 3)] == [b"7", b"8", b"9"]
            consumer.seek(queue, 9)
            assert [message.body for message in await take(consumer, 1)] == [b"9"]
            assert consumer.position(queue) == 10
            await consumer.commit()
            assert await consumer.committed(queue) == 10


@scenario
async def broadcasting_consumers_get_everything_each(name_server: str) -> None:
    topic, group = await _created(name_server, fresh("broadcast")), fresh("c")
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        consumers = [
            Consumer(
                name_server,
                group=group,
                subscribe=topic,
                broadcasting=True,
                start_from="first",
                options=quick(instance_name=f"{group}-{number}", offset_store_path=folder),
            )
            for number in range(2)
        ]
        async with Producer(name_server, group=fresh("p")) as producer, consumers[0], consumers[1]:
            for number in range(10):
                await producer.send(Message(topic, str(number).encode()))
            for consumer in consumers:
                assert {int(message.body) for message in await take(consumer, 10)} == set(range(10))
        assert len(list(Path(folder).rglob("*.json"))) == 2
        async with Producer(name_server, group=fresh("p")) as producer:
            await producer.send(Message(topic, b"10"))
            again = Consumer(
                name_server,
                group=group,
                subscribe=topic,
                broadcasting=True,
                start_from="first",
                options=quick(instance_name=f"{group}-0", offset_store_path=folder),
            )
            async with again:
                assert [message.body for message in await take(again, 1)] == [b"10"]


@scenario
async def offsets_are_reset_under_a_running_consumer_and_without_one(name_server: str) -> None:
    topic, group = await _created(name_server, fresh("reset")), fresh("c")
    async with Producer(name_server, group=fresh("p")) as producer, Admin(name_server) as admin:
        for number in range(10):
            await producer.send(Message(topic, str(number).encode()))
        async with Consumer(name_server, group=group, subscribe=topic, start_from="first", options=quick()) as consumer:
            await take(consumer, 10)
            await consumer.commit()
            await admin.reset_offset(group, topic, 0)
            assert {int(message.body) for message in await take(consumer, 10)} == set(range(10))
            await consumer.commit()
        await admin.reset_offset(group, topic, 0)
        async with Consumer(name_server, group=group, subscribe=topic, options=quick()) as consumer:
            assert {int(message.body) for message in await take(consumer, 10)} == set(range(10))


@scenario
async def operators_can_look_and_order(name_server: str) -> None:
    topic, group = fresh("admin"), fresh("c")
    async with Admin(name_server) as admin:
        assert await admin.create_topic(topic, read_queues=3, write_queues=3) == ["broker-a"]
        await _until_routed(admin, topic)
        assert topic in await admin.list_topics()
        (data,) = (await admin.topic_route(topic)).queue_datas
        assert (data.read_queue_nums, data.write_queue_nums, data.perm) == (3, 3, 6)
        assert (await admin.topic_config(topic, "broker-a")).read_queue_nums == 3
        await admin.set_topic_permission(topic, 4)
        assert (await admin.topic_config(topic, "broker-a")).perm == 4
        await admin.set_topic_permission(topic, 6)
        assert "TBW102" in await admin.list_system_topics()
        info = await admin.cluster_info()
        assert info.cluster_addr_table == {"DefaultCluster": ("broker-a",)}
        (address,) = (await admin.masters()).values()
        assert "brokerVersionDesc" in await admin.broker_status(address)
        assert (await admin.broker_config("broker-a"))["brokerName"] == "broker-a"
        await admin.create_group(group)
        assert group in await admin.list_groups()
        assert (await admin.group_config(group, "broker-a")).retry_max_times == 16
        async with (
            Producer(name_server, group=fresh("p")) as producer,
            Consumer(name_server, group=group, subscribe=topic, start_from="first", options=quick()) as consumer,
        ):
            sent = await producer.send(Message(topic, b"x"))
            await take(consumer, 1)
            info_of_consumer = await admin.consumer_running_info(group, consumer.client_id)
            assert topic in {data.topic for data in info_of_consumer.subscription_set}
            assert {queue.topic for queue in info_of_consumer.mq_table} >= {topic}
            assert await admin.topic_groups(topic) == [group]
            positions = await admin.consumer_positions(group, topic)
            assert sum(positions[consumer.client_id].values()) == 1
            again = asyncio.create_task(take(consumer, 1))
            result = await admin.consume_directly(group, consumer.client_id, sent.offset_message_id, topic=topic)
            assert result.consume_result == "CR_SUCCESS"
            assert [message.body for message in await again] == [b"x"]
            connections = await admin.producer_connections(producer.group, topic)
            assert [c.client_id for c in connections.connection_set] == [producer.client_id]
        await admin.put_kv_config("N", topic, "v")
        assert await admin.get_kv_config("N", topic) == "v"
        assert (await admin.list_kv_config("N"))[topic] == "v"
        await admin.delete_kv_config("N", topic)
        assert await admin.get_kv_config("N", topic) is None
        assert (await admin.name_server_config())[name_server]
        await admin.delete_group(group)
        assert group not in await admin.list_groups()
        await admin.delete_topic(topic)
        assert topic not in await admin.list_topics()


async def _created(name_server: str, topic: str, queues: int = 4) -> str:
    async with Admin(name_server) as admin:
        await admin.create_topic(topic, read_queues=queues, write_queues=queues)
        await _until_routed(admin, topic)
    return topic


async def _until_routed(admin: Admin, topic: str) -> None:
    async def is_routed() -> bool:
        try:
            await admin.topic_route(topic)
        except NotFoundError:
            return False
        return True

    await until(is_routed, f"a route of {topic}")


@scenario
async def large_and_odd_messages_survive_the_way(name_server: str) -> None:
    topic = await _created(name_server, fresh("odd"))
    bodies = [b"\x00", b"\xff" * 4095, b"z" * 4096, bytes(1_000_000)]
    async with Producer(name_server, group=fresh("p"), options=ProducerOptions(compress_type="ZLIB")) as producer:
        await asyncio.gather(*(producer.send(Message(topic, body)) for body in bodies))
        results = await producer.send_batch([Message(topic, b"a" * 5000, tags="t"), Message(topic, b"b")])
        assert len(results) == 2
        async with Consumer(name_server, group=fresh("c"), subscribe=topic, start_from="first") as consumer:
            received = await take(consumer, 6)
    assert sorted(message.body for message in received) == sorted([*bodies, b"a" * 5000, b"b"])

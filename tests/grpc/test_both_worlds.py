"""One message, seen by both worlds: sent over gRPC and consumed by remoting clients and read by `scan`, and the other
way round. grpcio's client makes the calls, on the port of a broker that runs."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest

import flaremq
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.options import ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.clock import SystemClock
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, Encoding, MessageType
from flaremq.message.message import Message
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.grpc.door_lab import message, receive_request, resource
from tests.support.grpc_lab import Client, client_of, run


class World:
    """A broker, and a client of each kind."""

    def __init__(self, broker: EphemeralBroker, client: Client) -> None:
        self.broker = broker
        self.client = client
        self.name_server = broker.name_server

    def topic(self, name: str, message_type: str = "", queues: int = 1) -> str:
        attributes = {"message.type": message_type} if message_type else {}
        config = TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6, attributes=attributes
        )
        self.broker.broker.state.topics.update(config)
        return name

    async def send(self, *messages: Any) -> Any:
        reply = await self.client.unary("SendMessage", classes.SendMessageRequest(messages=messages))
        assert reply.status.code == Code.OK, reply
        return reply.entries[0]

    async def receive(self, topic: str, group: str, **wishes: Any) -> Any:
        """The first message that comes."""
        while True:
            request = receive_request(topic, group, count=1, poll=5, **wishes)
            frames = [frame async for frame in self.client.stream("ReceiveMessage", request, timeout=20)]
            if len(frames) > 2:
                return frames[1].message
            assert frames[0].status.code == Code.MESSAGE_NOT_FOUND, frames

    async def ack(self, topic: str, group: str, given: Any) -> None:
        request = classes.AckMessageRequest(group=resource(group), topic=resource(topic))
        system = given.system_properties
        request.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
        assert (await self.client.unary("AckMessage", request)).status.code == Code.OK

    async def scanned(self, topic: str) -> list[dict[str, Any]]:
        """What `flaremq.scan` reads over the wire."""
        scan: Any = flaremq.scan
        table = await asyncio.to_thread(lambda: scan(name_server=self.name_server, topic=topic).read_all())
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def consumer(self, topic: str, group: str, **more: Any) -> Consumer:
        return Consumer(self.name_server, group=group, subscribe={topic: "*"}, start_from="first", **more)


@contextlib.asynccontextmanager
async def world(**options: object) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(ephemeral_broker(clock=SystemClock(), grpcServerPort=0, **options))
        yield World(broker, await stack.enter_async_context(client_of(int(broker.grpc_address.rpartition(":")[2]))))


async def first(consumer: Consumer) -> ReceivedMessage:
    """The first message that comes, done with."""
    async for received in consumer:
        received.ack()
        return received
    raise AssertionError("the consumer was closed")


def test_a_message_of_grpc_is_seen_by_the_other_world_as_it_was_sent() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("orders")
            entry = await lab.send(
                message(topic, "bödy".encode(), tag="paid", keys=["k1", "k2"], properties={"región": "eü", "a": "b"})
            )
            async with lab.consumer(topic, "remoting") as consumer:
                received = await first(consumer)
            assert (received.body.decode(), received.tags, received.keys) == ("bödy", "paid", ["k1", "k2"])
            assert received.message_id == received.uniq_key == entry.message_id
            assert {name: received.properties[name] for name in ("región", "a")} == {"región": "eü", "a": "b"}
            assert received.properties["__BORNHOST"] == "client-host"
            assert received.born_host.startswith("127.0.0.1:")
            assert (received.born_timestamp, received.reconsume_times) == (1_700_000_000_000, 0)
            assert received.queue_offset == entry.offset
            (row,) = await lab.scanned(topic)
            assert (row["body"].decode(), row["tags"], row["keys"]) == ("bödy", "paid", "k1 k2")
            assert dict(row["properties"])["región"] == "eü"
            assert dict(row["properties"])["UNIQ_KEY"] == entry.message_id
            assert row["bornHost"].startswith("127.0.0.1:")

    run(scenario, 60)


def test_a_message_of_the_other_world_is_received_over_grpc_as_it_was_sent() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("orders")
            async with Producer(lab.name_server, group="p") as producer:
                sent = await producer.send(
                    Message(topic, "bödy".encode(), tags="paid", keys=["k1", "k2"], properties={"región": "eü"})
                )
            given = await lab.receive(topic, "grpc", tag="paid")
            system = given.system_properties
            assert (given.topic.name, given.body.decode(), system.tag) == (topic, "bödy", "paid")
            assert list(system.keys) == ["k1", "k2"]
            assert dict(given.user_properties) == {"región": "eü"}
            assert system.message_id == sent.message_id
            assert (system.born_host, system.delivery_attempt) == ("127.0.0.1", 1)
            assert system.queue_offset == sent.queue_offset
            assert system.message_type == MessageType.NORMAL
            assert abs(system.store_timestamp.ToMilliseconds() - system.born_timestamp.ToMilliseconds()) < 60_000
            await lab.ack(topic, "grpc", given)

    run(scenario, 60)


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_compressed_bodies_of_the_other_world_arrive_inflated(kind: str) -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("large")
            options = ProducerOptions(compress_type=kind, compress_msg_body_over_howmuch=100)
            async with Producer(lab.name_server, group="p", options=options) as producer:
                await producer.send(Message(topic, b"hello " * 1000))
            given = await lab.receive(topic, "grpc")
            assert given.body == b"hello " * 1000
            assert given.system_properties.body_encoding == Encoding.IDENTITY
            assert len(given.system_properties.body_digest.checksum) == 32

    run(scenario, 60)


def test_a_gzip_body_of_an_old_client_is_read_by_both_worlds() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("large")
            await lab.send(message(topic, gzip.compress(b"hello " * 1000), body_encoding=Encoding.GZIP))
            async with lab.consumer(topic, "remoting") as consumer:
                received = await first(consumer)
            assert received.body == b"hello " * 1000
            assert (await lab.receive(topic, "grpc")).body == b"hello " * 1000
            assert (await lab.scanned(topic))[0]["body"] == b"hello " * 1000

    run(scenario, 60)


def test_messages_in_order_keep_it_across_the_worlds() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("steps", "FIFO", queues=4)
            for number in range(8):
                await lab.send(message(topic, b"%d" % number, message_group="one"))
            async with lab.consumer(topic, "remoting", orderly=True) as consumer:
                bodies = []
                async for received in consumer:
                    bodies.append(received.body)
                    assert received.properties["__SHARDINGKEY"] == "one"
                    if len(bodies) == 8:
                        received.ack()
                        break
            assert bodies == [b"%d" % number for number in range(8)]
            lab.broker.broker.state.groups.update(
                SubscriptionGroupConfig(group_name="ordered", consume_message_orderly=True)
            )
            for number in range(3):
                given = await lab.receive(topic, "ordered")
                assert (given.body, given.system_properties.message_group) == (b"%d" % number, "one")
                await lab.ack(topic, "ordered", given)

    run(scenario, 60)


def test_a_transaction_of_one_world_is_received_in_the_other() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("money", "TRANSACTION")
            entry = await lab.send(message(topic, b"committed", message_type=MessageType.TRANSACTION))
            end = classes.EndTransactionRequest(topic=resource(topic), resolution=1, source=1)
            end.message_id = end.transaction_id = entry.transaction_id
            assert (await lab.client.unary("EndTransaction", end)).status.code == Code.OK
            async with lab.consumer(topic, "remoting") as consumer:
                received = await first(consumer)
            assert (received.body, received.uniq_key) == (b"committed", entry.message_id)

    run(scenario, 60)


def test_attempts_and_dead_letters_are_counted_across_the_worlds() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("orders")
            lab.broker.broker.state.groups.update(SubscriptionGroupConfig(group_name="G", retry_max_times=1))
            entry = await lab.send(message(topic, b"bad", tag="A", keys=["k"], properties={"own": "v"}))
            for attempt in (1, 2):
                given = await lab.receive(topic, "G", invisible=10)
                assert given.system_properties.delivery_attempt == attempt
                assert given.system_properties.message_id == entry.message_id
                change = classes.ChangeInvisibleDurationRequest(
                    group=resource("G"),
                    topic=resource(topic),
                    receipt_handle=given.system_properties.receipt_handle,
                    message_id=entry.message_id,
                )
                change.invisible_duration.nanos = 1
                assert (await lab.client.unary("ChangeInvisibleDuration", change)).status.code == Code.OK
            # The third would be one too many: it goes to the dead letters instead.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3):
                    raise AssertionError(await lab.receive(topic, "G", invisible=10))
            async with lab.consumer("%DLQ%G", "reader") as consumer:
                letter = await first(consumer)
            assert (letter.body, letter.tags, letter.keys, letter.uniq_key) == (b"bad", "A", ["k"], entry.message_id)
            assert letter.properties["own"] == "v"

    run(scenario, 60)


def test_a_message_that_a_remoting_group_returned_is_retried_there_alone() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("orders")
            async with Producer(lab.name_server, group="p") as producer:
                await producer.send(Message(topic, b"again"))
            async with lab.consumer(topic, "remoting") as consumer:
                attempts = []
                async for received in consumer:
                    attempts.append(received.reconsume_times)
                    if len(attempts) == 2:
                        received.ack()
                        break
                    received.retry(1)
            assert attempts == [0, 1]
            given = await lab.receive(topic, "grpc")
            assert (given.body, given.system_properties.delivery_attempt) == (b"again", 1)

    run(scenario, 60)


def test_admins_see_clients_of_grpc() -> None:
    async def scenario() -> None:
        async with world() as lab:
            topic = lab.topic("orders")
            call = lab.client.bidi("Telemetry")
            settings = classes.Settings(client_type=3)
            settings.subscription.group.name = "G"
            settings.subscription.subscriptions.add(topic=resource(topic)).expression.expression = "paid"
            await call.write(classes.TelemetryCommand(settings=settings))
            assert (await call.read()).status.code == Code.OK
            async with flaremq.Admin(lab.name_server) as admin:
                found = await admin.group_connections("G")
            (member,) = found.connection_set
            assert (member.client_id, member.language) == ("host@1@0@abc", "PYTHON")
            assert member.client_addr.startswith("127.0.0.1:")
            await call.done_writing()

    run(scenario, 60)

"""The calls before a cluster: a name server and a broker of ours in this process, asked over the wire by a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from flaremq.client.admin.admin import Admin
from flaremq.clock import SystemClock
from flaremq.grpc.calls.service import MessagingService
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, MessageType, TransactionResolution, TransactionSource
from flaremq.grpc.rules.limits import CallLimits
from flaremq.proxy.cluster_backend import ClusterBackend
from flaremq.remoting.options import RemotingOptions
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.grpc.door_lab import DoorLab, consumer_settings, message, producer_settings, receive_request, resource


class ProxyLab(DoorLab):
    """The lab of a door, with a proxy between the calls and the broker."""

    def __init__(self, broker: EphemeralBroker, limits: CallLimits) -> None:
        super().__init__(broker, limits)
        self.cluster = ClusterBackend([broker.name_server], RemotingOptions(), SystemClock(), seconds=0.05)
        self.service = MessagingService(self.cluster, limits, seal_key=b"k" * 32)

    async def made(self, name: str, message_type: str = "", *, queues: int = 2) -> str:
        """A topic that the name server knows."""
        self.topic(name, message_type, queues=queues)
        await self.until(lambda: self.cluster.find_topic(name))
        return name

    async def until(self, condition: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(10):
            while not await condition():
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        await super().close()
        await self.cluster.stop()


@contextlib.asynccontextmanager
async def proxy_lab(**options: object) -> AsyncIterator[ProxyLab]:
    async with ephemeral_broker(clock=SystemClock(), **options) as broker:
        lab = ProxyLab(broker, CallLimits(min_long_polling_ms=50))
        await lab.cluster.start()
        lab.service.start()
        try:
            yield lab
        finally:
            await lab.close()


def proxy_test(scenario: Callable[[ProxyLab], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def within() -> None:
            async with proxy_lab(transactionCheckInterval=500, transactionTimeOut=300) as lab:
                await scenario(lab)

        asyncio.run(within())

    run.__name__ = run.__qualname__ = scenario.__name__
    return run


@proxy_test
async def test_messages_go_through_the_proxy_and_are_settled(lab: ProxyLab) -> None:
    await lab.made("T")
    entry = await lab.send("T", b"body", tag="A", keys=["k"], properties={"colour": "red"})
    assert entry.status.code == Code.OK
    given = await lab.receive_soon("T", "G", tag="A")
    assert (given.body, given.system_properties.message_id) == (b"body", entry.message_id)
    assert dict(given.user_properties) == {"colour": "red"}
    changed = await lab.change("T", "G", given, 0.3)
    assert changed.status.code == Code.OK
    again = await lab.receive_soon("T", "G")
    assert again.system_properties.delivery_attempt == 2
    assert await lab.ack("T", "G", again) == Code.OK
    assert await lab.receive("T", "G", poll=0.6) == []


@proxy_test
async def test_what_is_not_there_is_said_in_codes(lab: ProxyLab) -> None:
    assert (await lab.send("NOWHERE")).status.code == Code.TOPIC_NOT_FOUND
    await lab.made("PLAIN")
    refused = await lab.send("PLAIN", message_group="g", message_type=MessageType.FIFO)
    assert refused.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    request = classes.QueryRouteRequest(topic=resource("PLAIN"))
    route = await lab.call("QueryRoute", request)
    assert [queue.id for queue in route.message_queues] == [0, 1]
    assert {queue.broker.name for queue in route.message_queues} == {lab.state.options.broker_name}


@proxy_test
async def test_a_group_in_order_is_given_one_batch_at_a_time(lab: ProxyLab) -> None:
    await lab.made("F", "FIFO")
    lab.group("G", consume_message_orderly=True)
    for number in range(3):
        entry = await lab.send("F", b"%d" % number, message_group="one", message_type=MessageType.FIFO)
        assert entry.status.code == Code.OK
    first = await lab.receive("F", "G", count=1, poll=2)
    assert [each.body for each in first] == [b"0"]
    assert await lab.receive("F", "G", count=1) == []
    assert await lab.ack("F", "G", first[0]) == Code.OK
    assert [each.body for each in await lab.receive("F", "G", count=1, poll=2)] == [b"1"]


@proxy_test
async def test_transactions_end_by_the_client_or_are_asked_about(lab: ProxyLab) -> None:
    await lab.made("TX", "TRANSACTION", queues=1)
    stream = await lab.telemetry(producer_settings("TX"), client="p1")
    assert (await stream.next()).status.code == Code.OK

    async def open_one(body: bytes) -> str:
        half = message("TX", body, message_type=MessageType.TRANSACTION)
        half.system_properties.born_timestamp.seconds = int(time.time())  # an old one would not be asked about
        reply = await lab.call("SendMessage", classes.SendMessageRequest(messages=[half]), "p1")
        assert reply.status.code == Code.OK
        return str(reply.entries[0].transaction_id)

    kept, asked = await open_one(b"kept"), await open_one(b"asked")

    async def end(transaction_id: str, source: TransactionSource) -> int:
        request = classes.EndTransactionRequest(
            topic=resource("TX"),
            message_id=transaction_id,
            transaction_id=transaction_id,
            resolution=TransactionResolution.COMMIT,
            source=source,
        )
        return int((await lab.call("EndTransaction", request, client="p1")).status.code)

    assert await end(kept, TransactionSource.SOURCE_CLIENT) == Code.OK
    command = (await stream.next()).recover_orphaned_transaction_command
    assert (command.message.body, command.transaction_id) == (b"asked", asked)
    assert await end(command.transaction_id, TransactionSource.SOURCE_SERVER_CHECK) == Code.OK
    bodies = {(await lab.receive_soon("TX", "G")).body for _ in range(2)}
    assert bodies == {b"kept", b"asked"}


@proxy_test
async def test_brokers_know_a_consumer_until_it_leaves(lab: ProxyLab) -> None:
    await lab.made("T")

    async def members() -> list[str]:
        return lab.state.consumers.client_ids("G")

    stream = await lab.telemetry(consumer_settings("G", "T"))
    assert (await stream.next()).status.code == Code.OK
    assert await members() == ["c1"]
    async with Admin(lab.broker.name_server) as admin:  # and can ask it
        (connection,) = (await admin.group_connections("G")).connection_set
        assert (connection.client_id, connection.language) == ("c1", "PYTHON")
        running = await admin.consumer_running_info("G", "c1")
        assert running.properties["PROP_CLIENT_VERSION"] == "5.1.2"
        assert [subscription.topic for subscription in running.subscription_set] == ["T"]
    request = classes.NotifyClientTerminationRequest(group=resource("G"))
    assert (await lab.call("NotifyClientTermination", request)).status.code == Code.OK

    async def is_gone() -> bool:
        return not await members()

    await lab.until(is_gone)


@proxy_test
async def test_a_message_is_given_up(lab: ProxyLab) -> None:
    await lab.made("T")
    sent = await lab.send("T", b"bad")
    given = await lab.receive_soon("T", "G")
    request = classes.ForwardMessageToDeadLetterQueueRequest(
        group=resource("G"),
        topic=resource("T"),
        receipt_handle=given.system_properties.receipt_handle,
        message_id=sent.message_id,
        delivery_attempt=1,
        max_delivery_attempts=1,
    )
    assert (await lab.call("ForwardMessageToDeadLetterQueue", request)).status.code == Code.OK
    await lab.until(lambda: lab.cluster.find_topic("%DLQ%G"))
    letter = await lab.receive_soon("%DLQ%G", "READER")
    assert (letter.body, letter.system_properties.message_id) == (b"bad", sent.message_id)


@proxy_test
async def test_a_cancelled_receive_gives_back_what_it_took(lab: ProxyLab) -> None:
    await lab.made("T", queues=1)
    call = lab.new_call("ReceiveMessage", seconds=20)
    request = message("T")  # sent below, once the receive waits
    waiting = asyncio.create_task(lab.stream("ReceiveMessage", receive_request("T", "G", poll=5), call))
    await asyncio.sleep(0.2)
    waiting.cancel()
    call.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    reply = await lab.call("SendMessage", classes.SendMessageRequest(messages=[request]), "p1")
    assert reply.status.code == Code.OK
    given = await lab.receive_soon("T", "G")
    assert given.system_properties.delivery_attempt == 1

"""The blocking twins."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Iterator

import pytest

import flaremq.sync
from flaremq.client.admin import admin
from flaremq.client.consumer import consumer
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.producer import producer
from flaremq.client.producer.transactions import TransactionState
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.sync import Admin, Consumer, Producer
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.support.client_scenarios import quick


@pytest.fixture(scope="module")
def broker() -> Iterator[EphemeralBroker]:
    with ephemeral_broker() as started:
        yield started


@pytest.mark.parametrize(
    ("blocking", "original"),
    [(Producer, producer.Producer), (Consumer, consumer.Consumer), (Admin, admin.Admin)],
)
def test_every_public_name_has_its_twin(blocking: type, original: type) -> None:
    asynchronous_only = {"exchange", "receiver"}  # what the blocking ones are made of
    names = {name for name in dir(original) if not name.startswith("_")} - asynchronous_only
    assert names - set(dir(blocking)) == set()
    for name in names:
        method = getattr(original, name)
        if inspect.iscoroutinefunction(method):
            assert not inspect.iscoroutinefunction(getattr(blocking, name))


def test_messages_sent_are_received(broker: EphemeralBroker) -> None:
    with Admin(broker.name_server) as operator, Producer(broker.name_server, group="p") as sender:
        operator.create_topic("sync", read_queues=2, write_queues=2)
        results = sender.send_batch([Message("sync", str(n).encode()) for n in range(40)])
        results.append(sender.send(Message("sync", b"40")))
        futures = [sender.submit(Message("sync", str(n).encode())) for n in range(41, 60)]
        results += [future.result(20) for future in futures]
        with Consumer(broker.name_server, group="sync", subscribe="sync", start_from="first") as receiver:
            received = []
            for message in receiver:
                received.append(message)
                if len(received) == 60:
                    message.ack()
                    break
            assert sum(receiver.position(queue) for queue in receiver.assignment if queue.topic == "sync") == 60
    assert {message.message_id for message in received} == {result.message_id for result in results}


def test_message_of_a_loop_that_was_left_comes_again_and_unseen_ones_stay(broker: EphemeralBroker) -> None:
    with Admin(broker.name_server) as operator, Producer(broker.name_server) as sender:
        operator.create_topic("left", read_queues=1, write_queues=1)
        sender.send_batch([Message("left", str(n).encode()) for n in range(30)])
        with Consumer(
            broker.name_server, group="left", subscribe="left", start_from="first", options=quick()
        ) as receiver:
            seen = []
            for message in receiver:
                seen.append(message.body)
                if len(seen) == 20:
                    break  # in the middle of what crossed the threads together
            deadline = time.monotonic() + 30
            for message in receiver:
                seen.append(message.body)
                broker.advance(seconds=10)
                if len(seen) == 31 or time.monotonic() > deadline:
                    message.ack()
                    break
    assert sorted(seen) == sorted([*(str(n).encode() for n in range(30)), b"19"])


def test_several_threads_share_a_consumer(broker: EphemeralBroker) -> None:
    with Admin(broker.name_server) as operator, Producer(broker.name_server) as sender:
        operator.create_topic("threads", read_queues=4, write_queues=4)
        for number in range(100):
            sender.submit(Message("threads", str(number).encode()))
        sender.flush()
        seen: list[int] = []
        with Consumer(broker.name_server, group="threads", subscribe="threads", start_from="first") as receiver:

            def consume(messages: Iterator[ReceivedMessage]) -> None:
                for message in messages:
                    seen.append(int(message.body))
                    if len(seen) == 100:
                        message.ack()
                        receiver.close()
                        return

            threads = [threading.Thread(target=consume, args=(iter(receiver),)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
    assert sorted(seen) == list(range(100))


def test_listener_may_block_and_use_a_blocking_client(broker: EphemeralBroker) -> None:
    with Admin(broker.name_server) as operator:
        operator.create_topic("ledger")

        class Ledger:
            def execute(self, message: Message, argument: object) -> TransactionState:
                operator.list_topics()  # blocks until the event loop has done its work
                return TransactionState.COMMIT

            def check(self, message: MessageExt) -> TransactionState:
                return TransactionState.UNKNOWN

        with Producer(broker.name_server, group="ledger", listener=Ledger()) as sender:
            assert sender.transaction(Message("ledger", b"x")).state is TransactionState.COMMIT
        assert sum(entry.max_offset for entry in operator.topic_status("ledger").values()) == 1


def test_errors_are_those_of_the_asyncio_clients(broker: EphemeralBroker) -> None:
    with Admin(broker.name_server) as operator, pytest.raises(NotFoundError, match="'nowhere'"):
        operator.topic_route("nowhere")
    with pytest.raises(InvalidArgumentError, match="not started"):
        Producer(broker.name_server).send(Message("T", b"x"))


def test_blocking_client_on_its_own_event_loop_is_refused_instead_of_blocking_for_ever() -> None:
    async def misuse() -> None:
        with pytest.raises(InvalidArgumentError, match="use the asyncio one"):
            Producer("127.0.0.1:9876").start()

    flaremq.sync._loop().start(misuse()).result(20)


def test_front_of_the_package_shows_what_it_offers() -> None:
    import flaremq

    names = dir(flaremq)
    assert {"Producer", "Consumer", "Message", "MessageStore", "TransactionListener", "errors", "scan"} <= set(names)
    assert all(getattr(flaremq, name) is not None for name in names)
    assert issubclass(flaremq.errors.UnavailableReplyError, flaremq.errors.UnavailableError)

"""Arguments of the wrong kind: every door of the client refuses them with InvalidArgumentError."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from flaremq import Admin, Consumer, Message, Producer
from flaremq.errors import InvalidArgumentError
from flaremq.testing import ephemeral_broker

NO_TEXT = (5, -1, 1.5, b"x", object(), [], {}, True)
NO_QUEUE = (5, "t", b"x", object(), [], {})
NO_WHOLE_NUMBER = (None, "5", b"5", 1.5, object(), [], True, float("nan"), float("inf"), 2**70)
NO_DURATION = ("5", b"5", object(), [], float("nan"), float("inf"))
NO_MESSAGE = (None, 5, "x", b"x", object(), [], {})

Door = Callable[[Any], Any]


async def leaks(doors: dict[str, tuple[Door, tuple[Any, ...]]]) -> list[str]:
    """What the doors did not refuse as they should."""
    found = []
    for name, (door, values) in doors.items():
        for value in values:
            try:
                outcome = door(value)
                if inspect.isawaitable(outcome):
                    await outcome
            except InvalidArgumentError:
                continue
            except Exception as error:
                found.append(f"{name}({value!r}): {type(error).__name__}: {error}")
            else:
                found.append(f"{name}({value!r}) was taken")
    return found


def test_producer_refuses_arguments_of_the_wrong_kind() -> None:
    async def scenario() -> None:
        async with ephemeral_broker() as broker, Producer(broker.name_server, group="g") as producer:
            message = Message("t", b"x")
            await producer.send(message)
            doors: dict[str, tuple[Door, tuple[Any, ...]]] = {
                "Producer": (Producer, (None, *NO_TEXT)),
                "Producer(group)": (lambda bad: Producer(broker.name_server, group=bad), (None, *NO_TEXT)),
                "send": (producer.send, NO_MESSAGE),
                "submit": (producer.submit, NO_MESSAGE),
                "send_oneway": (producer.send_oneway, NO_MESSAGE),
                "send(queue)": (lambda bad: producer.send(message, queue=bad), NO_QUEUE),
                "send(timeout)": (lambda bad: producer.send(message, timeout=bad), NO_DURATION),
                "send_batch": (producer.send_batch, (None, 5, object())),
                "send_batch(of)": (lambda bad: producer.send_batch([bad]), NO_MESSAGE),
                "send_delayed(seconds)": (lambda bad: producer.send_delayed(message, seconds=bad), NO_DURATION),
                "send_delayed(level)": (
                    lambda bad: producer.send_delayed(message, level=bad),
                    ("5", b"5", 1.5, object(), []),
                ),
                "send_ordered(key)": (lambda bad: producer.send_ordered(message, bad), (None, *NO_TEXT)),
                "queues": (producer.queues, (None, *NO_TEXT)),
                "recall": (lambda bad: producer.recall(bad, "handle"), (None, *NO_TEXT)),
            }
            assert await leaks(doors) == []

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_consumer_refuses_arguments_of_the_wrong_kind() -> None:
    async def scenario() -> None:
        async with ephemeral_broker() as broker:
            async with Producer(broker.name_server) as producer:
                await producer.send(Message("t", b"x"))

            def consumer_of(**named: Any) -> Consumer:
                return Consumer(broker.name_server, **{"group": "g", "subscribe": "t"} | named)

            async with consumer_of() as consumer:
                queue = consumer.assignment[0]
                doors: dict[str, tuple[Door, tuple[Any, ...]]] = {
                    "Consumer(group)": (lambda bad: consumer_of(group=bad), (None, *NO_TEXT)),
                    "Consumer(subscribe)": (lambda bad: consumer_of(subscribe=bad), (5, 1.5, b"x", object(), True)),
                    "Consumer(topic)": (lambda bad: consumer_of(subscribe={bad: "*"}), (None, 5, b"x", object())),
                    "Consumer(expression)": (lambda bad: consumer_of(subscribe={"t": bad}), (None, *NO_TEXT)),
                    "pull": (lambda bad: consumer.pull(bad, 0), (None, *NO_QUEUE)),
                    "pull(offset)": (lambda bad: consumer.pull(queue, bad), NO_WHOLE_NUMBER),
                    "seek": (lambda bad: consumer.seek(bad, 0), (None, *NO_QUEUE)),
                    "seek(offset)": (lambda bad: consumer.seek(queue, bad), NO_WHOLE_NUMBER),
                    "position": (consumer.position, (None, *NO_QUEUE)),
                    "pause": (consumer.pause, (None, *NO_QUEUE)),
                    "resume": (consumer.resume, (None, *NO_QUEUE)),
                    "committed": (consumer.committed, (None, *NO_QUEUE)),
                    "min_offset": (consumer.min_offset, (None, *NO_QUEUE)),
                    "offset_by_time": (lambda bad: consumer.offset_by_time(queue, bad), NO_WHOLE_NUMBER),
                    "batches": (consumer.batches, NO_WHOLE_NUMBER[:-1]),
                    "queues": (consumer.queues, (None, *NO_TEXT)),
                }
                assert await leaks(doors) == []

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_admin_refuses_arguments_of_the_wrong_kind() -> None:
    async def scenario() -> None:
        async with ephemeral_broker() as broker, Admin(broker.name_server) as admin:
            await admin.create_topic("t")
            queue = (await admin.queues("t"))[0]
            doors: dict[str, tuple[Door, tuple[Any, ...]]] = {
                "create_topic": (admin.create_topic, (None, *NO_TEXT)),
                "create_topic(queues)": (lambda bad: admin.create_topic("n", read_queues=bad), NO_WHOLE_NUMBER),
                "create_topic(attributes)": (lambda bad: admin.create_topic("n", attributes=bad), (5, "a", [1])),
                "create_topic(broker)": (lambda bad: admin.create_topic("n", broker=bad), NO_TEXT),
                "delete_topic": (admin.delete_topic, (None, *NO_TEXT)),
                "topic_status": (admin.topic_status, (None, *NO_TEXT)),
                "masters(cluster)": (lambda bad: admin.masters(cluster=bad), NO_TEXT),
                "create_group": (admin.create_group, (None, *NO_TEXT)),
                "delete_group": (admin.delete_group, (None, *NO_TEXT)),
                "group_progress": (admin.group_progress, (None, *NO_TEXT)),
                "group_connections": (admin.group_connections, (None, *NO_TEXT)),
                "max_offset": (admin.max_offset, (None, *NO_QUEUE)),
                "offset_by_time": (lambda bad: admin.offset_by_time(queue, bad), NO_WHOLE_NUMBER),
                "pull": (lambda bad: admin.pull(queue, bad), NO_WHOLE_NUMBER),
                "commit_offset": (lambda bad: admin.commit_offset("g", queue, bad), NO_WHOLE_NUMBER),
                "view_message": (admin.view_message, (None, *NO_TEXT)),
                "resume_half_message": (admin.resume_half_message, (None, *NO_TEXT)),
                "query_by_key": (lambda bad: admin.query_by_key("t", bad), (None, *NO_TEXT)),
                "set_broker_config": (admin.set_broker_config, (5, "a=b", [1], {"brokerName": "\udc80"})),
            }
            assert await leaks(doors) == []

    asyncio.run(asyncio.wait_for(scenario(), 60))

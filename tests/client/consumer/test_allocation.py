"""Sharing out queues: the same parts that Java's clients take."""

from __future__ import annotations

import pytest

from flaremq.client.consumer.allocation import STRATEGIES, average, average_by_circle, consistent_hash
from flaremq.protocol.bodies.queue import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in ("broker-a", "broker-b") for number in range(5)]
CLIENTS = ["10.0.0.1@1", "10.0.0.2@2", "10.0.0.3@3"]

# What RocketMQ 4.9.7 answers for these clients and queues.
JAVA = {
    "AVG": ("a0 a1 a2 a3", "a4 b0 b1", "b2 b3 b4"),
    "AVG_BY_CIRCLE": ("a0 a3 b1 b4", "a1 a4 b2", "a2 b0 b3"),
    "CONSISTENT_HASH": ("a3 a4", "a2", "a0 a1 b0 b1 b2 b3 b4"),
}


def short(queues: list[MessageQueue]) -> str:
    return " ".join(f"{queue.broker_name[-1]}{queue.queue_id}" for queue in queues)


@pytest.mark.parametrize("name", JAVA)
def test_each_client_takes_the_part_a_java_client_would_take(name: str) -> None:
    assert tuple(short(STRATEGIES[name](client, CLIENTS, QUEUES)) for client in CLIENTS) == JAVA[name]


@pytest.mark.parametrize("strategy", STRATEGIES.values())
@pytest.mark.parametrize("clients", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("queues", [0, 1, 4, 10])
def test_every_queue_has_exactly_one_owner(strategy: object, clients: int, queues: int) -> None:
    assert callable(strategy)
    ids = sorted(f"10.0.0.{number}@1" for number in range(clients))
    taken = [queue for client in ids for queue in strategy(client, ids, QUEUES[:queues])]
    assert sorted(taken) == sorted(QUEUES[:queues])


@pytest.mark.parametrize("strategy", [average, average_by_circle, consistent_hash])
def test_a_client_that_is_not_in_the_list_gets_nothing(strategy: object) -> None:
    assert callable(strategy)
    assert strategy("10.0.0.9@9", CLIENTS, QUEUES) == []

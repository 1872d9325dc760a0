"""Sharing out queues: the same parts that Java's clients take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.queue_allocation import (
    BROKER_STRATEGIES,
    STRATEGIES,
    allocate_for_pop,
    average,
    average_by_circle,
    consistent_hash,
)

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


def numbered(queues: int) -> list[MessageQueue]:
    return [MessageQueue("T", "broker-a", number) for number in range(queues)]


def client_names(clients: int) -> list[str]:
    return [f"c{number:02}" for number in range(clients)]


@given(queues=st.integers(0, 40), clients=st.integers(1, 15), name=st.sampled_from(sorted(BROKER_STRATEGIES)))
def test_every_queue_has_exactly_one_reader_and_shares_differ_by_one(queues: int, clients: int, name: str) -> None:
    ids = client_names(clients)
    shares = [STRATEGIES[name](client, ids, numbered(queues)) for client in ids]
    assert sorted(queue for share in shares for queue in share) == numbered(queues)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(queues=st.integers(1, 40), clients=st.integers(1, 15), index=st.integers(0, 14))
def test_average_is_what_java_clients_compute(queues: int, clients: int, index: int) -> None:
    index %= clients
    rest = queues % clients
    if queues <= clients:
        size = 1
    else:
        size = queues // clients + (1 if rest and index < rest else 0)
    start = index * size if rest and index < rest else index * size + rest
    ids = client_names(clients)
    assert average(ids[index], ids, numbered(queues)) == numbered(queues)[start : start + size]


@given(queues=st.integers(1, 20), clients=st.integers(2, 12), share=st.integers(1, 12))
def test_limited_pop_reads_every_queue(queues: int, clients: int, share: int) -> None:
    everything = numbered(queues)
    ids = client_names(clients)
    read = {queue for one in ids for queue in allocate_for_pop(average, one, ids, everything, share)}
    assert read == (set(everything) if share < clients - 1 else {MessageQueue("T", "broker-a", -1)})

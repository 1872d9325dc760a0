"""Sharing queues out among the clients of a group: the rules a broker applies for clients that leave it to him.

Every client must come to the same result from the same sorted lists, so the rules are RocketMQ's to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flaremq.protocol.bodies.queue import MessageQueue

Strategy = Callable[[int, int, int], list[int]]  # queues, clients, which client: the numbers of its queues

ANY_QUEUE: Final = -1  # in POP mode: whichever queue of that broker has something


def average(queue_count: int, client_count: int, index: int) -> list[int]:
    """AVG: a run of neighbours each; the first clients have one more if it does not come out even."""
    share, rest = divmod(queue_count, client_count)
    start = index * share + min(index, rest)
    return list(range(start, start + share + (1 if index < rest else 0)))


def average_by_circle(queue_count: int, client_count: int, index: int) -> list[int]:
    """AVG_BY_CIRCLE: dealt out one by one."""
    return list(range(index, queue_count, client_count))


STRATEGIES: Final[Mapping[str, Strategy]] = {"AVG": average, "AVG_BY_CIRCLE": average_by_circle}


def allocate(
    strategy: Strategy, queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str
) -> list[MessageQueue]:
    """The queues of one client in PULL mode; both lists sorted."""
    if client_id not in client_ids:
        return []
    numbers = strategy(len(queues), len(client_ids), client_ids.index(client_id))
    return [queues[number] for number in numbers]


def allocate_for_pop(
    strategy: Strategy,
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    client_id: str,
    share_queue_num: int,
) -> list[MessageQueue]:
    """The queues of one client in POP mode, where several may read one queue.

    Without a limit everybody reads everything, as one nameless queue per broker. With one, a client also gets the
    queues of the so many clients behind it in the list.
    """
    if share_queue_num <= 0 or share_queue_num >= len(client_ids) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        return [MessageQueue(topic, broker_name, ANY_QUEUE) for topic, broker_name in brokers]
    if client_id not in client_ids or not queues:
        return []
    index = client_ids.index(client_id)
    if len(client_ids) > len(queues):
        return [queues[index % len(queues)]]
    result: dict[MessageQueue, None] = {}
    for step in range(share_queue_num + 1):
        numbers = strategy(len(queues), len(client_ids), (index + step) % len(client_ids))
        result.update(dict.fromkeys(queues[number] for number in numbers))
    return list(result)

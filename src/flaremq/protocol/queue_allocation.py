"""Which of a topic's queues belong to which consumer of a group: pure functions, the same in every client and broker.

Each consumer computes the whole share-out from the same two sorted lists and takes its own part, so no one hands out
queues; a broker does the same for clients that leave it to him. That works only if all compute exactly alike: these
are RocketMQ's rules.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from flaremq.protocol.bodies.queue import MessageQueue

Strategy = Callable[[str, Sequence[str], Sequence[MessageQueue]], list[MessageQueue]]

ANY_QUEUE: Final = -1  # in POP mode: whichever queue of that broker has something
_VIRTUAL_NODES: Final = 10  # of each client on the ring, as in RocketMQ


def average(client_id: str, client_ids: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """AVG: neighbouring queues; the first clients get one more if it does not come out even."""
    if client_id not in client_ids:
        return []
    index, clients = client_ids.index(client_id), len(client_ids)
    share, rest = divmod(len(queues), clients)
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def average_by_circle(client_id: str, client_ids: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: dealt out like cards."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


def consistent_hash(client_id: str, client_ids: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """CONSISTENT_HASH: by a hash ring: when a client comes or goes, few queues of the others move."""
    if client_id not in client_ids:
        return []
    ring = sorted((_place(f"{name}-{node}"), name) for name in client_ids for node in range(_VIRTUAL_NODES))
    places = [place for place, _ in ring]

    def owner(queue: MessageQueue) -> str:
        # The text a Java client puts on the ring for a queue.
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
        return ring[bisect_left(places, _place(text)) % len(ring)][1]

    return [queue for queue in queues if owner(queue) == client_id]


def _place(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


STRATEGIES: Final[dict[str, Strategy]] = {
    "AVG": average,
    "AVG_BY_CIRCLE": average_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
BROKER_STRATEGIES: Final = ("AVG", "AVG_BY_CIRCLE")  # those that a RocketMQ broker knows


def allocate_for_pop(
    strategy: Strategy, client_id: str, client_ids: Sequence[str], queues: Sequence[MessageQueue], share_queue_num: int
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
    sharers = [client_ids[(index + step) % len(client_ids)] for step in range(share_queue_num + 1)]
    return list(dict.fromkeys(queue for sharer in sharers for queue in strategy(sharer, client_ids, queues)))

"""What producers were told and what consumers were given, and what brokers must have because of that."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from tests.interop.replication.talk import OK, Reply, Talk, messages

TOPIC = "episodes"
QUEUES = 4
Place = tuple[int, int]  # queue id, queue offset


@dataclass(slots=True)
class Ledger:
    """Filled by several threads; read while they pause."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    invoked: set[bytes] = field(default_factory=set)
    acknowledged: dict[Place, bytes] = field(default_factory=dict)
    delivered: dict[Place, bytes] = field(default_factory=dict)
    # Of each producer and queue the offsets it was told, in the order of its sends: they must rise.
    told: dict[tuple[str, int], int] = field(default_factory=dict)
    codes: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def sent(self, producer: str, queue_id: int, body: bytes, reply: Reply | None) -> None:
        with self.lock:
            self.codes[str(reply.code) if reply is not None else "no answer"] += 1
            if reply is None or reply.code != OK:
                return
            offset = int(reply.fields["queueOffset"])
            place = queue_id, offset
            other = self.acknowledged.setdefault(place, body)
            if other != body:
                self.errors.append(f"{place} was promised to {other[:30]!r} and to {body[:30]!r}")
            if offset <= self.told.get((producer, queue_id), -1):
                self.errors.append(f"{producer} was told {offset} in queue {queue_id} after a higher one")
            self.told[producer, queue_id] = offset

    def received(self, place: Place, body: bytes) -> None:
        with self.lock:
            other = self.delivered.setdefault(place, body)
            if other != body:
                self.errors.append(f"{place} was delivered as {other[:30]!r} and as {body[:30]!r}")

    def check(self, talk: Talk, *, since: dict[int, int] | None = None) -> dict[int, int]:
        """This broker has everything that was promised or delivered, each at its place; the ends of its queues.

        ``since`` are ends that an earlier check returned: what is before them was looked at then.
        """
        ends: dict[int, int] = {}
        for queue_id in range(QUEUES):
            begin = (since or {}).get(queue_id, 0)
            found = read_queue(talk, queue_id, begin)
            ends[queue_id] = begin + len(found)
            with self.lock:
                self._check_queue(queue_id, begin, found)
        if self.errors:
            raise AssertionError("; ".join(self.errors[:5]))
        return ends

    def _check_queue(self, queue_id: int, begin: int, found: dict[int, bytes]) -> None:
        for name, places in (("promised", self.acknowledged), ("delivered", self.delivered)):
            for (queue, offset), body in places.items():
                if queue == queue_id and offset >= begin and found.get(offset) != body:
                    there = found.get(offset, b"nothing")
                    raise AssertionError(f"{name}: queue {queue}, offset {offset}, {body[:30]!r}; found {there[:30]!r}")
        unknown = [body for body in found.values() if body not in self.invoked]
        assert not unknown, f"queue {queue_id} has what nobody sent: {unknown[0][:30]!r}"
        repeated = [body for body, count in Counter(found.values()).items() if count > 1]
        assert not repeated, f"queue {queue_id} has {repeated[0][:30]!r} twice"


def read_queue(talk: Talk, queue_id: int, begin: int = 0) -> dict[int, bytes]:
    """Every message of a queue from an offset on, by offset; there must be no hole. From the first one that is left."""
    found: dict[int, bytes] = {}
    offset = begin
    while True:
        reply = talk.pull(TOPIC, offset, queue_id=queue_id, group="checkers")
        if reply.code == 21 and not found:  # below the queue's begin: a replica may start later than its master
            offset = int(reply.fields["nextBeginOffset"])
            continue
        if reply.code in (17, 19, 20, 21):
            return found
        assert reply.code == OK, f"queue {queue_id}, offset {offset}: {reply}"
        for queue_offset, body in messages(reply):
            assert queue_offset == offset, f"queue {queue_id} has a hole at {offset}"
            found[offset] = body
            offset += 1

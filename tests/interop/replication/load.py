"""Messages that make logs, queues and indexes worth comparing: several topics, sizes, tags, keys, delays."""

from __future__ import annotations

import random

from tests.interop.replication.group import Group
from tests.interop.replication.talk import OK

TOPICS = ("orders", "payments", "audit")


class Load:
    """Numbers its messages, so that the same load twice does not look like a copy of the first."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self._count = 0

    def fill(self, group: Group, byte_count: int) -> None:
        """Send to the master, without waiting for slaves, until its log has grown by so many bytes."""
        end = group.master.talk.log_end() + byte_count
        place = 0
        while place < end:
            place = self.send(group, wait=False)

    def send(self, group: Group, *, wait: bool) -> int:
        """One message that must be taken; where its record begins in the log."""
        chance, number = self._chance, self._count
        self._count += 1
        size = chance.choice((10, 200, 1000, 4000, 30_000))
        body = f"{number}.".encode() + chance.randbytes(size)
        reply = group.master.talk.send(
            chance.choice(TOPICS),
            body,
            queue_id=chance.randrange(4),
            tags=chance.choice(("", "TagA", "TagB")),
            keys=chance.choice(("", f"key-{number}", f"key-{number} shared")),
            delay_level=chance.choice((0, 0, 0, 0, 0, 1, 2)),
            UNIQ_KEY=f"{number:032X}",
            wait=wait,
        )
        assert reply.code == OK, reply
        return int(reply.fields["msgId"][16:32], 16)

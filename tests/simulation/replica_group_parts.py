"""What a simulated replica group stands on: time, a network that fails, and a log that loses what was not synced.

Nothing here knows replication. The seed decides everything: events of the same time run in the order they were made.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from struct import Struct
from typing import Any, Protocol
from zlib import crc32

from flaremq.message.record.layout import BLANK, MAGIC_BLANK
from tests.message.records import make_record

FILE_SIZE = 2048


class Loop:
    """Simulated seconds and what happens in them."""

    def __init__(self) -> None:
        self.now = 100.0
        self.events = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def at(self, time: float, call: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._heap, (time, next(self._numbers), call, args))

    def run(self, until: float, is_done: Callable[[], bool] | None = None) -> bool:
        """Let time pass; True if ``is_done`` ended it."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, call, args = heapq.heappop(heap)
            self.events += 1
            call(*args)
            if is_done is not None and is_done():
                return True
        self.now = until
        return False


class Network:
    """One-way ways between named places, each of which can be cut; a cut keeps what is under way on connections."""

    def __init__(self, loop: Loop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.cut: set[tuple[int, int]] = set()
        self.slow: dict[tuple[int, int], float] = {}
        self.loss = 0.0  # of datagrams: requests and answers
        self._pipes: list[Pipe] = []

    def latency(self, way: tuple[int, int]) -> float:
        return self.chance.random() * (self.slow.get(way, 0.0) or 0.01) + 0.0005

    def datagram(self, way: tuple[int, int], call: Callable[..., None], *args: Any) -> None:
        """Arrives, or does not; later ones may be faster."""
        if way not in self.cut and (not self.loss or self.chance.random() >= self.loss):
            self.loop.at(self.loop.now + self.latency(way), call, *args)

    def pipe(self, way: tuple[int, int], receive: Callable[[bytes | None], None]) -> Pipe:
        made = Pipe(self, way, receive)
        self._pipes.append(made)
        return made

    def heal(self, way: tuple[int, int]) -> None:
        self.cut.discard(way)
        self.slow.pop(way, None)
        for pipe in self._pipes:
            if pipe.way == way:
                pipe.flush()


class Pipe:
    """One direction of a connection: in order, nothing lost, as long as both ends live. None is its end."""

    __slots__ = ("_arrives", "_kept", "_network", "_receive", "way")

    def __init__(self, network: Network, way: tuple[int, int], receive: Callable[[bytes | None], None]) -> None:
        self.way = way
        self._network = network
        self._receive = receive
        self._arrives = 0.0
        self._kept: list[bytes | None] = []

    def send(self, data: bytes | None) -> None:
        network = self._network
        if self.way in network.cut or self._kept:
            self._kept.append(data)
            return
        self._arrives = max(self._arrives, network.loop.now + network.latency(self.way))
        if data is not None and len(data) > 1 and network.chance.random() < 0.2:
            at = network.chance.randrange(1, len(data))
            network.loop.at(self._arrives, self._receive, data[:at])
            data = data[at:]
        network.loop.at(self._arrives, self._receive, data)

    def flush(self) -> None:
        kept, self._kept = self._kept, []
        for data in kept:
            self.send(data)


class GroupLog(Protocol):
    """The log of a simulated broker, a ``SourceLog`` too. Offsets start at 0."""

    sends_durable_only: bool

    @property
    def min_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def own_end(self) -> int: ...

    @property
    def file_size(self) -> int: ...

    @property
    def durable(self) -> int: ...

    def read(self, start: int, end: int) -> bytes: ...

    def put(self, number: int) -> int: ...

    def append_replica(self, offset: int, data: bytes | memoryview) -> None: ...

    def sync(self) -> None: ...

    def cut(self, offset: int) -> None: ...

    def kill(self) -> None: ...

    def power_cut(self, chance: random.Random) -> None: ...

    def show(self, confirmed: int) -> None: ...

    def lead(self) -> None: ...

    def follow(self) -> None: ...


_OFFSET = Struct(">q")
_CRC = Struct(">i")
_BODY = Struct(">qq")
_TEMPLATES = [make_record(body=bytes(size), physical_offset=0, properties=b"") for size in (16, 16, 16, 40)]


class MemoryGroupLog:
    """Log bytes in memory: what was synced, and a rest that a power cut takes from some record on."""

    __slots__ = ("_ends", "data", "durable", "sends_durable_only")

    min_offset = 0
    file_size = FILE_SIZE

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = 0
        self.sends_durable_only = False
        self._ends = [0]

    @property
    def own_end(self) -> int:
        return len(self.data)

    @property
    def end_offset(self) -> int:
        return self.durable if self.sends_durable_only else len(self.data)

    def read(self, start: int, end: int) -> bytes:
        return bytes(self.data[start:end])

    def put(self, number: int) -> int:
        """A record with this number in it, after a filler if it does not fit; the log's end."""
        template = _TEMPLATES[number % len(_TEMPLATES)]
        room = FILE_SIZE - len(self.data) % FILE_SIZE
        if len(template) + BLANK.size > room:
            self.data += BLANK.pack(room, MAGIC_BLANK) + bytes(room - BLANK.size)
            self._ends.append(len(self.data))
        record = bytearray(template)
        _OFFSET.pack_into(record, 28, len(self.data))
        size = int.from_bytes(record[84:88], "big")
        _BODY.pack_into(record, 88, number, ~number)
        _CRC.pack_into(record, 8, crc32(record[88 : 88 + size]) & 0x7FFFFFFF)
        self.data += record
        self._ends.append(len(self.data))
        return len(self.data)

    def append_replica(self, offset: int, data: bytes | memoryview) -> None:
        assert offset == len(self.data), f"an append at {offset}, the log ends at {len(self.data)}"
        self.data += data
        at, size = offset, len(self.data)
        while at < size:
            at += int.from_bytes(self.data[at : at + 4], "big")
            self._ends.append(at)
        assert at == size, "a replica's log ends inside a record"

    def sync(self) -> None:
        self.durable = len(self.data)

    def cut(self, offset: int) -> None:
        assert offset in self._ends, f"a cut at {offset}, inside a record"
        del self.data[offset:]
        self._ends = [end for end in self._ends if end <= offset]
        self.durable = offset

    def kill(self) -> None:
        """The process dies: the page cache has everything, and recovery syncs it."""
        self.durable = len(self.data)

    def power_cut(self, chance: random.Random) -> None:
        self.cut(chance.choice([end for end in self._ends if end >= self.durable]))

    def show(self, confirmed: int) -> None:
        pass

    def lead(self) -> None:
        pass

    def follow(self) -> None:
        pass

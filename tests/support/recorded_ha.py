"""Recorded HA streams (``tests/golden/ha``), put together again."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from flaremq.replication.frames import DATA, HANDSHAKE_REPLY, STATE_DATA, HAState

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "ha"


@dataclass(frozen=True)
class Chunk:
    """Bytes of one read: from the master, or from the slave while the master's log ended at ``master_end`` or later."""

    is_masters: bool
    data: bytes
    master_end: int = 0


@dataclass(frozen=True)
class RecordedConnection:
    chunks: tuple[Chunk, ...]
    frames: tuple[tuple[int, int], ...]  # offset and size of each frame of data or heartbeat

    @property
    def down(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks if chunk.is_masters)

    @property
    def up(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks if not chunk.is_masters)


@dataclass(frozen=True)
class Recording:
    log: bytes
    facts: dict[str, Any]
    connections: tuple[RecordedConnection, ...]


@lru_cache(maxsize=1)
def recording(name: str) -> Recording:
    facts = json.loads((FOLDER / f"{name}.json").read_text())
    log = lzma.decompress((FOLDER / facts["log"]).read_bytes())
    return Recording(log, facts, tuple(_connection(entry, log) for entry in facts["connections"]))


def lost_tail() -> bytes:
    """What A had of its own in 55-controller when it was killed."""
    return lzma.decompress((FOLDER / "55-controller-lost-tail.xz").read_bytes())


def _connection(entry: dict[str, Any], log: bytes) -> RecordedConnection:
    stream = bytearray()
    frames = []
    for head in map(bytes.fromhex, entry["heads"]):
        stream += head
        if len(head) == DATA.size:
            offset, n = DATA.unpack(head)
        elif HANDSHAKE_REPLY.unpack_from(head)[0] == HAState.HANDSHAKE:
            continue
        else:
            _, n, offset, *_ = STATE_DATA.unpack(head)
        frames.append((offset, n))
        stream += log[offset : offset + n]
    chunks = []
    at = 0
    for event in entry["events"]:
        if event[0] == "<":
            chunks.append(Chunk(True, bytes(stream[at : at + event[1]])))
            at += event[1]
        else:
            chunks.append(Chunk(False, bytes.fromhex(event[1]), event[2]))
    return RecordedConnection(tuple(chunks), tuple(frames))

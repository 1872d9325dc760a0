"""Golden frames: what real clients, brokers and name servers sent, with each reply beside the request it answers.

See ``tests/golden/frames/README.md`` for where they come from.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder

FRAMES = Path(__file__).resolve().parents[1] / "golden" / "frames"
RECORDINGS = (
    "binary-all-55",
    "binary-client-49",
    "binary-client-55",
    "client49-server55",
    "client55-server49",
    "compressed-register-55",
    "ha-49",
    "ha-55",
    "json-49",
    "json-55",
)
REPLICATION_PORTS = ("ha", "slave-ha")


@dataclass(frozen=True, slots=True)
class GoldenFrame:
    """One recorded frame."""

    recording: str
    step: str
    connection: str
    to: str
    towards: bool  # sent to the listening side
    data: bytes

    @property
    def command(self) -> RemotingCommand:
        return decode_one(self.data)


@dataclass(frozen=True, slots=True)
class RawCase:
    """Bytes sent by hand, and what a real server did with them."""

    recording: str
    name: str
    to: str
    sent: bytes
    got: bytes
    closed: bool


@cache
def golden_frames(recording: str) -> tuple[GoldenFrame, ...]:
    """All remoting frames of a recording in order."""
    frames = []
    for row in _rows(f"{recording}.jsonl.gz"):
        if "hex" in row and row["to"] not in REPLICATION_PORTS:
            data = bytes.fromhex(row["hex"])
            frames.append(GoldenFrame(recording, row["step"], str(row["conn"]), row["to"], row["dir"] == ">", data))
    return tuple(frames)


def all_frames() -> list[GoldenFrame]:
    return [frame for recording in RECORDINGS for frame in golden_frames(recording)]


@cache
def golden_pairs(recording: str) -> tuple[tuple[GoldenFrame, GoldenFrame], ...]:
    """Requests with the replies to them; a reply whose request was not recorded is left out."""
    pending: dict[tuple[str, bool, int], GoldenFrame] = {}
    pairs = []
    for frame in golden_frames(recording):
        command = frame.command
        if not command.is_response:
            pending[frame.connection, frame.towards, command.opaque] = frame
        else:
            request = pending.pop((frame.connection, not frame.towards, command.opaque), None)
            if request is not None:
                pairs.append((request, frame))
    return tuple(pairs)


@cache
def sample_frames() -> list[GoldenFrame]:
    """One frame of each kind in each recording, for tests that do much with every byte."""
    chosen: dict[tuple[object, ...], GoldenFrame] = {}
    for frame in all_frames():
        command = frame.command
        kind = (command.code, command.flag, command.serialize_type, command.body_bytes[:12])
        chosen.setdefault((frame.recording, *kind), frame)
    return list(chosen.values())


@cache
def raw_cases() -> tuple[RawCase, ...]:
    cases = []
    for recording in ("json-49", "json-55"):
        for row in _rows(f"{recording}-raw-cases.jsonl.gz"):
            sent, got = bytes.fromhex(row["sent"]), bytes.fromhex(row["got"])
            cases.append(RawCase(recording, row["case"], row["to"], sent, got, row["closed"]))
    return tuple(cases)


def decode_one(data: bytes) -> RemotingCommand:
    """The one command these bytes are."""
    decoder = FrameDecoder()
    commands = decoder.receive(data)
    if decoder.failure is not None:
        raise decoder.failure
    assert decoder.buffered == 0
    (command,) = commands
    return command


def _rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(FRAMES / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]

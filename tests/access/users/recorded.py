"""Requests about users and policies as a real 5.5.0 answered them: ``tests/golden/access/users-55.md``."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flaremq.protocol.command import RemotingCommand
from tests.support.golden_frames import decode_one

_FILE = Path(__file__).resolve().parents[2] / "golden" / "access" / "users-55.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request and its reply."""

    case: str
    address: str
    sent: bytes
    got: bytes

    @property
    def request(self) -> RemotingCommand:
        return decode_one(self.sent)

    @property
    def reply(self) -> RemotingCommand:
        return decode_one(self.got)


@cache
def recorded(recording: str) -> tuple[Recorded, ...]:
    """Those of one recording, in the order of sending."""
    with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return tuple(
        Recorded(row["case"], row["address"], bytes.fromhex(row["sent"]), bytes.fromhex(row["got"]))
        for row in rows
        if row["recording"] == recording
    )

"""Frames that were sent by hand to real brokers with access control on, and what those answered."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import orjson

_FOLDER = Path(__file__).parent.parent / "golden" / "access"


@dataclass(frozen=True)
class Case:
    """One frame. ``code`` is None where nothing was answered."""

    name: str
    to: str
    sent: bytes
    code: int | None
    remark: str

    @property
    def request_code(self) -> int:
        frame = self.sent.split(b"\r\n", 1)[1] if self.sent.startswith(b"PROXY") else self.sent
        header = frame[8 : 8 + int.from_bytes(frame[5:8], "big")]
        return int.from_bytes(header[:2], "big") if frame[4] == 1 else int(orjson.loads(header)["code"])


def cases(name: str) -> list[Case]:
    """All cases of a recording, in the order they were sent."""
    found = []
    for line in gzip.decompress((_FOLDER / name).read_bytes()).splitlines():
        entry = orjson.loads(line)
        found.append(
            Case(entry["case"], entry["to"], bytes.fromhex(entry["sent"]), entry["code"], entry["remark"] or "")
        )
    return found

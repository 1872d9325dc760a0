"""Makes the files of this folder from full recordings: ``condense.py RECORDINGS``. The rest is in the log anyway.

A recording is the bytes between a real master and a real slave, as a proxy saw them. The master's bytes are frame
headers and its log, so headers, the log and the sizes of the reads are enough; each stream is put together again here
and compared before it is written.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import tarfile
from pathlib import Path
from typing import Any

RECORDINGS = {  # recording: the file its log is in
    "49-first-connect": "49.log.xz",
    "49-catch-up": "49.log.xz",
    "49-sync-put": "49-sync-put.log.xz",
    "55-sync-put": "55-sync-put.log.xz",
    "55-killed-mid-transfer": "55-killed-mid-transfer.log.xz",
    "55-controller": "55-controller.log.xz",
}
LOGS = {
    "49.log.xz": ("49-catch-up/master-log.tar.gz", 3841337),
    "49-sync-put.log.xz": ("49-sync-put/master-log.tar.gz", None),
    "55-sync-put.log.xz": ("55-sync-put/master-log.tar.gz", None),
    "55-killed-mid-transfer.log.xz": ("55-killed-mid-transfer/master-log.tar.gz", None),
    "55-controller.log.xz": ("55-controller/B-log.tar.gz", 1182646),
}


def read_log(path: Path) -> bytes:
    with tarfile.open(path) as tar:
        members = sorted((member for member in tar.getmembers() if member.isfile()), key=lambda member: member.name)
        return b"".join(tar.extractfile(member).read() for member in members)  # type: ignore[union-attr]


def condense(folder: Path, log: bytes) -> dict[str, Any]:
    manifest = json.loads((folder / "manifest.json").read_text())
    connections: dict[int, dict[str, Any]] = {}
    master_max = 0
    with gzip.open(folder / "stream.jsonl.gz", "rt") as lines:
        for event in map(json.loads, lines):
            master_max = max(master_max, event.get("masterMax", 0))
            if "hex" not in event:
                continue
            here = connections.setdefault(event["conn"], {"events": [], "down": b""})
            data = bytes.fromhex(event["hex"])
            if event["dir"] == ">":
                here["events"].append([">", event["hex"], master_max])
            else:
                here["events"].append(["<", len(data)])
                here["down"] += data
    is_controller = "options" in manifest
    for here in connections.values():
        here["heads"] = heads(here.pop("down"), log, is_controller)
    kept = ("version", "masterMax", "slaveMin", "slaveMax", "slaveRangeSha256")
    facts = {key: manifest[key] for key in kept if key in manifest}
    return facts | {"fileSize": 1 << 20, "connections": list(connections.values())}


def heads(stream: bytes, log: bytes, is_controller: bool) -> list[str]:
    """Frame headers in hex; what follows each is in the log."""
    found, at, joined = [], 0, b""
    while at < len(stream):
        if not is_controller:
            size = 12
            offset, n = int.from_bytes(stream[at : at + 8], "big"), int.from_bytes(stream[at + 8 : at + 12], "big")
        elif stream[at + 3] == 1:
            size, offset, n = 20 + int.from_bytes(stream[at + 4 : at + 8], "big"), 0, 0
        else:
            size = 36
            offset, n = int.from_bytes(stream[at + 8 : at + 16], "big"), int.from_bytes(stream[at + 4 : at + 8], "big")
        found.append(stream[at : at + size].hex())
        joined += stream[at : at + size] + log[offset : offset + n]
        at += size + n
    if joined[: len(stream)] != stream:
        raise SystemExit("the log does not have the bytes that were sent")
    return found


def main() -> None:
    source, target = Path(sys.argv[1]), Path(__file__).parent
    logs = {}
    for name, (path, end) in LOGS.items():
        log = read_log(source / path)
        log = log[:end] if end else log.rstrip(b"\0") + b"\0" * 64
        logs[name] = log
        (target / name).write_bytes(lzma.compress(log, preset=9 | lzma.PRESET_EXTREME))
    for name, log_name in RECORDINGS.items():
        recording = condense(source / name, logs[log_name]) | {"log": log_name}
        (target / f"{name}.json").write_text(json.dumps(recording, separators=(",", ":")) + "\n")
    behind = read_log(source / "55-controller/A-log-before-return.tar.gz")[1144516:1169136]
    (target / "55-controller-lost-tail.xz").write_bytes(lzma.compress(behind))


if __name__ == "__main__":
    main()

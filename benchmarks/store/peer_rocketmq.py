"""The comparison figures: RocketMQ's own message store, driven in its own JVM by ``java/StorePeer.java``.

    from benchmarks.store.peer_rocketmq import run_peer
    run_peer("5.5.0", "put", size=1024, threads=16, flushDiskType="SYNC_FLUSH", seconds=5)  # -> [{...}]

    python -m benchmarks.store.peer_rocketmq 5.5.0 put size=1024                            # as JSON lines

=========  ================================================================================================
mode       what is measured; each mode returns a list of rows, ``step`` tells them apart
=========  ================================================================================================
put        ``threads`` putting for ``seconds``; ``size`` of the body, ``batch`` messages a call (0: single)
scan       one queue, 32 messages a call: copied to the heap, or decoded (``touch="copy,decode"``)
query      by key: percentiles of ``queries`` random ones, and the time of 1,000 in a row
kill       fill, SIGKILL, open: load and start until everything is dispatched
clean      fill, shut down, open
rebuild    fill, shut down, remove consumequeue/ and index/, open
=========  ================================================================================================

All but put first store ``bytes`` of log or a number of ``messages``. Any store option may be given by its
RocketMQ name (``flushDiskType="SYNC_FLUSH"``).

Fair to Java: 2 GiB heap touched in advance, G1, two seconds of the same work before anything is measured
(``warm``), RocketMQ's default options, no logging, warm page cache. ``msg_s`` counts the whole loop,
``msg_s_calls`` only the time inside the store. Opens are timed inside the JVM: its own start, the rest of
``process_s``, does not count, but its classes are loaded and compiled within, as after any restart.
``cpu_other_s`` is what the rest of the machine used meanwhile; where it is not near zero, repeat the run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.interop import jvm

DRIVER = Path(__file__).resolve().parent.parent / "java" / "StorePeer.java"
HEAP = ("-Xms2g", "-Xmx2g", "-XX:+UseG1GC")
# How much is stored before the measurement unless the caller says: far more than the processor's caches hold.
FILL: dict[str, dict[str, object]] = {
    "put": {},
    "scan": {"bytes": 1 << 30},
    "query": {"messages": 1_000_000},
    "kill": {"bytes": 1 << 30},
    "clean": {"bytes": 1 << 30},
    "rebuild": {"bytes": 1 << 30},
}

Row = dict[str, Any]  # one JSON line: names of figures to numbers


def run_peer(
    version: str, mode: str, *, folder: str | Path | None = None, timeout_s: float = 900, **arguments: object
) -> list[Row]:
    """Measure one thing in a fresh store below ``folder`` (default: the temporary folder), then remove it."""
    if mode not in FILL:
        raise ValueError(f"mode {mode!r}: expected one of {', '.join(FILL)}")
    if "bytes" not in arguments and "messages" not in arguments:
        arguments |= FILL[mode]
    with tempfile.TemporaryDirectory(prefix="rocketmq-peer-", dir=folder) as scratch:
        root = Path(scratch) / "store"
        if mode in ("put", "scan", "query"):
            rows = _run(version, {"mode": mode, "dir": root, **arguments}, timeout_s, pretouch=True)
        else:
            rows = _open_after(version, mode, root, arguments, timeout_s)
    return [{"mode": mode, **row} for row in rows]


def why_not(version: str) -> str | None:
    """Why this release cannot be measured here (no JDK, no jars), or None."""
    reason: str | None = jvm.why_not(version)
    return reason


def pinned_versions() -> tuple[str, ...]:
    versions: tuple[str, ...] = jvm.pinned_versions()
    return versions


def _open_after(version: str, mode: str, root: Path, arguments: dict[str, object], timeout_s: float) -> list[Row]:
    filling = {"mode": "fill", "dir": root, **arguments}
    if mode == "kill":
        rows = _fill_and_kill(version, filling)
    else:
        rows = _run(version, {**filling, "end": "clean"}, timeout_s)
    if mode == "rebuild":
        for derived in ("consumequeue", "index"):
            shutil.rmtree(root / derived)
    options = {
        name: value for name, value in arguments.items() if name not in ("bytes", "messages", "threads", "batch")
    }
    return rows + _run(version, {"mode": "open", "dir": root, "label": mode, **options}, timeout_s)


def _run(version: str, arguments: dict[str, object], timeout_s: float, *, pretouch: bool = False) -> list[Row]:
    begin = time.monotonic()
    flags = (*HEAP, "-XX:+AlwaysPreTouch") if pretouch else HEAP
    done = subprocess.run(
        _command(version, arguments, flags), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    elapsed = time.monotonic() - begin
    if done.returncode != 0:
        raise RuntimeError(f"RocketMQ {version} {arguments}: ended with {done.returncode}\n{done.stderr[-4000:]}")
    rows = _rows(done.stdout)
    for row in rows:
        row["process_s"] = round(elapsed, 3)
    return rows


def _fill_and_kill(version: str, arguments: dict[str, object]) -> list[Row]:
    with tempfile.TemporaryFile("w+") as errors:
        peer = subprocess.Popen(_command(version, arguments, HEAP), stdout=subprocess.PIPE, stderr=errors, text=True)
        assert peer.stdout is not None
        lines: list[str] = []
        for line in peer.stdout:
            if line.strip() == "READY":
                break
            lines.append(line)
        else:
            peer.wait()
            errors.seek(0)
            raise RuntimeError(f"RocketMQ {version} {arguments}: ended while filling\n{errors.read()[-4000:]}")
        peer.kill()
        peer.wait()
        peer.stdout.close()
    return _rows("".join(lines))


def _command(version: str, arguments: dict[str, object], flags: Sequence[str]) -> list[str]:
    pairs = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in arguments.items()]
    command: list[str] = jvm.command(version, "StorePeer", pairs, flags=flags, extra_sources=[DRIVER])
    return command


def _rows(output: str) -> list[Row]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def main(argv: Sequence[str]) -> int:
    if len(argv) < 2:
        print("usage: python -m benchmarks.store.peer_rocketmq VERSION MODE [name=value ...]", file=sys.stderr)
        return 2
    arguments: dict[str, Any] = dict(argument.split("=", 1) for argument in argv[2:])
    folder = arguments.pop("folder", None)
    for row in run_peer(argv[0], argv[1], folder=folder, **arguments):
        print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

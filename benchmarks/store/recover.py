"""How long a store takes to open: after SIGKILL, after a clean stop, and with queues and index to be rebuilt.

One process fills the log and is killed once everything is dispatched; each open happens in a fresh process and is
timed there from after the imports until everything can be read. Kernels that an open needs are loaded within it and
count. The page cache is warm on both sides. To rebuild, ``consumequeue``, ``index`` and our own hints are removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import child
from benchmarks.messages import QUEUES, TOPIC, fill
from benchmarks.rounds import Figure, Measurement
from benchmarks.settings import Settings
from benchmarks.timing import Processor, Row

_SIZE = 1024
_CLEAN_OPENS = 3
# label, RocketMQ driver's mode, our figure, wanted ratio
_CASES = (
    ("open after SIGKILL", "kill", "kill_s", 5.0),
    ("open after a clean stop", "clean", "clean_s", 3.0),
    ("open, rebuild queues and index", "rebuild", "rebuild_s", 4.0),
)


def plan(settings: Settings) -> list[Measurement]:
    """Three measurements, each with a fill of its own on both sides."""
    return [
        Measurement(
            name=label,
            ours=("store.recover:measure", {"log_bytes": settings.recover_bytes, "what": mode}),
            theirs=(mode, {"bytes": settings.recover_bytes, "size": _SIZE}),
            rounds=settings.recover_rounds,
            figures=(
                Figure(
                    label=label,
                    unit="s",
                    ours=name,
                    theirs="total_s",
                    less_is_better=True,
                    wanted_ratio=wanted,
                ),
            ),
        )
        for label, mode, name, wanted in _CASES
    ]


def measure(*, folder: str, log_bytes: int, what: str) -> Row:
    """Runs in a process that itself imports nothing of the store: it only starts and kills others."""
    root = os.path.join(folder, "store")
    begin = time.perf_counter()
    filled = _fill_and_kill(root, log_bytes)
    row: Row = {"fill_s": round(time.perf_counter() - begin, 2), **filled}
    killed = child.run("store.recover:open_store", folder=root)
    row["kill_s"], row["import_s"], row["close_s"] = killed["open_s"], killed["import_s"], killed["close_s"]
    row["after_kill"] = killed["recovery"]
    if what == "clean":
        opened = [child.run("store.recover:open_store", folder=root) for _ in range(_CLEAN_OPENS)]
        row["clean_s"] = sorted(one["open_s"] for one in opened)[_CLEAN_OPENS // 2]
    elif what == "rebuild":
        _remove_derived(Path(root))
        rebuilt = child.run("store.recover:open_store", folder=root)
        row["rebuild_s"] = rebuilt["open_s"]
        killed = rebuilt
    row |= {name: killed[name] for name in ("messages", "log_bytes", "cpu_s", "other_cores")}
    if row["messages"] != filled["stored"]:
        raise RuntimeError(f"{filled['stored']} messages stored, {row['messages']} found after {what}")
    return row


def _fill_and_kill(root: str, log_bytes: int) -> Row:
    arguments: dict[str, Any] = {"folder": root, "log_bytes": log_bytes}
    with tempfile.TemporaryFile("w+") as errors:
        filler = subprocess.Popen(
            child.command("store.recover:fill_and_hold", arguments),
            cwd=child.PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert filler.stdout is not None
        line = filler.stdout.readline()
        filler.kill()
        filler.communicate()
        if not line.startswith("{"):
            errors.seek(0)
            raise RuntimeError(f"filling {root} failed\n{errors.read()[-4000:]}")
    return child.answer(line)


def fill_and_hold(*, folder: str, log_bytes: int) -> Row:
    """Fill, say so, and stay open until killed (or until the parent is gone)."""
    import json
    import sys

    from flaremq import MessageStore, StoreOptions

    store = MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH"))
    print(json.dumps({"stored": fill(store, _SIZE, log_bytes=log_bytes)}), flush=True)
    sys.stdin.read()
    os._exit(1)


def open_store(*, folder: str) -> Row:
    began = time.perf_counter()
    from flaremq import MessageStore, StoreOptions

    imported, processor = time.perf_counter(), Processor()
    store = MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH"))
    store.wait_for_dispatch()
    opened = time.perf_counter()
    used = processor.describe()
    row: Row = {
        "import_s": round(imported - began, 4),
        "open_s": round(opened - imported, 4),
        "log_bytes": store.max_physical_offset - store.min_physical_offset,
        "messages": sum(store.max_offset(TOPIC, queue) - store.min_offset(TOPIC, queue) for queue in range(QUEUES)),
        "recovery": repr(store.recovery),
        **used,
    }
    closing = time.perf_counter()
    store.close()
    row["close_s"] = round(time.perf_counter() - closing, 4)
    return row


def _remove_derived(root: Path) -> None:
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
    for hint in root.glob("flaremq.*"):
        if hint.is_file():
            hint.unlink()

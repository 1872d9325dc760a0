"""What it costs to have the store at hand: importing it, opening it, and memory as the store grows.

Log files are made small, so that ten of them fit into any test disk: opening looks at every file, whatever its size.
Resident memory is split as the kernel does: ``anonymous`` is what the process allocated; mapped file pages count as
resident too but belong to the page cache and are given back under pressure.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import child
from benchmarks.messages import fill
from benchmarks.rounds import Figure, Measurement
from benchmarks.settings import Settings
from benchmarks.timing import Row

_FILES = (1, 10)
_HEAVY = ("numpy", "pyarrow", "pyspark")
_IMPORT = """
import sys, time
began = time.perf_counter()
{statement}
seconds = time.perf_counter() - began
import json
print(json.dumps([seconds, [name for name in {heavy} if name in sys.modules]]))
"""


def plan(settings: Settings) -> list[Measurement]:
    few, many = _FILES
    return [
        Measurement(
            name="startup",
            ours=(
                "store.startup:measure",
                {"import_rounds": settings.import_rounds, "file_bytes": settings.startup_file_bytes},
            ),
            rounds=settings.rounds,
            figures=(
                Figure(label="import flaremq", unit="s", ours="import_s", less_is_better=True, wanted_bound=0.1),
                Figure(label="import MessageStore", unit="s", ours="import_store_s", less_is_better=True),
                Figure(
                    label=f"open a clean store of {many} log files",
                    unit="s",
                    ours=f"open_{many}_s",
                    less_is_better=True,
                ),
                Figure(
                    label=f"  anonymous memory, {few} file",
                    unit="MB",
                    ours=f"anonymous_{few}_MB",
                    less_is_better=True,
                ),
                Figure(
                    label=f"  anonymous memory, {many} files",
                    unit="MB",
                    ours=f"anonymous_{many}_MB",
                    less_is_better=True,
                ),
            ),
        )
    ]


def measure(*, folder: str, import_rounds: int, file_bytes: int) -> Row:
    row: Row = {}
    for name, statement in (
        ("import", "import flaremq"),
        ("import_store", "from flaremq import Message, MessageStore, StoreOptions"),
    ):
        answers = [_import_once(statement) for _ in range(import_rounds)]
        row[f"{name}_s"] = round(statistics.median(seconds for seconds, _ in answers), 4)
        row[f"{name}_heavy"] = answers[0][1]  # must stay empty
    for files in _FILES:
        path = os.path.join(folder, str(files))
        child.run("store.startup:make_store", folder=path, files=files, file_bytes=file_bytes)
        opened = [child.run("store.startup:open_store", folder=path, file_bytes=file_bytes) for _ in range(3)]
        row[f"open_{files}_s"] = sorted(one["open_s"] for one in opened)[1]
        row[f"anonymous_{files}_MB"] = opened[1]["anonymous_MB"]
        row[f"resident_{files}_MB"] = opened[1]["resident_MB"]
    return row


def _import_once(statement: str) -> tuple[float, list[str]]:
    code = _IMPORT.format(statement=statement, heavy=_HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, heavy = json.loads(done.stdout)
    return seconds, heavy


def make_store(*, folder: str, files: int, file_bytes: int) -> Row:
    from flaremq import MessageStore, StoreOptions

    options = StoreOptions(flush_disk_type="ASYNC_FLUSH", mapped_file_size_commit_log=file_bytes)
    with MessageStore.open(folder, options) as store:
        return {"stored": fill(store, 1024, log_bytes=(files - 1) * file_bytes + file_bytes // 2)}


def open_store(*, folder: str, file_bytes: int) -> Row:
    from flaremq import MessageStore, StoreOptions

    begin = time.perf_counter()
    with MessageStore.open(folder, StoreOptions(mapped_file_size_commit_log=file_bytes)):
        row = {"open_s": round(time.perf_counter() - begin, 4)}
        return row | _memory()


def _memory() -> Row:
    fields = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Rss")
    )
    kilobytes = {name: int(text.split()[0]) for name, text in fields.items()}
    return {
        "anonymous_MB": round(kilobytes["RssAnon"] / 1024, 1),
        "resident_MB": round(sum(kilobytes.values()) / 1024, 1),
    }

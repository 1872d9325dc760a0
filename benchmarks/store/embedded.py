"""What Python programs put messages into when they embed a queue: SQLite and three packages, 1 KB, one by one.

"Durable" means that a put returns when the message is on disk (our SYNC_FLUSH), "relaxed" that a power cut may take
the last moments (our ASYNC_FLUSH). A package that is not installed is left out with a note; ``--install`` gets them.
One thread, each in a process of its own, for the same time.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.messages import KEY, TOPIC, make_body
from benchmarks.rounds import Figure, Measurement
from benchmarks.settings import Settings
from benchmarks.timing import Processor, Row

# module -> what pip calls it; SQLite comes with Python
PACKAGES = {"litequeue": "litequeue==0.9", "persistqueue": "persist-queue==1.1.0", "diskcache": "diskcache==5.6.3"}
_CHUNK = 16
_SIZE = 1024

Put = Callable[[bytes, int], object]


def plan(settings: Settings) -> list[Measurement]:
    here = [name for name, (module, _) in _MAKERS.items() if _is_installed(module)]
    return [
        Measurement(
            name="embedded 1 KB",
            ours=("store.embedded:measure", {"names": here, "seconds": settings.embedded_seconds}),
            rounds=settings.rounds,
            figures=tuple(
                Figure(
                    label=f"put 1 KB, {mode}, beside {name.partition(', ')[0]}",
                    unit="msg/s",
                    ours=f"flaremq, {mode}",
                    beside=name,
                )
                for mode in ("durable", "relaxed")
                for name in here
                if name.endswith(mode) and not name.startswith("flaremq")
            ),
        )
    ]


def missing() -> list[str]:
    """Packages that would be measured if they were installed."""
    return [package for module, package in PACKAGES.items() if not _is_installed(module)]


def install() -> None:
    if packages := missing():
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "pip", "install", *quiet, *packages], check=True)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def measure(*, folder: str, names: list[str], seconds: float) -> Row:
    """Each in its own process, one after the other: together they make one row."""
    from benchmarks import child

    row: Row = {}
    for number, name in enumerate(names):
        path = os.path.join(folder, str(number))
        os.mkdir(path)
        one = child.run("store.embedded:measure_one", folder=path, name=name, seconds=seconds)
        row[name] = one["msg_s"]
        row["other_cores"] = max(row.get("other_cores", 0.0), one["other_cores"])
    return row


def measure_one(*, folder: str, name: str, seconds: float) -> Row:
    put = _MAKERS[name][1](folder)
    body = make_body(_SIZE)
    for number in range(_CHUNK):
        put(body, number)
    stored, processor, begin = 0, Processor(), time.perf_counter()
    while time.perf_counter() < begin + seconds:
        for number in range(stored, stored + _CHUNK):
            put(body, number)
        stored += _CHUNK
    elapsed = time.perf_counter() - begin
    row = {"msg_s": round(stored / elapsed), "messages": stored, **processor.describe()}
    os.sync()
    return row


def _flaremq(flush: str) -> Callable[[str], Put]:
    def make(folder: str) -> Put:
        from flaremq import Message, MessageStore, StoreOptions

        store = MessageStore.open(folder, StoreOptions(flush_disk_type=flush))
        return lambda body, number: store.put(Message(TOPIC, body, keys=KEY % number), number % 8)

    return make


def _sqlite(synchronous: str) -> Callable[[str], Put]:
    def make(folder: str) -> Put:
        import sqlite3

        connection = sqlite3.connect(os.path.join(folder, "queue.db"), isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, key TEXT, body BLOB)")
        connection.execute("CREATE INDEX by_key ON message (key)")
        insert = "INSERT INTO message (key, body) VALUES (?, ?)"
        return lambda body, number: connection.execute(insert, (KEY % number, body))

    return make


def _litequeue(synchronous: str) -> Callable[[str], Put]:
    def make(folder: str) -> Put:
        queue = _module("litequeue").LiteQueue(os.path.join(folder, "queue.db"))
        queue.conn.execute(f"PRAGMA synchronous = {synchronous}")
        return lambda body, number: queue.put(body)

    return make


def _module(name: str) -> Any:
    """A package that need not be there when this file is checked or imported."""
    return importlib.import_module(name)


def _persist_queue_file(folder: str) -> Put:
    queue = _module("persistqueue").Queue(os.path.join(folder, "queue"))
    return lambda body, number: queue.put(body)


def _diskcache(synchronous: int) -> Callable[[str], Put]:
    def make(folder: str) -> Put:
        queue = _module("diskcache").Deque(directory=folder)
        queue.cache.reset("sqlite_synchronous", synchronous)
        return lambda body, number: queue.append(body)

    return make


# label -> (module it needs, how to make its put)
_MAKERS: dict[str, tuple[str, Callable[[str], Put]]] = {
    "flaremq, durable": ("flaremq", _flaremq("SYNC_FLUSH")),
    "sqlite3 WAL, durable": ("sqlite3", _sqlite("FULL")),
    "litequeue, durable": ("litequeue", _litequeue("FULL")),
    "diskcache, durable": ("diskcache", _diskcache(2)),
    "flaremq, relaxed": ("flaremq", _flaremq("ASYNC_FLUSH")),
    "sqlite3 WAL, relaxed": ("sqlite3", _sqlite("NORMAL")),
    "litequeue, relaxed": ("litequeue", _litequeue("NORMAL")),
    "diskcache, relaxed": ("diskcache", _diskcache(1)),
    "persist-queue file, relaxed": ("persistqueue", _persist_queue_file),
}

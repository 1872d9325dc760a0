"""What a store does, in slices of about a tenth of a second: each answers with what one message (or key) cost.

A case is made once, which prepares what it needs, and then asked for slices; every slice of a case does the same work.
The time is that of the whole process, threads that flush and dispatch included, until everything is dispatched.
Only public names of FlareMQ are used: the worker runs them on any tree.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.messages import KEY, QUEUES, TOPIC, fill, make_body

if TYPE_CHECKING:
    from flaremq import MessageStore

Slice = Callable[[], float]  # does the work once; microseconds of processor time a unit

_READ_MESSAGES = 40_000  # in the store that is read
_PASSES = {"objects": 4, "block": 40, "arrow": 2}  # over what is read, in a slice
_KEYS = {1: 5_000, 1_000: 20_000}  # in a slice, by how many are asked for at once
_RECOVERED_MESSAGES = 60_000
_LOG_FILE = 64 << 20  # so that recovery crosses a file's end
_FIRST_PUT = """
import sys
from flaremq import Message, MessageStore, StoreOptions
with MessageStore.open(sys.argv[1], StoreOptions(flush_disk_type="ASYNC_FLUSH")) as store:
    assert store.put(Message("BenchTopic", b"body", keys="key"), 0).ok
"""


def _open(folder: Path, **options: object) -> MessageStore:
    from flaremq import MessageStore, StoreOptions

    return MessageStore.open(str(folder), StoreOptions(flush_disk_type="ASYNC_FLUSH", **options))  # type: ignore[arg-type]


def put(folder: Path, size: int, count: int) -> Slice:
    """One by one, each message made anew."""
    from flaremq import Message

    store, body, first = _open(folder), make_body(size), 0

    def work() -> float:
        nonlocal first
        put_one, began = store.put, time.process_time()
        for number in range(first, first + count):
            if not put_one(Message(TOPIC, body, keys=KEY % number), number % QUEUES).ok:
                raise RuntimeError("a message was refused")
        store.wait_for_dispatch()
        first += count
        return _micros(began, count)

    return work


def put_batches(folder: Path, size: int, count: int, *, columns: bool) -> Slice:
    """32 a call: messages, or columns of bodies and keys."""
    from flaremq import Message

    store, body, first = _open(folder), make_body(size), 0
    bodies = [body] * 32

    def work() -> float:
        nonlocal first
        began = time.process_time()
        for start in range(first, first + count, 32):
            keys = [KEY % number for number in range(start, start + 32)]
            if columns:
                result = store.put_many(TOPIC, bodies, start // 32 % QUEUES, keys=keys)
            else:
                result = store.put_batch([Message(TOPIC, body, keys=key) for key in keys], start // 32 % QUEUES)
            if not result.ok:
                raise RuntimeError("a batch was refused")
        store.wait_for_dispatch()
        first += count
        return _micros(began, count)

    return work


def get(folder: Path, *, form: str) -> Slice:
    """A queue from start to end, several times: as objects, as copied blocks of records, as Arrow."""
    store = _filled(folder)
    end = store.max_offset(TOPIC, 0)

    def objects() -> int:
        offset = found = 0
        while offset < end:
            result = store.get(TOPIC, 0, offset, 32)
            offset = result.next_offset
            found += len(result.messages)
        return found

    def block() -> int:
        offset = found = 0
        while offset < end:
            _records, count, offset = store.get_bytes(TOPIC, 0, offset, 32)
            found += count
        return found

    def arrow() -> int:
        return sum(batch.num_rows for queue in range(QUEUES) for batch in store.scan(TOPIC, queue))

    one_pass = {"objects": objects, "block": block, "arrow": arrow}[form]

    def work() -> float:
        began, found = time.process_time(), 0
        for _ in range(_PASSES[form]):
            found += one_pass()
        if found < _PASSES[form] * end:
            raise RuntimeError(f"{found} messages read")
        return _micros(began, found)

    return work


def query(folder: Path, *, at_once: int) -> Slice:
    """Random keys, one by one or many at once."""
    store, numbers = _filled(folder), random.Random(11)
    keys = [KEY % numbers.randrange(_READ_MESSAGES) for _ in range(_KEYS[at_once])]

    def work() -> float:
        began, found = time.process_time(), 0
        if at_once == 1:
            for key in keys:
                found += len(store.query(TOPIC, key))
        else:
            for start in range(0, len(keys), at_once):
                found += sum(map(len, store.query_many(TOPIC, keys[start : start + at_once])))
        if found != len(keys):
            raise RuntimeError(f"{found} of {len(keys)} keys found")
        return _micros(began, len(keys))

    return work


def recover(folder: Path, *, rebuild: bool) -> Slice:
    """Open what a killed process left, without its checkpoints: the whole log is walked. A fresh copy each time."""
    killed, copy = folder / "killed", folder / "copy"
    store = _open(killed, mapped_file_size_commit_log=_LOG_FILE)
    fill(store, 1024, count=_RECOVERED_MESSAGES)
    store.flush()
    store.abandon()
    for path in killed.iterdir():
        if path.name == "checkpoint" or path.name.startswith("flaremq."):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if rebuild:
        shutil.rmtree(killed / "consumequeue")
        shutil.rmtree(killed / "index")

    def work() -> float:
        subprocess.run(["cp", "-r", "--sparse=always", str(killed), str(copy)], check=True)
        began = time.process_time()
        opened = _open(copy, mapped_file_size_commit_log=_LOG_FILE)
        opened.wait_for_dispatch()
        micros = _micros(began, _RECOVERED_MESSAGES)
        found = sum(opened.max_offset(TOPIC, queue) for queue in range(QUEUES))
        opened.close()
        shutil.rmtree(copy)
        if found != _RECOVERED_MESSAGES:
            raise RuntimeError(f"{found} of {_RECOVERED_MESSAGES} messages found")
        return micros

    return work


def start(folder: Path) -> Slice:
    """A fresh interpreter that puts one message: what every short program pays. Microseconds, as everything here."""
    runs = 0

    def work() -> float:
        nonlocal runs
        runs += 1
        began = _children_seconds()
        subprocess.run([sys.executable, "-P", "-c", _FIRST_PUT, str(folder / str(runs))], check=True)
        seconds = _children_seconds() - began
        shutil.rmtree(folder / str(runs))
        return seconds * 1e6

    return work


def _filled(folder: Path) -> MessageStore:
    store = _open(folder)
    fill(store, 1024, count=_READ_MESSAGES)
    return store


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _micros(began: float, units: int) -> float:
    return (time.process_time() - began) / units * 1e6


# name -> label -> how it is made; a name is what --only takes
CASES: dict[str, dict[str, Callable[[Path], Slice]]] = {
    "put": {
        "put 100 B": lambda folder: put(folder, 100, 20_000),
        "put 1 KB": lambda folder: put(folder, 1024, 16_000),
    },
    "batch": {
        "put 32 x 100 B, messages": lambda folder: put_batches(folder, 100, 25_600, columns=False),
        "put 32 x 100 B, columns": lambda folder: put_batches(folder, 100, 51_200, columns=True),
        "put 32 x 1 KB, columns": lambda folder: put_batches(folder, 1024, 25_600, columns=True),
    },
    "get": {
        "get 32 as objects": lambda folder: get(folder, form="objects"),
        "get 32 as a block": lambda folder: get(folder, form="block"),
    },
    "arrow": {"into Arrow, all columns": lambda folder: get(folder, form="arrow")},
    "query": {
        "query one key": lambda folder: query(folder, at_once=1),
        "query 1,000 keys at once": lambda folder: query(folder, at_once=1000),
    },
    "recover": {"open after a kill": lambda folder: recover(folder, rebuild=False)},
    "rebuild": {"open, rebuild queues and index": lambda folder: recover(folder, rebuild=True)},
    "start": {"interpreter to first put": start},
}

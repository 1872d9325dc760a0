"""One size of an embedded store: filled, read, left as if killed; opened again; planned over."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.messages import KEY, TOPIC, make_body
from benchmarks.messages import fill as fill_store
from benchmarks.timing import Row

_SIZE = 1024
_PULLS = 2_000
_WARM = 20_000
_A_CALL = 32


def fill(*, folder: str, messages: int, queues: int, topics: int) -> Row:
    """Ends the process without closing the store: what a kill leaves."""
    from flaremq import Message, MessageStore, StoreOptions

    _warm(f"{folder}-warm")
    store = MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH"))
    body = make_body(_SIZE)
    places = [(f"grown-{topic}", queue) for queue in range(queues) for topic in range(topics)]
    for topic, queue in places:  # the first message of a queue makes its files
        store.put(Message(topic, body), queue)
    store.wait_for_dispatch()
    began, put, count = time.process_time(), store.put, len(places)
    for number in range(messages):
        topic, queue = places[number % count]
        if not put(Message(topic, body, keys=KEY % number), queue).ok:
            raise RuntimeError(f"message {number} was refused")
    store.wait_for_dispatch()
    row: Row = {"put_us": round((time.process_time() - began) / messages * 1e6, 3), "queues": count}
    row["pull_us"] = _pull(store, places)
    row["memory_MB"] = anonymous_mb(os.getpid())
    print(json.dumps(row), flush=True)
    sys.stdout.flush()
    os._exit(0)


def _warm(folder: str) -> None:
    """What is loaded at first use is loaded by a store that does not count."""
    from flaremq import MessageStore, StoreOptions

    with MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH")) as store:
        fill_store(store, 1024, count=_WARM)
        store.get_bytes(TOPIC, 0, 0, _A_CALL)


def _pull(store: object, places: list[tuple[str, int]]) -> float:
    """From all queues in turn, each from where it was left and from its start again."""
    from flaremq import MessageStore

    assert isinstance(store, MessageStore)
    offsets = dict.fromkeys(places, 0)
    ends = {place: store.max_offset(*place) for place in places}
    read = 0
    began = time.process_time()
    for number in range(_PULLS):
        place = places[number % len(places)]
        offset = offsets[place] if offsets[place] < ends[place] else 0
        _records, count, offsets[place] = store.get_bytes(*place, offset, _A_CALL)
        read += count
    # Short queues give less than 32 a call: counted by what came.
    return round((time.process_time() - began) / read * _A_CALL * 1e6, 2)


def open_killed(*, folder: str, messages: int) -> Row:
    from flaremq import MessageStore, StoreOptions

    began = time.perf_counter()
    with MessageStore.open(folder, StoreOptions(flush_disk_type="ASYNC_FLUSH")) as store:
        store.wait_for_dispatch()
        row: Row = {"recovery_s": round(time.perf_counter() - began, 4)}
        found = sum(store.max_offset(topic, queue) for topic, queue in store.queues())
    if found < messages:
        raise RuntimeError(f"{found} of {messages} messages were found")
    return row


def plan(*, folder: str) -> Row:
    """Twice, because the first time loads what it needs; all columns, so that sizes matter."""
    from flaremq import scan

    for _ in range(2):
        began = time.perf_counter()
        reader = scan(folder, subscribe_pattern=".*")
        seconds = time.perf_counter() - began
        del reader
    return {"planning_s": round(seconds, 4)}


def anonymous_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise RuntimeError(f"process {pid} has no RssAnon")

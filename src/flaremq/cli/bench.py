"""``flaremq bench``: measure the store on this machine. Always JSON: settings, machine, rate, latency.

Each command makes its own store in a temporary folder (``--path`` chooses the disk), measures one thing and
removes it. Latencies are those of single calls, taken around each call; the rate is all calls over the
whole time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flaremq.cli import output as out
from flaremq.cli.bench_report import machine, measured
from flaremq.cli.parameters import debug_option

if TYPE_CHECKING:
    from flaremq import Message, MessageStore, StoreOptions

_TOPIC = "bench"
_FILL_BATCH = 64
F = TypeVar("F", bound=Callable[..., Any])


@click.group()
@debug_option
def bench() -> None:
    """Measure this machine: put, get, query, recover. Prints JSON."""


def _common(command: F) -> F:
    for option in (
        click.option(
            "--path", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Disk to measure on."
        ),
        click.option("--body-size", type=click.IntRange(min=0), default=1024, show_default=True, help="Bytes a body."),
        click.option("--messages", type=click.IntRange(min=1), default=100_000, show_default=True, help="How many."),
        debug_option,
    ):
        command = option(command)
    return command


@bench.command()
@_common
@click.option("--flush", type=click.Choice(["SYNC_FLUSH", "ASYNC_FLUSH"]), default="SYNC_FLUSH", show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads that put.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Messages a call.")
def put(messages: int, body_size: int, path: str | None, flush: str, threads: int, batch: int) -> None:
    """Store messages; the latency is that of one put (or one batch)."""
    calls = max(messages // batch // threads, 1)
    with _store(path, flush) as store:
        latencies = [array("q") for _ in range(threads)]

        def work(queue: int) -> None:
            note = latencies[queue].append
            now = time.perf_counter_ns
            groups = [_messages(n * batch, batch, body_size, queue) for n in range(min(calls, 1024))]
            for number in range(calls):
                group = groups[number % len(groups)]
                began = now()
                if batch == 1:
                    store.put(group[0], queue)
                else:
                    store.put_batch(group, queue)
                note(now() - began)

        began = time.perf_counter()
        _in_threads(work, threads)
        store.flush()
        seconds = time.perf_counter() - began
    every = array("q")
    for one in latencies:
        every.extend(one)
    settings = {"flushDiskType": flush, "threads": threads, "batch": batch, "bodySize": body_size}
    _report("put", settings, len(every) * batch, seconds, every, body_size)


@bench.command()
@_common
@click.option(
    "--as",
    "form",
    type=click.Choice(["views", "bodies", "decoded", "arrow"]),
    default="views",
    show_default=True,
    help="Message views, copied bodies, bodies and properties, or Arrow batches.",
)
@click.option("--count", type=click.IntRange(min=1), default=32, show_default=True, help="Messages a call.")
def get(messages: int, body_size: int, path: str | None, form: str, count: int) -> None:
    """Read a queue from start to end; the latency is that of one call."""
    with _store(path, "ASYNC_FLUSH") as store:
        _fill(store, messages, body_size)
        latencies = array("q")
        began = time.perf_counter()
        read = sum(_timed(_reads(store, form, count), latencies))
        seconds = time.perf_counter() - began
    assert read == messages, f"{read} of {messages} messages read"
    _report("get", {"as": form, "count": count, "bodySize": body_size}, read, seconds, latencies, body_size)


@bench.command()
@_common
@click.option("--queries", type=click.IntRange(min=1), default=20_000, show_default=True, help="How many keys to ask.")
def query(messages: int, body_size: int, path: str | None, queries: int) -> None:
    """Look up single keys through the index, in random order."""
    import random

    with _store(path, "ASYNC_FLUSH") as store:
        _fill(store, messages, body_size)
        keys = [f"key-{random.Random(7).randrange(messages)}"]
        chooser = random.Random(7)
        keys = [f"key-{chooser.randrange(messages)}" for _ in range(queries)]
        latencies = array("q")
        began = time.perf_counter()
        found = sum(_timed((len(store.query(_TOPIC, key)) for key in keys), latencies))
        seconds = time.perf_counter() - began
    assert found == queries, f"{found} of {queries} keys found"
    _report("query", {"messages": messages, "bodySize": body_size}, queries, seconds, latencies, 0)


@bench.command()
@_common
@click.option(
    "--after",
    type=click.Choice(["kill", "clean", "lost-views"]),
    default="kill",
    show_default=True,
    help="How the store was left: killed, closed, or closed and without queues and index.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="How often to open.")
def recover(messages: int, body_size: int, path: str | None, after: str, rounds: int) -> None:
    """Open a store; the latency is that of one opening, the rate counts its messages."""
    from flaremq import MessageStore

    latencies = array("q")
    with _folder(path) as folder:
        options = _options("ASYNC_FLUSH")
        store = MessageStore.open(folder, options)
        _fill(store, messages, body_size)
        for _ in range(rounds):
            if after == "kill":
                store.abandon()
            else:
                store.close()
            if after == "lost-views":
                for name in ("consumequeue", "index"):
                    shutil.rmtree(os.path.join(folder, name))
            began = time.perf_counter_ns()
            store = MessageStore.open(folder, options)
            latencies.append(time.perf_counter_ns() - began)
            stored = store.max_offset(_TOPIC, 0)
            assert stored == messages, f"{stored} of {messages} messages after opening"
        store.close()
    seconds = sum(latencies) / 1e9
    _report(
        "recover",
        {"after": after, "rounds": rounds, "bodySize": body_size},
        messages * rounds,
        seconds,
        latencies,
        body_size,
    )


def _report(
    name: str, settings: dict[str, Any], count: int, seconds: float, latencies: Sequence[int], body_size: int
) -> None:
    result = {"benchmark": name, "settings": settings, "machine": machine()}
    result |= measured(count, seconds, latencies, body_size)
    out.print_json(result)


@contextmanager
def _folder(path: str | None) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="flaremq-bench-", dir=path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _store(path: str | None, flush: str) -> Iterator[MessageStore]:
    from flaremq import MessageStore

    with _folder(path) as folder, MessageStore.open(folder, _options(flush)) as store:
        yield store


def _options(flush: str) -> StoreOptions:
    from flaremq import StoreOptions

    return StoreOptions(flush_disk_type=flush)


def _messages(first: int, count: int, body_size: int, queue: int = 0) -> list[Message]:
    from flaremq import Message

    body = bytes(range(256)) * (body_size // 256 + 1)
    prefix = f"{queue}-" if queue else ""
    return [
        Message(_TOPIC, body[:body_size], tags="tag", keys=f"{prefix}key-{number}")
        for number in range(first, first + count)
    ]


def _fill(store: MessageStore, messages: int, body_size: int) -> None:
    for first in range(0, messages, _FILL_BATCH):
        store.put_batch(_messages(first, min(_FILL_BATCH, messages - first), body_size), 0)
    store.flush()
    store.wait_for_dispatch()


def _reads(store: MessageStore, form: str, count: int) -> Iterator[int]:
    """Reads the whole queue; yields the number of messages of each call."""
    if form == "arrow":
        for batch in store.scan(_TOPIC, 0):
            yield batch.num_rows
        return
    offset, end = 0, store.max_offset(_TOPIC, 0)
    while offset < end:
        got = store.get(_TOPIC, 0, offset, count)
        if form != "views":
            for message in got.messages:
                _ = message.body
                if form == "decoded":
                    _ = message.properties, message.store_timestamp, message.topic
        offset = got.next_offset
        yield len(got.messages)


def _timed(work: Iterator[int], latencies: array[int]) -> Iterator[int]:
    now = time.perf_counter_ns
    while True:
        began = now()
        step = next(work, None)
        if step is None:
            return
        latencies.append(now() - began)
        yield step


def _in_threads(work: Callable[[int], None], count: int) -> None:
    if count == 1:
        work(0)
        return
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

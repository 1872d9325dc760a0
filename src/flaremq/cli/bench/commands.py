"""``flaremq bench``: measure the store on this machine. Always JSON: settings, machine, rate, latency.

Each command makes its own store in a temporary folder (``--path`` chooses the disk), measures one thing and
removes it. Messages are made before the clock starts. Latencies are those of single calls, taken around
each call; the rate is all messages over the whole time.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flaremq.cli.bench.load import COUNT, TOPIC, Load, bench_folder, body_size_option, messages_option, path_option
from flaremq.cli.bench.report import print_report
from flaremq.cli.groups import LazyGroup
from flaremq.cli.parameters import read_properties

if TYPE_CHECKING:
    from flaremq import Message, MessageStore

F = TypeVar("F", bound=Callable[..., Any])


@click.group(
    cls=LazyGroup,
    elsewhere={
        "consume": ("flaremq.cli.bench.wire:consume", "Consume a backlog as a new group."),
        "send": ("flaremq.cli.bench.wire:send", "Send messages over the wire."),
        "spark": ("flaremq.cli.bench.spark:spark", "Read a store with Spark."),
    },
)
def bench() -> None:
    """Measure this machine: put, get, query, recover; send, consume over the wire; spark. Prints JSON."""


def _load_options(command: F) -> F:
    """What every benchmark takes."""
    for option in (
        click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Set a store option."),
        path_option,
        body_size_option(),
        messages_option(100_000),
    ):
        command = option(command)
    return command


def _load(messages: int, body_size: int, path: str | None, assignments: tuple[str, ...]) -> Load:
    return Load(messages, body_size, path, read_properties(None, assignments))


@bench.command()
@_load_options
@click.option(
    "--flush",
    type=click.Choice(["SYNC_FLUSH", "ASYNC_FLUSH"]),
    default="SYNC_FLUSH",
    show_default=True,
    help="Acknowledge when on disk, or when in memory.",
)
@click.option("--threads", type=COUNT, default=1, show_default=True, help="Threads that put, each to its own queue.")
@click.option("--batch", type=COUNT, default=1, show_default=True, help="Messages a call.")
def put(flush: str, threads: int, batch: int, **load_options: Any) -> None:
    """Store messages; the latency is that of one put (or one batch)."""
    load = _load(**load_options)
    calls = max(load.messages // batch // threads, 1)
    work = [[load.make(call * batch, batch, f"{queue}-") for call in range(calls)] for queue in range(threads)]
    latencies = [array("q") for _ in range(threads)]
    with load.store(flush) as store:
        began = time.perf_counter()
        _in_threads(lambda queue: _put_all(store, queue, work[queue], latencies[queue]), threads)
        store.flush()
        seconds = time.perf_counter() - began
    every = array("q")
    for one in latencies:
        every.extend(one)
    settings = {"flush": flush, "threads": threads, "batch": batch, **load.settings}
    print_report("put", settings, calls * batch * threads, seconds, every)


def _put_all(store: MessageStore, queue: int, groups: list[list[Message]], latencies: array[int]) -> None:
    note, now = latencies.append, time.perf_counter_ns
    if len(groups[0]) == 1:
        put = store.put
        for (message,) in groups:
            began = now()
            put(message, queue)
            note(now() - began)
    else:
        for group in groups:
            began = now()
            store.put_batch(group, queue)
            note(now() - began)


@bench.command()
@_load_options
@click.option(
    "--as",
    "form",
    type=click.Choice(["views", "bodies", "decoded", "arrow"]),
    default="views",
    show_default=True,
    help="Message views, copied bodies, bodies and properties, or Arrow batches.",
)
@click.option("--count", type=COUNT, default=32, show_default=True, help="Messages a call.")
def get(form: str, count: int, **load_options: Any) -> None:
    """Read a queue from start to end; the latency is that of one call."""
    load = _load(**load_options)
    latencies = array("q")
    with load.store("ASYNC_FLUSH") as store:
        load.fill(store)
        began = time.perf_counter()
        read = sum(_timed(_reads(store, form, count), latencies))
        seconds = time.perf_counter() - began
    assert read == load.messages, f"{read} of {load.messages} messages read"
    print_report("get", {"as": form, "count": count, **load.settings}, read, seconds, latencies)


def _reads(store: MessageStore, form: str, count: int) -> Iterator[int]:
    """Reads the whole queue; yields the number of messages of each call."""
    if form == "arrow":
        for batch in store.scan(TOPIC, 0):
            yield batch.num_rows
        return
    offset, end = 0, store.max_offset(TOPIC, 0)
    while offset < end:
        got = store.get(TOPIC, 0, offset, count)
        if form != "views":
            for message in got.messages:
                _ = message.body
                if form == "decoded":
                    _ = message.properties, message.store_timestamp, message.topic
        offset = got.next_offset
        yield len(got.messages)


@bench.command()
@_load_options
@click.option("--queries", type=COUNT, default=20_000, show_default=True, help="How many keys to ask for.")
def query(queries: int, **load_options: Any) -> None:
    """Look up single keys through the index, in random order."""
    import random

    load = _load(**load_options)
    chooser = random.Random(7)
    keys = [f"key-{chooser.randrange(load.messages)}" for _ in range(queries)]
    latencies = array("q")
    with load.store("ASYNC_FLUSH") as store:
        load.fill(store)
        began = time.perf_counter()
        found = sum(_timed((len(store.query(TOPIC, key)) for key in keys), latencies))
        seconds = time.perf_counter() - began
    assert found == queries, f"{found} of {queries} keys found"
    print_report("query", {"stored": load.messages, **load.settings}, queries, seconds, latencies)


@bench.command()
@_load_options
@click.option(
    "--after",
    type=click.Choice(["kill", "clean", "lost-views"]),
    default="kill",
    show_default=True,
    help="How the store was left: killed, closed, or closed and without queues and index.",
)
@click.option("--rounds", type=COUNT, default=3, show_default=True, help="How often to open.")
def recover(after: str, rounds: int, **load_options: Any) -> None:
    """Open a store; the latency is that of one opening, the rate counts its messages."""
    from flaremq import MessageStore

    load = _load(**load_options)
    latencies = array("q")
    with bench_folder(load.path) as folder:
        options = load.options("ASYNC_FLUSH")
        store = MessageStore.open(folder, options)
        load.fill(store)
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
            stored = store.max_offset(TOPIC, 0)
            assert stored == load.messages, f"{stored} of {load.messages} messages after opening"
        store.close()
    seconds = sum(latencies) / 1e9
    settings = {"after": after, "rounds": rounds, **load.settings}
    print_report("recover", settings, load.messages * rounds, seconds, latencies)


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

"""``flaremq bench send`` and ``consume``: the Python client against a broker, over the wire.

Without ``-n`` a broker of its own is started in another process, as users have it, with its store in a temporary
folder; with ``-n`` any broker is measured, RocketMQ's included.
"""

from __future__ import annotations

import contextlib
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from flaremq.cli.admin.credentials import client_options, credential_options
from flaremq.cli.bench.load import COUNT, bench_folder, body_size_option, messages_option, path_option
from flaremq.cli.bench.report import print_report

F = TypeVar("F", bound=Callable[..., Any])
TOPIC = "flaremq_bench"
_flush = click.option(
    "--flush",
    type=click.Choice(["SYNC_FLUSH", "ASYNC_FLUSH"]),
    default="SYNC_FLUSH",
    show_default=True,
    help="How the broker that is started acknowledges.",
)


def _namesrv(command: F) -> F:
    help_text = "Measure the broker there instead."
    return credential_options(click.option("-n", "--namesrv", metavar="ADDR", default=None, help=help_text)(command))


@click.command()
@messages_option(100_000)
@click.option("--in-flight", type=COUNT, default=512, show_default=True, help="Sends that wait for their replies.")
@body_size_option(1)
@_flush
@path_option
@_namesrv
def send(messages: int, in_flight: int, body_size: int, flush: str, path: str | None, namesrv: str | None) -> None:
    """Send messages; the latency is from the call to the acknowledgement."""
    from flaremq.remoting import event_loop

    with _broker(namesrv, flush, path) as address:
        latencies, seconds = event_loop.run(_send_all(address, messages, in_flight, body_size))
    settings = {"inFlight": in_flight, "bodySize": body_size, "flush": flush if namesrv is None else "as it is"}
    print_report("send", settings, messages, seconds, latencies)


@click.command()
@messages_option(200_000)
@body_size_option(1)
@path_option
@_namesrv
def consume(messages: int, body_size: int, path: str | None, namesrv: str | None) -> None:
    """Consume a backlog as a new group; the latency is that of one batch handed out."""
    from flaremq.remoting import event_loop

    with _broker(namesrv, "ASYNC_FLUSH", path) as address:
        latencies, seconds = event_loop.run(_consume_all(address, messages, body_size))
    print_report("consume", {"bodySize": body_size}, messages, seconds, latencies)


async def _send_all(address: str, messages: int, in_flight: int, body_size: int) -> tuple[array[int], float]:
    import asyncio

    from flaremq import Message, Producer
    from flaremq.client.options import ProducerOptions

    body = b"x" * body_size
    latencies = array("q")
    left = messages
    async with Producer(address, group="flaremq_bench", options=client_options(ProducerOptions)) as producer:
        await producer.send(Message(TOPIC, body))

        async def worker() -> None:
            nonlocal left
            now = time.perf_counter_ns
            while left > 0:
                left -= 1
                began = now()
                await producer.send(Message(TOPIC, body))
                latencies.append(now() - began)

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(min(in_flight, messages))))
        seconds = time.perf_counter() - began
    return latencies, seconds


async def _consume_all(address: str, messages: int, body_size: int) -> tuple[array[int], float]:
    import asyncio

    from flaremq import Consumer, Message, Producer
    from flaremq.client.options import ConsumerOptions, ProducerOptions

    async with Producer(address, group="flaremq_bench", options=client_options(ProducerOptions)) as producer:
        await producer.send(Message(TOPIC, b"x"))
        for start in range(0, messages, 1000):
            count = min(1000, messages - start)
            await asyncio.gather(*(producer.send(Message(TOPIC, b"x" * body_size)) for _ in range(count)))
    latencies = array("q")
    seen = 0
    group = f"flaremq_bench_{time.time_ns()}"
    options = client_options(ConsumerOptions)
    async with Consumer(address, group=group, subscribe={TOPIC: "*"}, options=options) as consumer:
        began = last = time.perf_counter_ns()
        async for batch in consumer.batches():
            for message in batch:
                _ = message.body
            seen += len(batch)
            now = time.perf_counter_ns()
            latencies.append(now - last)
            last = now
            if seen >= messages:
                break
        seconds = (time.perf_counter_ns() - began) / 1e9
    return latencies, seconds


@contextlib.contextmanager
def _broker(namesrv: str | None, flush: str, path: str | None) -> Iterator[str]:
    """The address of a name server: the given one, or that of servers of our own for as long as it takes."""
    if namesrv is not None:
        yield namesrv
        return
    from flaremq.cli.servers.child import ServerProcess

    with bench_folder(path) as folder, ServerProcess(folder, flushDiskType=flush) as server:
        yield server.name_server

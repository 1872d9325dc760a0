"""What the commands that start servers share: parameters, the wait for a signal, one line when ready."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import click

from flaremq.cli import output as out

_log = logging.getLogger(__name__)
_began = time.monotonic()
PARENT_PIPE = "FLAREMQ_PARENT_PIPE"  # descriptor of a pipe whose other end is the parent's: its close stops a child


class Server(Protocol):
    """Something to start and to stop."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


print_options_flag = click.option(
    "-p", "--print-options", "print_only", is_flag=True, help="Print every option with value, default and meaning."
)


def print_options(options: Iterable[Any]) -> None:
    """Every option of these option objects, once: name, value, default, sentence."""
    from flaremq.options import rows

    lines: dict[str, dict[str, Any]] = {}
    for values in options:
        for row in rows(type(values)):
            value = getattr(values, row.field_name)
            line = {
                "option": row.key,
                "value": row.shown(value) if row.secret else value,
                "default": row.default,
                "meaning": row.doc,
            }
            lines.setdefault(row.key, line)
    out.print_rows(lines.values(), None)


def split_listen(address: str | None) -> dict[str, str]:
    """``bindAddress`` and ``listenPort`` of an address."""
    if address is None:
        return {}
    from flaremq.remoting.address import parse_address

    host, port = parse_address(address)
    return {"bindAddress": host, "listenPort": str(port)}


def serve(servers: list[Server], ready: Callable[[], str], advice: str = "") -> None:
    """Start servers one after the other, say that they are ready, stop them in reverse on SIGINT or SIGTERM.

    ``advice`` is one more line for who reads that they are ready.
    """
    from flaremq.remoting import event_loop

    out.tell_of_core()
    event_loop.run(_serve(servers, ready, advice))


async def _serve(servers: list[Server], ready: Callable[[], str], advice: str) -> None:
    import asyncio

    from flaremq.remoting import event_loop

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_on(number: signal.Signals) -> None:
        _log.info("stopping on %s", number.name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_on, number)
    if PARENT_PIPE in os.environ:
        loop.add_reader(int(os.environ[PARENT_PIPE]), stop.set)
    started: list[Server] = []
    try:
        for server in servers:
            if stop.is_set():
                return
            await server.start()
            started.append(server)
        event_loop.settle_memory()
        click.echo(f"{ready()}, started in {time.monotonic() - _began:.2f} s")
        if advice:
            click.echo(advice)
        sys.stdout.flush()
        await stop.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # a second signal ends it at once
        if PARENT_PIPE in os.environ:
            loop.remove_reader(int(os.environ[PARENT_PIPE]))
        for server in reversed(started):
            await server.stop()

"""Our port of gRPC and RocketMQ's proxy in local mode, driven by the same Java client in the same JVM, in turns.

Both run at the same time, with their own stores, and are idle while the other one is measured. Their process has a heap
of 3 GiB and G1, as over the wire, and is warmed like ours. Idle memory is that of everything that has to run, name
server included, five seconds after the start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row
from benchmarks.wire.client import JavaClient, resident_mb
from tests.interop.grpc import clients, doors

_THEIRS = "proxy 5.5.0"
_TARGETS = {OURS: doors.OURS, _THEIRS: doors.PROXY}
_JVM = ("-Xms3g", "-Xmx3g", "-XX:+UseG1GC")
_IDLE_JVM = ("-Xmx3g", "-XX:+UseG1GC")  # touching the whole heap would not be idle
_OPTIONS = {"flushDiskType": "ASYNC_FLUSH"}
_QUEUES = 16
_THREADS = (1, 20, 64)
_RECEIVERS = 8
_IDLE_S = 5.0
_WANTED_CPU = 1.5  # of their sends per core
_WANTED_IDLE = 4.0


def why_not() -> str | None:
    """Why nothing can be compared here, or None."""
    return doors.why_not(doors.PROXY) or clients.why_not(clients.JAVA)


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    """Measure everything; one outcome a measurement, as ``rounds.run_all`` yields them."""
    with scratch(folder) as path:
        yield _idle(settings, Path(path))
    with scratch(folder) as path, ExitStack() as stack:
        root = Path(path)
        sides = {
            side: stack.enter_context(
                doors.opened(target, root / side.partition(" ")[0], options=_OPTIONS, flags=_JVM, for_tests=False)
            )
            for side, target in _TARGETS.items()
        }
        client = stack.enter_context(JavaClient(root / "client", clients.JAVA_JARS, "GrpcPeer", {}))
        load = _Load(settings, client, sides)
        for side in sides:
            load.prepare(side)
        for threads in _THREADS:
            yield _sends(settings, load, threads)
        yield turns("backlog", _backlog_figures(), settings.wire_rounds, tuple(sides), load.receive)


class _Load:
    """What the client does to each side."""

    def __init__(self, settings: Settings, client: JavaClient, sides: Mapping[str, doors.Door]) -> None:
        self._settings = settings
        self._client = client
        self._sides = sides
        self._groups = 0

    def prepare(self, side: str) -> None:
        """Topics, and the same work before anything counts; then the backlog."""
        with self._sides[side].admin() as admin:
            for topic in ("bench", "backlog"):
                admin.create_topic(topic, read_queues=_QUEUES, write_queues=_QUEUES)
        self._run(
            side, "send", topic="bench", threads=32, size=1024, warm=self._settings.wire_prepare_seconds, seconds=1
        )
        self._run(side, "fill", topic="backlog", threads=64, size=1024, messages=self._settings.grpc_backlog)
        self.receive(side)  # whoever came first would meet a client that has never received

    def send(self, side: str, threads: int) -> Row:
        settings = self._settings
        times = {"warm": settings.wire_warm_seconds, "seconds": settings.wire_seconds}
        return self._run(side, "send", topic="bench", threads=threads, size=1024, **times)

    def receive(self, side: str) -> Row:
        """A new group receives the backlog and acknowledges it."""
        self._groups += 1
        group = f"group-{self._groups}"
        with self._sides[side].admin() as admin:
            admin.create_group(group)
        messages = self._settings.grpc_backlog
        return self._run(side, "receive", topic="backlog", group=group, threads=_RECEIVERS, messages=messages)

    def _run(self, side: str, mode: str, **arguments: object) -> Row:
        door = self._sides[side]
        return self._client.run(mode, [door.behind.broker_pid], endpoints=door.address, **arguments)


def _sends(settings: Settings, load: _Load, threads: int) -> Outcome:
    label = f"send 1 KB, {threads} threads"
    figures = (
        Figure(label=label, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=1.0),
        Figure(label="  p50", unit="us", ours="p50_us", theirs="p50_us", less_is_better=True),
        Figure(label="  p99", unit="us", ours="p99_us", theirs="p99_us", less_is_better=True, wanted_ratio=1.0),
        Figure(
            label="  server CPU per send",
            unit="us",
            ours="server_us_per_message",
            theirs="server_us_per_message",
            less_is_better=True,
            wanted_ratio=_WANTED_CPU if threads == max(_THREADS) else None,
        ),
    )
    return turns(label, figures, settings.wire_rounds, tuple(_TARGETS), lambda side: load.send(side, threads))


def _backlog_figures() -> tuple[Figure, ...]:
    label = f"receive and acknowledge a backlog, {_RECEIVERS} threads"
    return (
        Figure(label=label, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=1.0),
        Figure(
            label="  server CPU per message",
            unit="us",
            ours="server_us_per_message",
            theirs="server_us_per_message",
            less_is_better=True,
        ),
    )


def _idle(settings: Settings, folder: Path) -> Outcome:
    figure = Figure(
        label="idle memory, name server included",
        unit="MB",
        ours="resident_MB",
        theirs="resident_MB",
        less_is_better=True,
        wanted_ratio=_WANTED_IDLE,
    )
    runs = 0

    def measure(side: str) -> Row:
        nonlocal runs
        runs += 1
        path = folder / f"start-{runs}"
        with doors.opened(_TARGETS[side], path, options=_OPTIONS, flags=_IDLE_JVM, for_tests=False) as door:
            time.sleep(_IDLE_S)
            resident = sum(resident_mb(pid, without=door.behind.store) for pid in door.behind.pids)
            return {"resident_MB": round(resident, 1)}

    return turns("idle", (figure,), settings.wire_starts, tuple(_TARGETS), measure)

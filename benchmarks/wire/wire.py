"""Over the wire: the real RocketMQ 5.5.0 broker and ours, driven by the same Java client in the same JVM, in turns.

Both brokers run at the same time, with their own stores, and are idle while the other one is measured. A fresh topic of
16 queues for sends, a backlog for consumers. ``ASYNC`` is their default, ``SYNC`` ours: an acknowledged message is on
disk. Their broker has a heap of 3 GiB and G1, as RocketMQ's own benchmark notes have it, and is warmed like ours.

``start`` takes the time from starting the processes until a name server answers with a route, the resident memory of
name server and broker five seconds later, and again after some seconds of sends and as much rest: by then everything
that is loaded late is there. ``topic list`` is a whole command: process start, request, output. Both sides have the
same options there.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row
from benchmarks.wire.client import VERSION, WireClient, resident_mb
from tests.interop import jvm
from tests.interop.wire import probe, servers

_REAL = f"rocketmq-{VERSION}"
_SIDES = (OURS, VERSION)
_REAL_JVM = ("-Xms3g", "-Xmx3g", "-XX:+UseG1GC")
# Touching the whole heap would not be idle; the JVM's own choice of sizes is kinder to them.
_REAL_IDLE_JVM = ("-Xmx3g", "-XX:+UseG1GC")
_QUEUES = 16
_KEPT = {1: 1.38, 20: 1.62, 64: 1.62, 150: 1.60}  # threads -> how many times faster ASYNC sends were, and must stay
_WANTED_SYNC = {1: 1.2, 20: 1.3, 64: 1.5}
_WANTED_CPU = 4.0  # a quarter of their processor time a send
_WANTED_IDLE_MB = 45.0
_IDLE_S = 5.0
_LISTED = "listed-topic"
_START_OPTIONS = {"flushDiskType": "ASYNC_FLUSH"}
_LATENCY_RATE = 500  # messages a second: far from what either broker can take


def why_not() -> str | None:
    """Why nothing can be compared here, or None."""
    return servers.why_not(_REAL)


@dataclass(frozen=True, slots=True)
class _Task:
    """One thing to measure at both brokers; ``ours`` and ``theirs`` name the flush mode each of them has."""

    name: str
    mode: str
    arguments: dict[str, object]
    figures: tuple[Figure, ...]
    ours: str = "ASYNC"
    theirs: str = "ASYNC"
    header: str = "ROCKETMQ"


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    """Measure everything; one outcome a measurement, as ``rounds.run_all`` yields them."""
    with scratch(folder) as path:
        yield _starts(settings, Path(path))
        yield _topic_list(settings, Path(path))
    tasks = _tasks(settings)
    for flush in ("ASYNC", "SYNC"):  # of theirs; a second JVM of 3 GiB beside the measured one would be unfair to both
        yield from _phase([task for task in tasks if task.theirs == flush], flush, settings, folder)


def _phase(tasks: list[_Task], theirs: str, settings: Settings, folder: str | None) -> Iterator[Outcome]:
    with scratch(folder) as path, ExitStack() as stack:
        root = Path(path)
        real = stack.enter_context(_server(_REAL, theirs, root / "theirs"))
        ours = {
            flush: stack.enter_context(_server("flaremq", flush, root / f"ours-{flush}"))
            for flush in sorted({task.ours for task in tasks})
        }
        clients = {
            header: stack.enter_context(WireClient(root / f"client-{header}", header=header))
            for header in sorted({task.header for task in tasks})
        }
        load = _Load(settings)
        for target in (real, *ours.values()):
            for client in clients.values():
                load.prepare(client, target)
        for task in tasks:
            sides = {OURS: ours[task.ours], VERSION: real}
            measure = partial(load.measure, clients[task.header], sides, task)
            yield turns(task.name, task.figures, settings.wire_rounds, _SIDES, measure)


class _Load:
    """Tasks with topics and backlogs that are made when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._filled: set[str] = set()
        self._warmed: set[str] = set()
        self._groups = 0

    def prepare(self, client: WireClient, target: servers.Servers) -> None:
        """A topic, and the same work before anything counts: the first sends load classes and map files."""
        client.run("topic", target.pids, namesrv=target.name_server, topic="bench", queues=_QUEUES)
        warm = self._settings.wire_prepare_seconds
        arguments = {"namesrv": target.name_server, "topic": "bench", "threads": 32, "size": 1024}
        for mode, batch in (("send", 1), ("batch", 32)):
            client.run(mode, target.pids, **arguments, batch=batch, warm=warm, seconds=1)

    def measure(self, client: WireClient, sides: Mapping[str, servers.Servers], task: _Task, side: str) -> Row:
        if task.mode in ("push", "pull") and task.mode not in self._warmed:
            # Whoever came first would meet a client that has never consumed.
            self._warmed.add(task.mode)
            for target in sides.values():
                self._run(client, target, task)
        return self._run(client, sides[side], task)

    def _run(self, client: WireClient, target: servers.Servers, task: _Task) -> Row:
        arguments: dict[str, object] = {"namesrv": target.name_server, "topic": "bench", **task.arguments}
        if task.mode in ("send", "batch", "latency"):
            arguments |= {"warm": self._settings.wire_warm_seconds, "seconds": self._settings.wire_seconds}
        if task.mode in ("push", "pull"):
            arguments |= {"topic": "backlog", "messages": self._settings.wire_backlog}
            self._fill(client, target)
        if task.mode in ("push", "latency"):
            self._groups += 1
            arguments["group"] = f"group-{self._groups}"
        if task.mode == "latency":
            arguments["topic"] = f"live-{self._groups}"
            client.run("topic", target.pids, namesrv=target.name_server, topic=arguments["topic"], queues=4)
        return client.run(task.mode, [target.broker_pid], **arguments)

    def _fill(self, client: WireClient, target: servers.Servers) -> None:
        if target.name_server in self._filled:
            return
        client.run("topic", target.pids, namesrv=target.name_server, topic="backlog", queues=_QUEUES)
        client.run(
            "fill",
            target.pids,
            namesrv=target.name_server,
            topic="backlog",
            messages=self._settings.wire_backlog,
            size=1024,
        )
        self._filled.add(target.name_server)


def _tasks(settings: Settings) -> list[_Task]:
    tasks = [_send(threads, "ASYNC", "ASYNC", kept=kept) for threads, kept in _KEPT.items()]
    tasks.append(_send(64, "SYNC", "ASYNC", wanted=1.05))
    tasks.append(_send(64, "ASYNC", "ASYNC", header="JSON"))
    for size in (1024, 128):
        name = f"batch send 32 x {size} B, 20 threads"
        figures = (Figure(label=name, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=1.5),)
        tasks.append(_Task(name, "batch", {"threads": 20, "size": size, "batch": 32}, figures))
    tasks.append(
        _Task(
            "latency",
            "latency",
            {"rate": _LATENCY_RATE, "size": 1024},
            tuple(
                Figure(
                    label=f"send to push listener, {_LATENCY_RATE}/s, {percentile}",
                    unit="us",
                    ours=f"{percentile}_us",
                    theirs=f"{percentile}_us",
                    less_is_better=True,
                    wanted_ratio=1.0,
                )
                for percentile in ("p50", "p99")
            ),
        )
    )
    push = (Figure(label="push consume of a backlog", unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=1.1),)
    tasks.append(_Task("push", "push", {}, push))
    pull = (Figure(label="pull loop of 32, 8 threads", unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=1.2),)
    tasks.append(_Task("pull", "pull", {"threads": 8}, pull))
    return tasks + [_send(threads, "SYNC", "SYNC", wanted=wanted) for threads, wanted in _WANTED_SYNC.items()]


def _send(
    threads: int,
    ours: str,
    theirs: str,
    *,
    wanted: float | None = None,
    kept: float | None = None,
    header: str = "ROCKETMQ",
) -> _Task:
    label = f"send 1 KB, {threads} threads, {ours} against {theirs}"
    if header == "JSON":
        label += ", JSON headers"
    figures = [
        Figure(label=label, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=wanted, kept_ratio=kept),
        Figure(label="  p50", unit="us", ours="p50_us", theirs="p50_us", less_is_better=True),
        Figure(label="  p99", unit="us", ours="p99_us", theirs="p99_us", less_is_better=True, wanted_ratio=1.0),
    ]
    cpu = Figure(
        label="  broker CPU per send",
        unit="us",
        ours="server_us_per_message",
        theirs="server_us_per_message",
        less_is_better=True,
        wanted_ratio=_WANTED_CPU if threads == 64 and ours == theirs == "ASYNC" and header != "JSON" else None,
    )
    return _Task(label, "send", {"threads": threads, "size": 1024}, (*figures, cpu), ours, theirs, header)


def _server(target: str, flush: str, folder: Path) -> AbstractContextManager[servers.Servers]:
    return servers.started(target, folder, options={"flushDiskType": f"{flush}_FLUSH"}, flags=_REAL_JVM)


def _starts(settings: Settings, folder: Path) -> Outcome:
    figures = (
        Figure(
            label="name server and broker: start to ready",
            unit="s",
            ours="ready_s",
            theirs="ready_s",
            less_is_better=True,
            wanted_ratio=5,
        ),
        Figure(
            label="name server and broker: idle memory",
            unit="MB",
            ours="resident_MB",
            theirs="resident_MB",
            less_is_better=True,
            wanted_ratio=4,
        ),
        Figure(
            label="name server and broker: idle memory after sends, without the store's pages",
            unit="MB",
            ours="resident_after_MB",
            theirs="resident_after_MB",
            less_is_better=True,
            wanted_bound=_WANTED_IDLE_MB,
        ),
    )
    runs = 0

    def measure(side: str) -> Row:
        nonlocal runs
        runs += 1
        target, path = "flaremq" if side == OURS else _REAL, folder / f"start-{runs}"
        begin = time.monotonic()
        with servers.started(target, path, options=_START_OPTIONS, flags=_REAL_IDLE_JVM, together=True) as started:
            ready = time.monotonic() - begin
            time.sleep(_IDLE_S)
            row = {"ready_s": round(ready, 3), "resident_MB": _memory(started)}
            with WireClient(folder / f"client-{runs}") as client:
                client.run("topic", started.pids, namesrv=started.name_server, topic="bench", queues=_QUEUES)
                arguments = {"namesrv": started.name_server, "topic": "bench", "threads": 16, "size": 1024}
                client.run("send", started.pids, **arguments, batch=1, warm=1, seconds=settings.wire_warm_seconds)
            time.sleep(_IDLE_S)
            row["resident_after_MB"] = _memory(started)
        return row

    return turns("start", figures, settings.wire_starts, _SIDES, measure)


def _memory(started: servers.Servers) -> float:
    """Resident megabytes of all processes, but for the files of the store, which are the page cache's."""
    return round(sum(resident_mb(pid, without=started.store) for pid in started.pids), 1)


def _topic_list(settings: Settings, folder: Path) -> Outcome:
    figures = (
        Figure(
            label="topic list against mqadmin topicList",
            unit="s",
            ours="command_s",
            theirs="command_s",
            less_is_better=True,
            wanted_ratio=10,
        ),
    )
    with servers.started("flaremq", folder / "list", options=_START_OPTIONS) as started:
        probe.create_topic(started.broker, _LISTED, queues=4)
        home = folder / "tool"
        home.mkdir()
        jars = jvm.jar_folder(f"{VERSION}-servers")
        tool = ["java", "-Xmx256m", f"-Duser.home={home}", "-cp", f"{jars}/*"]
        tool += ["org.apache.rocketmq.tools.command.MQAdminStartup", "topicList", "-n", started.name_server]
        commands = {
            OURS: [sys.executable, "-m", "flaremq", "topic", "list", "-n", started.name_server],
            VERSION: tool,
        }

        def measure(side: str) -> Row:
            begin = time.monotonic()
            done = subprocess.run(commands[side], capture_output=True, text=True, timeout=60, check=True)
            elapsed = time.monotonic() - begin
            if _LISTED not in done.stdout:
                raise RuntimeError(f"no list of topics: {done.stdout[-500:]}{done.stderr[-500:]}")
            return {"command_s": round(elapsed, 3)}

        return turns("topic list", figures, settings.wire_starts, _SIDES, measure)

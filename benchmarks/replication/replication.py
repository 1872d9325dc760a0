"""Replication: a master and a slave of RocketMQ 5.5.0 and two of ours, in turns, driven by the same Java client.

``sends``: a SYNC_MASTER with one slave; a message is acknowledged when both have it (5.5.0 with ``inSyncReplicas=2``,
without which it waits for nobody). The flush type is the same on both sides. ``catch-up``: the slave was away while the
master's log grew; the rate is that of the slave's log from its first new byte to its last, and beside it a plain copy
of the same files to the same disk, synced. ``failover``: two brokers under a controller of their kind; from SIGKILL of
the master to the first send that the other acknowledges, by a client that asks the name server every few milliseconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.process_tree import processor_seconds
from benchmarks.replication import transfer
from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row
from benchmarks.wire.client import VERSION, WireClient
from tests.interop.replication.controller_group import ControllerGroup
from tests.interop.replication.group import Group
from tests.interop.replication.talk import OK, Talk
from tests.interop.wire import servers

_REAL = f"rocketmq-{VERSION}"
_SIDES = (OURS, VERSION)
_KINDS = {OURS: "flaremq", VERSION: _REAL}
_JVM = ("-Xms2g", "-Xmx2g", "-XX:+UseG1GC")
_QUEUES = 16
_THREADS = (1, 20, 64)
_WANTED_SEND = 1.3
_WANTED_CPU = 2.0  # half of theirs
_WANTED_CATCH_UP = 1.5
_WANTED_COPY = 0.5  # of what a plain copy of the files reaches
_WANTED_FAILOVER = 3.0  # a third of their time
_LOOK_S = 0.005
_PATIENCE_S = 300.0
_SYNC_MASTER = {OURS: {"brokerRole": "SYNC_MASTER"}, VERSION: {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}}
# As users have them, but for the time that a busy machine may let a send wait.
_OPTIONS: Mapping[str, str] = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": "6000000",
    "maxMessageSize": str(4 << 20),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "haSendHeartbeatInterval": "5000",
    "slaveTimeout": "3000",
    "waitTimeMillsInSendQueue": "5000",
}


def why_not() -> str | None:
    """Why nothing can be compared here, or None."""
    return servers.why_not(_REAL)


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    yield from _sends("ASYNC", _THREADS, settings, folder)
    yield from _sends("SYNC", (20,), settings, folder)
    yield _catch_ups(settings, folder)
    yield _failovers(settings, folder)
    yield transfer.outcome(settings, folder)


# Sends that wait for a slave


def _sends(flush: str, threads: tuple[int, ...], settings: Settings, folder: str | None) -> Iterator[Outcome]:
    with scratch(folder) as path, ExitStack() as stack:
        root = Path(path)
        groups = {side: stack.enter_context(_pair(side, root / side, flush)) for side in _SIDES}
        client = stack.enter_context(WireClient(root / "client"))
        for group in groups.values():
            group.start()
            _wait_acknowledged(group)
            client.run("topic", _pids(group), namesrv=group.name_server, topic="bench", queues=_QUEUES)
            warm = {"namesrv": group.name_server, "topic": "bench", "threads": 32, "size": 1024}
            client.run("send", _pids(group), **warm, warm=settings.wire_prepare_seconds, seconds=1)
        for count in threads:
            label = f"SYNC_MASTER send 1 KB, one slave, {count} threads, {flush}_FLUSH"
            measure = partial(_send, client, groups, count, settings)
            yield turns(label, _send_figures(label), settings.replication_rounds, _SIDES, measure)


def _send(client: WireClient, groups: Mapping[str, Group], threads: int, settings: Settings, side: str) -> Row:
    group = groups[side]
    arguments = {"namesrv": group.name_server, "topic": "bench", "threads": threads, "size": 1024}
    row = client.run("send", _pids(group), **arguments, warm=settings.wire_warm_seconds, seconds=settings.wire_seconds)
    row["master_us"], row["slave_us"] = row["each_us_per_message"]
    return row


def _send_figures(label: str) -> tuple[Figure, ...]:
    figures = [Figure(label=label, unit="msg/s", ours="msg_s", theirs="msg_s", wanted_ratio=_WANTED_SEND)]
    for name in ("p50", "p99"):
        figures.append(
            Figure(label=f"  {name}", unit="us", ours=f"{name}_us", theirs=f"{name}_us", less_is_better=True)
        )
    for who in ("master", "slave"):
        figures.append(
            Figure(
                label=f"  {who}'s CPU per send",
                unit="us",
                ours=f"{who}_us",
                theirs=f"{who}_us",
                less_is_better=True,
                wanted_ratio=_WANTED_CPU,
            )
        )
    return tuple(figures)


def _pair(side: str, folder: Path, flush: str, *, waits: bool = True) -> Group:
    options = {**_OPTIONS, "flushDiskType": f"{flush}_FLUSH"}
    kinds = f"{_KINDS[side]}>{_KINDS[side]}"
    master_options = _SYNC_MASTER[side] if waits else {}
    return Group(kinds, folder, options=options, master_options=master_options, flags=_JVM, has_proxies=False)


def _pids(group: Group) -> list[int]:
    return [group.master.pid, group.slave.pid]


def _wait_acknowledged(group: Group) -> None:
    """A slave that has just started is not connected yet."""
    group.wait("acknowledged send", lambda: group.master.talk.send("warm", b"is a slave there").code == OK)


# Catching up


def _catch_ups(settings: Settings, folder: str | None) -> Outcome:
    label = f"catch-up of {settings.replication_bytes / 1e9:.1f} GB"
    figures = (
        Figure(label=label, unit="MB/s", ours="MB_s", theirs="MB_s", wanted_ratio=_WANTED_CATCH_UP),
        Figure(
            label="  beside a copy of the files to disk",
            unit="MB/s",
            ours="MB_s",
            beside="copy_MB_s",
            wanted_ratio=_WANTED_COPY,
        ),
        Figure(label="  master's CPU per GB", unit="s", ours="master_s", theirs="master_s", less_is_better=True),
        Figure(label="  slave's CPU per GB", unit="s", ours="slave_s", theirs="slave_s", less_is_better=True),
    )

    def measure(side: str) -> Row:
        with (
            scratch(folder) as path,
            _pair(side, Path(path) / "pair", "ASYNC", waits=False) as group,
            WireClient(Path(path) / "client") as client,
        ):
            return _catch_up(group, client, settings.replication_bytes)

    return turns("catch-up", figures, settings.replication_rounds, _SIDES, measure)


def _catch_up(group: Group, client: WireClient, byte_count: int) -> Row:
    group.start()
    # Java's master gives an empty slave its last file only, so the slave has something already.
    group.master.talk.send("warm", b"the first message")
    group.wait_caught_up()
    group.slave.stop()
    client.run("topic", [group.master.pid], namesrv=group.name_server, topic="bench", queues=_QUEUES)
    messages = byte_count // 1150  # what a message of 1 KB takes in the log, about
    client.run("fill", [group.master.pid], namesrv=group.name_server, topic="bench", messages=messages, size=1024)
    begin, end = group.slave_end(), group.master.talk.log_end()
    copy = _copy_rate(group.master.store / "commitlog", group.slave.folder / "copy", end)
    os.sync()
    group.start_slaves()
    reached, deadline = begin, time.monotonic() + _PATIENCE_S
    while reached <= begin:
        reached = _next_look(group, deadline, end)
    first, first_at = reached, time.monotonic()
    cpu = [processor_seconds(pid) for pid in _pids(group)]
    while reached < end:
        reached = _next_look(group, deadline, end)
    elapsed = max(time.monotonic() - first_at, 1e-3)
    gigabytes = max(end - first, 1) / 1e9
    master, slave = (processor_seconds(pid) - before for pid, before in zip(_pids(group), cpu, strict=True))
    return {
        "MB_s": round(gigabytes * 1000 / elapsed, 1),
        "copy_MB_s": copy,
        "seconds": round(elapsed, 3),
        "bytes": end - begin,
        "master_s": round(master / gigabytes, 3),
        "slave_s": round(slave / gigabytes, 3),
    }


def _next_look(group: Group, deadline: float, end: int) -> int:
    """Where the slave's log ends a moment later."""
    time.sleep(_LOOK_S)
    reached = group.slave.talk.log_end()
    if time.monotonic() > deadline:
        raise TimeoutError(f"the slave is at {reached} of {end} after {_PATIENCE_S:g} s")
    return reached


def _copy_rate(source: Path, target: Path, byte_count: int) -> float:
    """Megabytes a second of a plain copy that is on disk in the end, as far as the log is written."""
    target.mkdir()
    done, began = 0, time.monotonic()
    for path in sorted(source.iterdir()):
        with path.open("rb") as reading, (target / path.name).open("wb") as writing:
            while done < byte_count and (data := reading.read(1 << 20)):
                done += writing.write(data)
            writing.flush()
            os.fsync(writing.fileno())
    elapsed = time.monotonic() - began
    for path in target.iterdir():
        path.unlink()
    target.rmdir()
    return round(done / 1e6 / max(elapsed, 1e-3), 1)


# Failover


def _failovers(settings: Settings, folder: str | None) -> Outcome:
    figures = (
        Figure(
            label="SIGKILL of the master to the first acknowledged send",
            unit="s",
            ours="first_s",
            theirs="first_s",
            less_is_better=True,
            wanted_ratio=_WANTED_FAILOVER,
        ),
    )

    def measure(side: str) -> Row:
        kind = _KINDS[side]
        with (
            scratch(folder) as path,
            ControllerGroup(
                f"{kind}+{kind}", Path(path) / "group", controller=kind, options=_DEFAULT_TIMES, flags=_JVM
            ) as group,
        ):
            return _failover(group)

    return turns("failover", figures, settings.replication_rounds, _SIDES, measure)


# As both have them unless told otherwise: RocketMQ's own times decide how long its failover takes.
_DEFAULT_TIMES = {
    **_OPTIONS,
    "flushDiskType": "ASYNC_FLUSH",
    "brokerHeartbeatInterval": "1000",
    "controllerHeartBeatTimeoutMills": "10000",
    "haMaxTimeSlaveNotCatchup": "15000",
    "registerNameServerPeriod": "30000",
}


def _failover(group: ControllerGroup) -> Row:
    group.start()
    group.wait_in_sync()
    old = group.wait_master()
    group.wait("acknowledged send", lambda: old.talk.send("bench", b"before").code == OK)
    name_server = Talk(group.name_server, timeout_s=2.0)
    began = time.monotonic()
    old.kill()
    while True:
        if time.monotonic() - began > _PATIENCE_S:
            raise TimeoutError(f"no master after {_PATIENCE_S:g} s: {group.state()}")
        try:
            address = name_server.master_address()
            if address not in (None, old.address):
                with Talk(str(address), timeout_s=2.0) as talk:
                    if talk.send("bench", b"after").code == OK:
                        return {"first_s": round(time.monotonic() - began, 3)}
        except OSError:
            pass
        time.sleep(_LOOK_S)

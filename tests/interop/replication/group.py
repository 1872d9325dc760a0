"""A name server, a master and its slaves, each of them ours or a real RocketMQ; a proxy on every link to the master.

    with Group("flaremq>rocketmq-5.5.0", folder) as group:       # our master, a real slave
        group.start()
        group.master.talk.send("topic", b"body")
        group.wait_caught_up()

The name server is ours unless told otherwise; brokers learn of each other from it alone. It is reached by a slave
through a proxy that rewrites the address of the master's HA port to that of another proxy: no option of a RocketMQ
broker does that, and an address that the slave was configured with is ignored by 5.x.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop.replication import store_files
from tests.interop.replication.talk import Talk
from tests.interop.wire import probe, servers
from tests.interop.wire.server_process import ServerProcess
from tests.support.ports import free_ports
from tests.support.tcp_proxy import TcpProxy

FILE_SIZE = 1 << 20
_SLOTS = 1000
_PATIENCE_S = 60.0
# Times are short where the defaults would make a test wait; a slave of 4.9 reports first after one heartbeat interval.
OPTIONS: Mapping[str, str] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "autoCreateTopicEnable": "true",
    "diskMaxUsedSpaceRatio": "95",
    "mappedFileSizeCommitLog": str(FILE_SIZE),
    "maxMessageSize": "900000",
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": str(_SLOTS),
    "maxIndexNum": "4000",
    "haSendHeartbeatInterval": "1000",
    "slaveTimeout": "1500",
    "flushDiskType": "ASYNC_FLUSH",
    "waitTimeMillsInSendQueue": "5000",
    "slaveReadEnable": "true",
    "messageDelayLevel": "1s 2s 5s",
    "registerNameServerPeriod": "10000",
}


class Member:
    """One broker: its kind, folder and addresses; it can be started, stopped, killed and frozen, its store stays."""

    def __init__(
        self, kind: str, folder: Path, options: Mapping[str, str], *, flags: tuple[str, ...] = servers.TEST_JVM
    ) -> None:
        self.kind = kind
        self.folder = folder
        self.options = dict(options)
        self.address = f"127.0.0.1:{free_ports()}"
        self.ha_address = f"127.0.0.1:{int(self.address.rsplit(':', 1)[1]) + 1}"
        self.talk = Talk(self.address)
        self._side = servers.side(kind, flags)
        self._process: ServerProcess | None = None
        folder.mkdir(parents=True)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, name_server: str) -> None:
        assert not self.is_running, f"{self.kind} runs already"
        self._process = self._side.broker(self.folder, self.address, name_server, self.options)

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            if not self.is_running:
                raise RuntimeError(f"{self.kind} ended while it was starting:\n{self.log_tail()}")
            try:
                return bool(self.talk.runtime_info())
            except OSError:
                return False

        probe.wait(f"{self.kind} to answer", is_ready, seconds=_PATIENCE_S)

    def stop(self) -> None:
        self.talk.close()
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        self.talk.close()
        if self._process is not None:
            self._process.kill()
            self._process = None

    def freeze(self) -> None:
        """Returns when every thread stands still: one of a JVM may answer a moment longer."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        probe.wait(f"{self.kind} to stop", lambda: _states(pid) <= {"T", "t", "Z"}, seconds=_PATIENCE_S)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wipe(self) -> None:
        """An empty disk: only while it does not run."""
        assert not self.is_running
        shutil.rmtree(self.store, ignore_errors=True)

    def log_tail(self) -> str:
        return self._process.log_tail() if self._process is not None else f"{self.kind} does not run"


class Group:
    """A pair "MASTER>SLAVE", or more: "MASTER>SLAVE>SLAVE"; options for all, for the master, for the slaves."""

    def __init__(
        self,
        kinds: str,
        folder: Path,
        *,
        options: Mapping[str, str] | None = None,
        master_options: Mapping[str, str] | None = None,
        slave_options: Mapping[str, str] | None = None,
        name_server: str = "flaremq",
        flags: tuple[str, ...] = servers.TEST_JVM,
        has_proxies: bool = True,
    ) -> None:
        """``flags`` are those of JVMs; without proxies a slave talks to its master directly, for measurements."""
        first, *others = kinds.split(">")
        shared = {**OPTIONS, **(options or {})}
        self.kinds = kinds
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.name_server = f"127.0.0.1:{free_ports()}"
        self._name_server_side = servers.side(name_server)
        self._name_server: ServerProcess | None = None
        at_master = {"brokerId": "0", "brokerRole": "ASYNC_MASTER", **(master_options or {})}
        self.master = Member(first, folder / "master", {**shared, **at_master}, flags=flags)
        self.slaves: list[Member] = []
        self.links: list[TcpProxy] = []  # from each slave to the master's HA port
        self._relays: list[TcpProxy] = []  # from each slave to the name server
        for number, kind in enumerate(others, 1):
            own = {"brokerId": str(number), "brokerRole": "SLAVE", **(slave_options or {})}
            self.slaves.append(Member(kind, folder / f"slave-{number}", {**shared, **own}, flags=flags))
            if not has_proxies:
                continue
            link = TcpProxy(self.master.ha_address, port=free_ports())
            self.links.append(link)
            rewrite = {self.master.ha_address: link.address}
            self._relays.append(TcpProxy(self.name_server, rewrite=rewrite))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def slave(self) -> Member:
        return self.slaves[0]

    @property
    def link(self) -> TcpProxy:
        return self.links[0]

    @property
    def members(self) -> list[Member]:
        return [self.master, *self.slaves]

    def start_name_server(self) -> None:
        if self._name_server is None:
            self._name_server = self._name_server_side.name_server(self._folder, self.name_server, {})
            probe.wait("name server", lambda: probe.is_open(self.name_server), seconds=_PATIENCE_S)

    def start_master(self) -> None:
        self.start_name_server()
        if not self.master.is_running:
            self.master.start(self.name_server)
            self.master.wait_ready()
            probe.wait("route", lambda: probe.has_route(self.name_server), seconds=_PATIENCE_S)

    def start_slaves(self) -> None:
        """After the master has registered: a slave that finds no master looks again half a minute later."""
        relays = [relay.address for relay in self._relays] or [self.name_server] * len(self.slaves)
        for slave, relay in zip(self.slaves, relays, strict=True):
            if not slave.is_running:
                slave.start(relay)
        for slave in self.slaves:
            slave.wait_ready()

    def start(self) -> None:
        self.start_master()
        self.start_slaves()

    def slave_end(self) -> int:
        """Where the log of a stopped slave ends."""
        return store_files.read_log(self.slave.store, int(self.slave.options["mappedFileSizeCommitLog"])).end

    def wait_caught_up(self, *, seconds: float = _PATIENCE_S) -> int:
        """Until every slave has what the master has now, in the log and dispatched; where that ends."""
        end = self.master.talk.log_end()
        for slave in self.slaves:
            self.wait(f"{slave.kind} to have {end} bytes", partial(_has, slave, end), seconds=seconds)
        return end

    def wait(self, what: str, condition: Callable[[], bool], *, seconds: float = _PATIENCE_S) -> None:
        try:
            probe.wait(what, condition, seconds=seconds)
        except TimeoutError as error:
            logs = "\n".join(f"--- {member.kind}:\n{member.log_tail()}" for member in self.members)
            raise TimeoutError(f"{error}\n{logs}") from None

    def assert_equal_stores(self) -> None:
        """Stops everybody in order and compares all files."""
        self.wait("end of deliveries", self._has_delivered)
        self.wait_caught_up()
        # At the same time: a JVM takes ten seconds to end. Nothing is written any more, so the order does not matter.
        with ThreadPoolExecutor() as pool:
            list(pool.map(Member.stop, self.members))
        for slave in self.slaves:
            store_files.assert_replica(
                self.master.store,
                slave.store,
                file_size=FILE_SIZE,
                slots=_SLOTS,
                loses_index=slave.kind.startswith("rocketmq"),
            )

    def _has_delivered(self) -> bool:
        """Whether the master has nothing left that is delayed: it would go on writing while everybody stops."""
        progress = self.master.talk.delay_progress()
        return all(
            progress.get(level, 0) >= self.master.talk.max_offset("SCHEDULE_TOPIC_XXXX", level - 1)
            for level in (1, 2, 3)
        )

    def close(self) -> None:
        for member in self.members:
            member.kill()
        if self._name_server is not None:
            self._name_server.kill()
            self._name_server = None
        for proxy in (*self.links, *self._relays):
            proxy.close()


def _states(pid: int) -> set[str]:
    """The states of all threads of a process."""
    found = set()
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.add(path.read_text().rpartition(")")[2].split()[0])
    return found


def _has(slave: Member, end: int) -> bool:
    try:
        facts = slave.talk.runtime_info()
    except OSError:
        return False
    return int(facts.get("commitLogMaxOffset", -1)) >= end and int(facts.get("dispatchBehindBytes", 0)) == 0


def why_not(kinds: str) -> str | None:
    """Why such a group cannot run here, or None when it can."""
    return servers.why_not("+".join(kinds.split(">")))

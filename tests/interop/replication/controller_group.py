"""A name server, a controller and brokers of one name under it, each ours or a real RocketMQ 5.x.

    with ControllerGroup("flaremq+rocketmq-5.5.0", folder, controller="flaremq") as group:
        group.start()
        group.wait_in_sync()
        group.master.kill()
        group.wait_master(other_than=...)

Every broker has a proxy of its own to the controller, to the name server and to the HA port of each other broker, so
that it can be cut off from any of them while its clients still reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.interop.replication.group import OPTIONS, Member
from tests.interop.replication.talk import Talk
from tests.interop.wire import probe, servers
from tests.interop.wire.server_process import ServerProcess
from tests.support.ports import free_ports
from tests.support.tcp_proxy import TcpProxy

BROKER_NAME = "broker-a"
_PATIENCE_S = 60.0
_NEEDED: Mapping[str, str] = {
    "enableControllerMode": "true",
    "brokerHeartbeatInterval": "500",
    "controllerHeartBeatTimeoutMills": "3000",
    "syncBrokerMetadataPeriod": "1000",
    "haMaxTimeSlaveNotCatchup": "3000",
    # RocketMQ waits for nobody, or for k, unless told to wait for the whole set, as ours does.
    "allAckInSyncStateSet": "true",
}


class ControllerGroup:
    def __init__(
        self,
        kinds: str,
        folder: Path,
        *,
        controller: str = "flaremq",
        options: Mapping[str, str] | None = None,
        flags: tuple[str, ...] = servers.TEST_JVM,
    ) -> None:
        self.kinds = kinds
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.name_server = f"127.0.0.1:{free_ports()}"
        # Java's controller with a group of one talks to itself at this port only.
        self.controller = f"127.0.0.1:{free_ports()}"
        self._sides = (servers.side("flaremq"), servers.side(controller, flags))
        self._processes: dict[str, ServerProcess] = {}
        # Of three, two must have a message. Of two, one may go on alone: the other then cannot become the master.
        copies = str(max(1, kinds.count("+")))
        at_least = {"inSyncReplicas": copies, "minInSyncReplicas": copies}
        shared = {**OPTIONS, **_NEEDED, **at_least, **(options or {})}
        self.members: list[Member] = []
        self.controller_links: list[TcpProxy] = []  # of each broker to the controller
        self.relays: list[TcpProxy] = []  # of each broker to the name server
        self.ha_links: dict[tuple[int, int], TcpProxy] = {}  # from one broker to the HA port of another
        for number, kind in enumerate(kinds.split("+")):
            link = TcpProxy(self.controller, port=free_ports())
            self.controller_links.append(link)
            own = {**shared, "controllerAddr": link.address}
            self.members.append(Member(kind, folder / f"broker-{number + 1}", own, flags=flags))
        for here in range(len(self.members)):
            rewrite = {}
            for there, other in enumerate(self.members):
                if there != here:
                    proxy = TcpProxy(other.ha_address, port=free_ports())
                    self.ha_links[here, there] = proxy
                    rewrite[other.ha_address] = proxy.address
            self.relays.append(TcpProxy(self.name_server, rewrite=rewrite))
        self.talk = Talk(self.controller)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        self.start_name_server()
        self.start_controller()
        self.start_brokers()

    def start_name_server(self) -> None:
        if "namesrv" not in self._processes:
            self._processes["namesrv"] = self._sides[0].name_server(self._folder, self.name_server, {})
            probe.wait("name server", lambda: probe.is_open(self.name_server), seconds=_PATIENCE_S)

    def start_controller(self) -> None:
        if "controller" not in self._processes:
            self._processes["controller"] = self._sides[1].controller(self._folder, self.controller, {})
            self.wait("controller", lambda: probe.is_open(self.controller))

    def kill_controller(self) -> None:
        self.talk.close()
        self._processes.pop("controller").kill()

    @property
    def controller_pid(self) -> int:
        return self._processes["controller"].pid

    def start_brokers(self) -> None:
        for member, relay in zip(self.members, self.relays, strict=True):
            if not member.is_running:
                member.start(relay.address)
        for member in self.members:
            member.wait_ready()

    # Who is what

    def state(self) -> dict[str, Any]:
        """As the controller tells it; empty if it does not answer."""
        try:
            return self.talk.replicas(BROKER_NAME)
        except OSError:
            return {}

    @property
    def master(self) -> Member:
        """The broker that the controller calls master."""
        address = self.state().get("masterAddress")
        return next(member for member in self.members if member.address == address)

    def wait_master(self, *, other_than: Member | None = None) -> Member:
        def is_elected() -> bool:
            address = self.state().get("masterAddress")
            return address in {member.address for member in self.members if member is not other_than}

        self.wait("master", is_elected)
        return self.master

    def wait_in_sync(self, *, seconds: float = _PATIENCE_S) -> None:
        """Until every broker is in the SyncStateSet, so that any may become the master."""
        self.wait(
            "all brokers in sync",
            lambda: len(self.state().get("inSyncReplicas", ())) == len(self.members),
            seconds=seconds,
        )

    def wait_caught_up(self, *, seconds: float = _PATIENCE_S) -> int:
        """Until all logs end at the same place, and nothing is left to dispatch."""
        ends: list[int] = []

        def are_equal() -> bool:
            ends.clear()
            for member in self.members:
                try:
                    facts = member.talk.runtime_info()
                except OSError:
                    return False
                if int(facts.get("dispatchBehindBytes", 0)) != 0:
                    return False
                ends.append(int(facts.get("commitLogMaxOffset", -len(ends) - 1)))
            return len(set(ends)) == 1

        try:
            self.wait("equal ends", are_equal, seconds=seconds)
        except TimeoutError as error:
            raise TimeoutError(f"ends {ends}, {self.state()}\n{error}") from None
        return ends[0]

    def wait(self, what: str, condition: Callable[[], bool], *, seconds: float = _PATIENCE_S) -> None:
        try:
            probe.wait(what, condition, seconds=seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {self.state()}\n{self.logs()}") from None

    def logs(self) -> str:
        texts = [f"--- {member.folder.name}, {member.kind}:\n{member.log_tail()}" for member in self.members]
        texts += [f"--- {name}:\n{process.log_tail()}" for name, process in self._processes.items()]
        return "\n".join(texts)

    # Links

    def links_of(self, member: Member) -> list[TcpProxy]:
        """Everything between this broker and the others: brokers, controller, name server."""
        number = self.members.index(member)
        found = [proxy for pair, proxy in self.ha_links.items() if number in pair]
        return [*found, self.controller_links[number], self.relays[number]]

    def heal(self) -> None:
        for proxy in (*self.ha_links.values(), *self.controller_links, *self.relays):
            proxy.heal()

    def stop_brokers(self) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(Member.stop, self.members))

    def close(self) -> None:
        for member in self.members:
            member.kill()
        for process in self._processes.values():
            process.kill()
        for proxy in (*self.ha_links.values(), *self.controller_links, *self.relays):
            proxy.close()
        self.talk.close()


def why_not(kinds: str, controller: str) -> str | None:
    return servers.why_not(f"{kinds}+{controller}")

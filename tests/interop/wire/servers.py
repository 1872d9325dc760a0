"""Name server and broker as the suites need them: RocketMQ's own or ours, behind one handle.

    with started("rocketmq-5.5.0", folder) as servers: ...     # a real name server and broker
    with started("flaremq", folder) as servers: ...            # both of ours in one process, `flaremq up`
    with started("flaremq+rocketmq-4.9.7", folder) ...         # our name server, a real broker
    with started("rocketmq-5.5.0+flaremq", folder) ...         # a real name server, our broker
    with started("flaremq+flaremq", folder) ...                # both of ours, in processes of their own

The same suites against the real thing prove the suites right; against ours they prove ours. Ports are free ones
of this machine, everything is below ``folder``, and the options are the same for both: unless told otherwise, short
times where the defaults would make a test wait, small files, all features on.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop import jvm
from tests.interop.wire import probe
from tests.interop.wire.server_process import ServerProcess
from tests.support.ports import free_ports

READY_S = 90.0

# Under RocketMQ's names, for its broker and for ours.
_ALWAYS: Mapping[str, str] = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "autoCreateTopicEnable": "true",
    "diskMaxUsedSpaceRatio": "95",
}
_FOR_TESTS: Mapping[str, str] = {
    "grpcServerPort": "-1",  # a broker of RocketMQ passes over what only its proxy knows
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "transactionCheckInterval": "3000",
    "transactionTimeOut": "2000",
    # The suites run on few cores beside JVMs that are just starting: busy is not broken.
    "waitTimeMillsInSendQueue": "5000",
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
    "mappedFileSizeCommitLog": str(64 << 20),
    # Unknown to 4.9, which passes over what it does not know.
    "recallMessageEnable": "true",
}
# Not the fastest JVM, but the one that is ready first.
SMALL_OPTIONS: Mapping[str, str] = {**_ALWAYS, **_FOR_TESTS}
TEST_JVM = ("-Xms256m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>${user.home}/rocketmq.log</file><encoder><pattern>%d %p %c %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


class RocketMQ:
    """Command lines of one release's servers."""

    def __init__(self, version: str, *, flags: tuple[str, ...] = TEST_JVM) -> None:
        self.version = version
        self.flags = flags
        self._jars = jvm.jar_folder(f"{version}-servers")

    def name_server(self, folder: Path, address: str, options: Mapping[str, str]) -> ServerProcess:
        settings = {
            "listenPort": address.rsplit(":", 1)[1],
            "kvConfigPath": str(folder / "kv.json"),
            "configStorePath": str(folder / "namesrv.properties"),
            **options,
        }
        return self._start("org.apache.rocketmq.namesrv.NamesrvStartup", folder, "namesrv", settings)

    def broker(self, folder: Path, address: str, name_server: str, options: Mapping[str, str]) -> ServerProcess:
        port = int(address.rsplit(":", 1)[1])
        settings = {
            "namesrvAddr": name_server,
            "listenPort": str(port),
            "haListenPort": str(port + 1),
            "storePathRootDir": str(folder / "store"),
            "storePathCommitLog": str(folder / "store" / "commitlog"),
        }
        return self._start("org.apache.rocketmq.broker.BrokerStartup", folder, "broker", {**settings, **options})

    def controller(self, folder: Path, address: str, options: Mapping[str, str]) -> ServerProcess:
        """A group of one; the port of its only member is the one it listens at."""
        settings = {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{address}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": str(folder / "controller"),
            "listenPort": address.rsplit(":", 1)[1],
            **options,
        }
        return self._start("org.apache.rocketmq.controller.ControllerStartup", folder, "controller", settings)

    def _start(self, main: str, folder: Path, name: str, settings: Mapping[str, str]) -> ServerProcess:
        home = folder / "home"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        logback = home / "conf" / f"logback_{name}.xml"
        logback.write_text(LOGBACK)
        file = folder / f"{name}.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = ["java", *self.flags, *jvm.OPENED_INTERNALS, f"-Duser.home={folder}"]
        command += [f"-Drmq.logback.configurationFile={logback}", "-cp", f"{self._jars}/*", main, "-c", str(file)]
        return ServerProcess(command, folder / f"{name}.out", {"ROCKETMQ_HOME": str(home)})


class FlareMQ:
    """Command lines of our servers, run from the sources of this checkout."""

    version = "flaremq"

    def up(self, folder: Path, name_server: str, broker: str, options: Mapping[str, str]) -> ServerProcess:
        arguments = ["up", "--data", str(folder / "store"), "--listen", name_server, "--broker-listen", broker]
        return self._start(arguments, folder, "up", options)

    def name_server(self, folder: Path, address: str, options: Mapping[str, str]) -> ServerProcess:
        settings = {"kvConfigPath": str(folder / "kv.json"), **options}
        return self._start(["namesrv", "--listen", address], folder, "namesrv", settings)

    def controller(self, folder: Path, address: str, options: Mapping[str, str]) -> ServerProcess:
        arguments = ["controller", "--listen", address, "--data", str(folder / "controller")]
        return self._start(arguments, folder, "controller", options)

    def broker(self, folder: Path, address: str, name_server: str, options: Mapping[str, str]) -> ServerProcess:
        arguments = ["broker", "-n", name_server, "--data", str(folder / "store"), "--listen", address]
        return self._start(arguments, folder, "broker", options)

    def proxy(self, folder: Path, address: str, name_server: str, options: Mapping[str, str]) -> ServerProcess:
        """Only what gRPC has: there is no store."""
        return self._start(["proxy", "-n", name_server, "--listen", address], folder, "proxy", options)

    def _start(self, arguments: list[str], folder: Path, name: str, options: Mapping[str, str]) -> ServerProcess:
        command = [sys.executable, "-m", "flaremq", *arguments]
        for key, value in options.items():
            command += ["--set", f"{key}={value}"]
        return ServerProcess(command, folder / f"{name}.out", {"PYTHONPATH": str(jvm.PROJECT / "src")})


class Servers:
    """A name server and a broker at fixed addresses; the broker can be restarted and killed, its store outlives it."""

    def __init__(
        self,
        target: str,
        folder: Path,
        *,
        options: Mapping[str, str] | None = None,
        name_server_options: Mapping[str, str] | None = None,
        flags: tuple[str, ...] = TEST_JVM,
        signer: probe.Signer | None = None,
        tls: ssl.SSLContext | None = None,
        broker_side: RocketMQ | FlareMQ | None = None,
    ) -> None:
        """``broker_side``: who starts the broker, where the name of the target does not say it."""
        first, _, second = target.partition("+")
        self._is_one_process = target == "flaremq"
        self._name_server_options = name_server_options or {}
        self.target = target
        self._signer = signer
        self._tls = tls
        self._folder = folder
        self._namesrv_side = side(first, flags)
        self._broker_side = broker_side or side(second or first, flags)
        port = free_ports()
        self.name_server = f"127.0.0.1:{port}"
        self.broker = f"127.0.0.1:{free_ports()}"
        if options is None:
            options = _FOR_TESTS
        self._options = {**_ALWAYS, **options}
        self._running: list[ServerProcess] = []
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def broker_version(self) -> str:
        return self._broker_side.version

    @property
    def store(self) -> Path:
        return self._folder / "store"

    @property
    def broker_pid(self) -> int:
        return self._running[-1].pid

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    def start(self, *, together: bool = False) -> None:
        """The name server first, then the broker, which else may miss it and try again only after half a minute."""
        if not self._running and not self._is_one_process:
            self._running.append(self._start_name_server())
            if not together:
                probe.wait("name server", lambda: probe.is_open(self.name_server), seconds=READY_S)
        self._start_broker()
        self.wait_ready()

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            for process in self._running:
                if not process.is_running:
                    raise RuntimeError(f"{self.target} ended while it was starting:\n{process.log_tail()}")
            return probe.has_route(self.name_server, signer=self._signer, tls=self._tls) and probe.is_open(self.broker)

        try:
            probe.wait(f"route from {self.target}", is_ready, seconds=READY_S)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log_tail()}") from None

    def restart(self) -> None:
        self._running.pop().stop()
        self.start()

    def kill_and_restart(self) -> None:
        self._running.pop().kill()
        self.start()

    def stop(self) -> None:
        """The broker first, so that it can say goodbye to the name server."""
        while self._running:
            self._running.pop().stop()

    def close(self) -> None:
        """End everything at once; for a store that nobody will look at."""
        while self._running:
            self._running.pop().kill()

    def log_tail(self) -> str:
        return "\n".join(process.log_tail() for process in self._running)

    def _start_name_server(self) -> ServerProcess:
        return self._namesrv_side.name_server(self._folder, self.name_server, self._name_server_options)

    def _start_broker(self) -> None:
        side = self._broker_side
        if self._is_one_process:
            assert isinstance(side, FlareMQ)
            self._running.append(side.up(self._folder, self.name_server, self.broker, self._options))
        else:
            self._running.append(side.broker(self._folder, self.broker, self.name_server, self._options))


@contextmanager
def started(
    target: str,
    folder: Path,
    *,
    options: Mapping[str, str] | None = None,
    name_server_options: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = TEST_JVM,
    together: bool = False,
    signer: probe.Signer | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Servers]:
    """Servers that are ready; whatever still runs at the end is killed. Without ``options`` those for tests apply.

    A name server with access control shows whether it is ready to a ``signer`` only, one that takes no plain
    connections over ``tls``.
    """
    servers = Servers(
        target, folder, options=options, name_server_options=name_server_options, flags=flags, signer=signer, tls=tls
    )
    try:
        servers.start(together=together)
        yield servers
    finally:
        servers.close()


def why_not(target: str) -> str | None:
    """Why this target cannot run here, or None when it can."""
    for side in target.split("+"):
        if side != "flaremq":
            reason = jvm.why_not(f"{side.removeprefix('rocketmq-')}-servers", "rocketmq-broker")
            if reason is not None:
                return reason
    return None


def side(name: str, flags: tuple[str, ...] = TEST_JVM) -> RocketMQ | FlareMQ:
    """The servers of one kind: ``flaremq`` or ``rocketmq-VERSION``."""
    if name == "flaremq":
        return FlareMQ()
    version = name.removeprefix("rocketmq-")
    if version == name:
        raise ValueError(f"target {name!r}: expected flaremq or rocketmq-VERSION")
    return RocketMQ(version, flags=flags)

"""Doors for clients of RocketMQ 5: a broker of ours with its port of gRPC, or RocketMQ's proxy in local mode.

    with opened("flaremq", folder) as door: ...                 # `flaremq up`
    with opened("proxy", folder) as door: ...                   # the real proxy and broker in one process
    with opened("before-flaremq", folder) as door: ...          # `flaremq proxy` before servers of ours
    with opened("before-rocketmq-5.5.0", folder) as door: ...   # and before real ones

Options are the same for both. Topics and groups are made by our administration, which both understand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flaremq.client.options import ClientOptions
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.sync import Admin
from tests.interop import jvm
from tests.interop.grpc import scenarios
from tests.interop.wire import probe, servers
from tests.interop.wire.server_process import ServerProcess
from tests.support.ports import free_ports

OURS = "flaremq"
PROXY = "proxy"
BEFORE = "before-"  # `flaremq proxy` before these servers
_VERSION = jvm.pinned_versions("ROCKETMQ_PROXY_VERSION")[0]
_BROKER = {
    **servers.SMALL_OPTIONS,
    "transactionCheckInterval": "4000",
    "recallMessageEnable": "true",
    "timerWheelEnable": "true",
}


class ProxyServers(servers.RocketMQ):
    """RocketMQ's servers, its proxy in local mode instead of the broker."""

    def broker(self, folder: Path, address: str, name_server: str, options: Mapping[str, str]) -> ServerProcess:
        port = int(address.rsplit(":", 1)[1])
        home = folder / "proxy-home"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        settings = {
            "namesrvAddr": name_server,
            "listenPort": str(port),
            "haListenPort": str(port + 1),
            "storePathRootDir": str(folder / "store"),
            "storePathCommitLog": str(folder / "store" / "commitlog"),
            **options,
        }
        (home / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        proxy = {
            "proxyMode": "LOCAL",
            "namesrvAddr": name_server,
            "rocketMQClusterName": "DefaultCluster",
            "grpcServerPort": int(options["grpcServerPort"]),
            "remotingListenPort": free_ports(),
        }
        (home / "conf" / "rmq-proxy.json").write_text(json.dumps(proxy))
        logback = home / "conf" / "logback_proxy.xml"
        logback.write_text(servers.LOGBACK)
        command = ["java", *self.flags, *jvm.OPENED_INTERNALS, f"-Duser.home={folder}"]
        command += [f"-Drmq.logback.configurationFile={logback}", "-cp", f"{jvm.jar_folder(f'proxy-{_VERSION}')}/*"]
        command += ["org.apache.rocketmq.proxy.ProxyStartup", "-n", name_server, "-pm", "local"]
        command += ["-bc", str(home / "broker.conf"), "-pc", str(home / "conf" / "rmq-proxy.json")]
        environment = {"ROCKETMQ_HOME": str(home), "RMQ_PROXY_HOME": str(home)}
        return ServerProcess(command, folder / "proxy.out", environment)


class Door:
    """A door, and how operators reach what is behind it."""

    def __init__(self, target: str, behind: servers.Servers, address: str, signer: probe.Signer | None) -> None:
        self.target = target
        self.behind = behind
        self.address = address
        self._signer = signer

    def admin(self) -> Admin:
        key, secret = self._signer or ("", "")
        return Admin(self.behind.name_server, options=ClientOptions(access_key=key, secret_key=secret))

    def prepare(self, run: str, names: tuple[str, ...]) -> None:
        """The topics and groups that scenarios need: the clients make none."""
        with self.admin() as admin:
            for name in names:
                topic = scenarios.topic(run, name)
                kind = scenarios.TYPES.get(name, "NORMAL")
                admin.create_topic(topic, read_queues=4, write_queues=4, attributes={"message.type": kind})
                settings = SubscriptionGroupConfig(**scenarios.GROUPS.get(name, {}))
                admin.create_group(f"{topic}-g", config=settings)
                admin.create_group(f"{topic}-g-reader")  # of dead letters


@contextmanager
def opened(
    target: str,
    folder: Path,
    *,
    options: Mapping[str, str] | None = None,
    signer: probe.Signer | None = None,
    name_server_options: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = servers.TEST_JVM,
    for_tests: bool = True,
) -> Iterator[Door]:
    """A door that takes calls; ``options`` beside those of all tests, ``signer`` who may administrate."""
    port = free_ports()
    is_before = target.startswith(BEFORE)
    settings = {**(_BROKER if for_tests else {}), **(options or {}), "grpcServerPort": "-1" if is_before else str(port)}
    behind = servers.Servers(
        f"rocketmq-{_VERSION}" if target == PROXY else target.removeprefix(BEFORE),
        folder,
        options=settings,
        name_server_options=name_server_options,
        signer=signer,
        flags=flags,
        broker_side=ProxyServers(_VERSION, flags=flags) if target == PROXY else None,
    )
    address = f"127.0.0.1:{port}"
    proxy: ServerProcess | None = None
    try:
        behind.start()
        if is_before:
            proxy = servers.FlareMQ().proxy(folder, address, behind.name_server, {})
        probe.wait("port of gRPC", lambda: probe.is_open(address), seconds=servers.READY_S)
        yield Door(target, behind, address, signer)
    finally:
        if proxy is not None:
            proxy.kill()
        behind.close()


def why_not(target: str) -> str | None:
    """Why there can be no such door here, or None when there can."""
    if target != PROXY:
        return servers.why_not(target.removeprefix(BEFORE))
    return servers.why_not(f"rocketmq-{_VERSION}") or jvm.why_not(f"proxy-{_VERSION}", "rocketmq-proxy")

"""The brokers of ``flaremq up --replicas N``: child processes of one broker name, which a controller here watches.

A child that ends unasked is started again, as an operating system's service manager would. If it does not even get
ready, again and again, everything stops: a mistake in the settings does not go away by trying.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import click

from flaremq.access.options import AccessOptions
from flaremq.cli.servers.kept_options import SHARED_FILE
from flaremq.cli.servers.serve import PARENT_PIPE
from flaremq.errors import FlareMQError, InvalidArgumentError, UnavailableError
from flaremq.java_json import write_java_json
from flaremq.options import rows
from flaremq.protocol.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.address import format_address, parse_address
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.options import RemotingOptions
from flaremq.secret_place import FROM_ENVIRONMENT, names_a_secret

PORT_STEP: Final = 10  # room for the VIP and HA ports of each
_CONTROLLER_STEP: Final = 2  # from the name server's port; together with its default that gives the controller's
_READY_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 60.0
_SHORT_SECONDS: Final = 5.0  # a life that is shorter did not get anywhere
_SHORT_LIVES_MAX: Final = 3  # in a row
_SECRET: Final = "FLAREMQ_OPTION_"  # and an option's name: the variable by which a child gets a secret


def replica_folder(data: str, number: int) -> str:
    """Where the store of a replica is; they count from 1."""
    return os.path.join(data, f"replica-{number}")


def count_ready(group: ReplicasInfo) -> int:
    """How many are in sync with a master that is there. A controller remembers those of its last life, too."""
    alive = {one.broker_address for one in group.in_sync_replicas if one.alive}
    return len(alive) if group.master_address in alive else 0


def check_folder(data: str, *, replicas: bool) -> None:
    """Refuse to start a lone broker where replicas were, or the other way round: it would look as if all were gone."""
    has_replicas = os.path.isdir(replica_folder(data, 1))
    has_store = os.path.isdir(os.path.join(data, "commitlog"))
    if has_store and replicas:
        raise InvalidArgumentError(f"{data} is the store of one broker without replicas: choose another --data")
    if has_replicas and not replicas:
        raise InvalidArgumentError(f"{data} has the stores of several replicas: start it with --replicas")


def choose_addresses(
    count: int, listen: str, controller_listen: str | None, broker_listen: str
) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    """Of the name server, the controller and the brokers. Children that are started again keep their ports."""
    from flaremq.cli.servers.child import free_broker_ports  # a lone broker asks this module for its folder only

    host, port = parse_address(listen)
    if controller_listen is None:
        controller_listen = format_address(host, port and port + _CONTROLLER_STEP)
    controller_host, controller_port = parse_address(controller_listen)
    broker_host, broker_port = parse_address(broker_listen)
    free = iter(free_broker_ports(2))
    ports = [broker_port + PORT_STEP * number for number in range(count)] if broker_port else free_broker_ports(count)
    return (
        format_address(host, port or next(free)),
        format_address(controller_host, controller_port or next(free)),
        tuple((broker_host, one) for one in ports),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlan:
    """What is the same for all children, and where they are."""

    addresses: tuple[tuple[str, int], ...]  # one a broker
    data: str
    controller: str
    settings: Mapping[str, str]
    config_file: str | None
    log_arguments: Callable[[str], list[str]]  # by the name of a child

    def settings_of(self, number: int) -> dict[str, str]:
        """What one child is told, on top of the file."""
        host, port = self.addresses[number]
        return {
            **self.settings,
            "bindAddress": host,
            "listenPort": str(port),
            "storePathRootDir": replica_folder(self.data, number + 1),
            "enableControllerMode": "true",
            "controllerAddr": self.controller,
        }

    def command(self, number: int) -> list[str]:
        line = [sys.executable, "-m", "flaremq", "broker", *self.log_arguments(f"replica-{number + 1}")]
        if self.config_file is not None:
            line += ["-c", self.config_file]
        for key, value in self.settings_of(number).items():
            line += ["--set", f"{key}={FROM_ENVIRONMENT}{_SECRET + key}" if key in self._secrets else f"{key}={value}"]
        return line

    @property
    def environment(self) -> dict[str, str]:
        """Secrets, which the list of processes must not show."""
        return {_SECRET + key: text for key, text in self._secrets.items()}

    @property
    def _secrets(self) -> dict[str, str]:
        given = {row.key: self.settings.get(row.key, "") for row in rows(AccessOptions) if row.secret}
        return {key: text for key, text in given.items() if text and not names_a_secret(text)}


class ReplicaProcesses:
    """The children. ``start`` returns when all are in sync."""

    def __init__(self, plan: ReplicaPlan, broker_name: str, remoting: RemotingOptions) -> None:
        """``remoting``: of connections to the controller, which may ask for TLS and who we are."""
        self._plan = plan
        self._broker_name = broker_name
        self._remoting = remoting
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._pipe: tuple[int, int] | None = None
        self._group: ReplicasInfo | None = None  # as the controller described it when all were ready

    @property
    def description(self) -> str:
        """Who was master and who followed when all were ready."""
        assert self._group is not None
        master = self._group.master_address
        others = [one.broker_address for one in self._group.in_sync_replicas if one.broker_address != master]
        return (
            f"broker {self._broker_name} with {len(others) + 1} replicas: master {master}, slaves {', '.join(others)}"
        )

    async def start(self) -> None:
        self._pipe = os.pipe()
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep(number)) for number in range(len(self._plan.addresses))]
        try:
            await self._until_ready()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        self._is_stopping = True
        for child in self._children.values():
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        _, late = await asyncio.wait(self._keepers, timeout=_STOP_SECONDS)
        for child in self._children.values() if late else ():
            with suppress(ProcessLookupError):
                child.kill()
        for keeper in late:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    async def _keep(self, number: int) -> None:
        """Run one child, again and again."""
        assert self._pipe is not None
        short_lives = 0
        while not self._is_stopping:
            began = time.monotonic()
            child = await asyncio.create_subprocess_exec(
                *self._plan.command(number),
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us, and we end the children ourselves
                pass_fds=(self._pipe[0],),
                env={**os.environ, **self._plan.environment, PARENT_PIPE: str(self._pipe[0]), SHARED_FILE: "1"},
            )
            self._children[number] = child
            code = await child.wait()
            if self._is_stopping:
                return
            short_lives = short_lives + 1 if time.monotonic() - began < _SHORT_SECONDS else 0
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            if short_lives >= _SHORT_LIVES_MAX and code >= 0:
                raise UnavailableError(f"replica {number + 1} {how}, {short_lives} times in a row")
            click.echo(f"replica {number + 1} {how}: it is started again", err=True)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _until_ready(self) -> None:
        """Wait until the controller counts all of them as in sync."""
        count = len(self._plan.addresses)
        client = RemotingClient(self._remoting)
        deadline = time.monotonic() + _READY_SECONDS
        try:
            while True:
                for keeper in self._keepers:
                    if keeper.done():
                        keeper.result()
                self._group = await self._ask(client)
                known = 0 if self._group is None else count_ready(self._group)
                if known >= count:
                    return
                if time.monotonic() > deadline:
                    raise UnavailableError(f"only {known} of {count} replicas are in sync after {_READY_SECONDS:.0f} s")
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await client.close()

    async def _ask(self, client: RemotingClient) -> ReplicasInfo | None:
        name = self._broker_name
        request = RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=write_java_json([name]))
        try:
            reply = await client.request(self._plan.controller, request)
        except FlareMQError:
            return None
        if reply.code != ResponseCode.SUCCESS:
            return None
        return BrokerReplicasInfo.from_json(reply.body_bytes).replicas_info_table.get(name)

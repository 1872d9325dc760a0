"""``flaremq up``: name server and broker in one process, or a group of brokers with a controller."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from flaremq.cli.parameters import check_log_place, server_options
from flaremq.cli.servers.serve import Server, log_level, log_option, serve, split_listen

if TYPE_CHECKING:
    from flaremq.namesrv.service import NamesrvService


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    default="flaremq-data",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where the store and the configuration are kept.",
)
@click.option(
    "--listen", metavar="ADDR", default="127.0.0.1:9876", show_default=True, help="The name server's address."
)
@click.option(
    "--broker-listen", metavar="ADDR", default="127.0.0.1:10911", show_default=True, help="The broker's address."
)
@click.option(
    "--replicas",
    metavar="N",
    type=click.IntRange(min=1, max=9),
    default=None,
    help="Start N brokers that hold the same messages, and a controller that chooses their master.",
)
@click.option(
    "--controller-listen",
    metavar="ADDR",
    default=None,
    help="The controller's address, with --replicas.  [default: the name server's, port + 2]",
)
@server_options("broker.conf", "flushDiskType=ASYNC_FLUSH")
@log_option
def up(
    data: str,
    listen: str,
    broker_listen: str,
    replicas: int | None,
    controller_listen: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
) -> None:
    """Name server and broker in one process, for development and small installations.

    Ctrl-C stops both; everything is on disk then, and the next start goes on where this one ended.

    With --replicas each broker is a process of its own (ports 10 apart). A message is acknowledged when all that are in
    sync have it; kill the master, and another one goes on. A broker that was killed is started again.
    """
    from flaremq.cli.servers.replicas import check_folder
    from flaremq.options import parse_assignments

    settings = parse_assignments(assignments)
    check_folder(data, replicas=replicas is not None)
    check_log_place(data, config_file, settings)
    if replicas is None:
        if controller_listen is not None:
            raise click.UsageError("--controller-listen needs --replicas")
        _serve_one(data, listen, broker_listen, config_file, settings)
    else:
        _serve_replicas(replicas, data, (listen, controller_listen, broker_listen), config_file, settings)


def _serve_one(data: str, listen: str, broker_listen: str, config_file: str | None, settings: dict[str, str]) -> None:
    from flaremq.broker.options import load_options
    from flaremq.broker.service import BrokerService

    broker_settings = {**split_listen(broker_listen), "namesrvAddr": listen, **settings}
    options, store_options, remoting_options = load_options(config_file, broker_settings)
    namesrv = _name_server(data, listen, _shared(data, config_file, settings))
    broker = BrokerService(data, options, store_options, remoting_options)
    servers: list[Server] = [namesrv, broker]
    serve(
        servers,
        lambda: (
            f"FlareMQ is ready: name server {namesrv.address}, broker {broker.address} "
            f"({store_options.flush_disk_type}), data in {broker.path}"
        ),
    )


def _serve_replicas(
    count: int,
    data: str,
    addresses: tuple[str, str | None, str],
    config_file: str | None,
    settings: dict[str, str],
) -> None:
    """``addresses``: of the name server, the controller, the first broker. Port 0 takes free ones, for good."""
    from flaremq.broker.options import load_options
    from flaremq.cli.servers.broker import check_own_places
    from flaremq.cli.servers.replicas import ReplicaPlan, ReplicaProcesses, choose_addresses
    from flaremq.controller.options import ControllerOptions
    from flaremq.controller.service import ControllerService

    listen, controller_listen, broker_addresses = choose_addresses(count, *addresses)
    plan = ReplicaPlan(
        data=os.path.abspath(data),
        addresses=broker_addresses,
        controller=controller_listen,
        settings={"namesrvAddr": listen, **_places(data), **settings},
        config_file=config_file,
        log_level=log_level(),
    )
    options, store_options, _ = load_options(config_file, plan.settings_of(0))
    check_own_places(store_options, "--replicas")
    shared = _shared(data, config_file, settings)
    namesrv = _name_server(data, listen, shared)
    controller = ControllerService(
        ControllerOptions.load(
            None,
            {
                **split_listen(controller_listen),
                "controllerStorePath": os.path.join(plan.data, "controller"),
                **shared,
            },
        )
    )
    processes = ReplicaProcesses(plan, options.broker_name)
    servers: list[Server] = [namesrv, controller, processes]
    serve(
        servers,
        lambda: (
            f"FlareMQ is ready: name server {namesrv.address}, controller {controller.address}, "
            f"{processes.description} ({store_options.flush_disk_type}), data in {plan.data}"
        ),
    )


def _name_server(data: str, listen: str, shared: dict[str, str]) -> NamesrvService:
    from flaremq.namesrv.options import NamesrvOptions
    from flaremq.namesrv.service import NamesrvService

    kv_path = os.path.join(os.path.abspath(data), "config", "kvConfig.json")
    return NamesrvService(NamesrvOptions.from_properties({"kvConfigPath": kv_path, **split_listen(listen), **shared}))


def _shared(data: str, config_file: str | None, settings: dict[str, str]) -> dict[str, str]:
    """What is told to the broker and counts for the other servers too: their connections, and who may do what."""
    from flaremq.access.options import AccessOptions
    from flaremq.options import load_properties, rows_by_key
    from flaremq.remoting.options import RemotingOptions

    known = {*rows_by_key(RemotingOptions), *rows_by_key(AccessOptions), "insecureBindEnable"}
    given = {**(load_properties(config_file) if config_file is not None else {}), **settings}
    return {**_places(data), **{name: text for name, text in given.items() if name in known}}


def _places(data: str) -> dict[str, str]:
    """Where all servers of one command find accounts."""
    folder = os.path.abspath(data)
    return {"aclHome": folder, "authConfigPath": os.path.join(folder, "config")}

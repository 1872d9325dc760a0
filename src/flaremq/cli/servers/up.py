"""``flaremq up``: name server and broker in one process, or a group of brokers with a controller."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from flaremq.cli.parameters import check_log_place, server_options, wants_tls
from flaremq.cli.servers.dashboard_process import dashboard_beside, dashboard_options, with_dashboard
from flaremq.cli.servers.kept_options import kept_options
from flaremq.cli.servers.logs import log_arguments, log_options
from flaremq.cli.servers.serve import Server, serve, split_listen
from flaremq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flaremq.access.options import AccessOptions
    from flaremq.broker.options import BrokerOptions
    from flaremq.cli.servers.encryption import Encryption
    from flaremq.cli.servers.user_options import UserOptions
    from flaremq.namesrv.service import NamesrvService

_NAME_SERVER: Final = "127.0.0.1:9876"
_BROKER: Final = "127.0.0.1:10911"
_GRPC: Final = "127.0.0.1:8081"
_Addresses = tuple[str | None, str | None, str | None]  # of the name server, the controller, the first broker


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    default="flaremq-data",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where the store and the configuration are kept.",
)
@click.option("--listen", metavar="ADDR", default=None, help=f"The name server's address.  [default: {_NAME_SERVER}]")
@click.option("--broker-listen", metavar="ADDR", default=None, help=f"The broker's address.  [default: {_BROKER}]")
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
@click.option(
    "--tls",
    "is_encrypted",
    is_flag=True,
    help="Encrypt all connections; certificates are made below --data, unless tlsCertPath and tlsKeyPath name yours.",
)
@click.option(
    "--grpc",
    "grpc_listen",
    metavar="[ADDR]",
    is_flag=False,
    flag_value="",
    default=None,
    help=f"Serve clients of RocketMQ 5 at {_GRPC} unless told otherwise, with --replicas by a proxy.",
)
@dashboard_options
@log_options
def up(
    data: str,
    listen: str | None,
    broker_listen: str | None,
    replicas: int | None,
    controller_listen: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    is_encrypted: bool,
    grpc_listen: str | None,
) -> None:
    """Name server and broker in one process, for development and small installations.

    Ctrl-C stops both; everything is on disk then, and the next start goes on where this one ended.

    With --replicas each broker is a process of its own (ports 10 apart). A message is acknowledged when all that are in
    sync have it; kill the master, and another one goes on. A broker that was killed is started again.
    """
    from flaremq.cli.servers.replicas import check_folder
    from flaremq.cli.servers.user_options import UserOptions

    is_encrypted = is_encrypted or wants_tls()
    user = UserOptions.read(data, config_file, assignments)
    check_folder(data, replicas=replicas is not None)
    check_log_place(data, config_file, dict(user.settings))
    if replicas is None:
        if controller_listen is not None:
            raise click.UsageError("--controller-listen needs --replicas")
        _serve_one(_with_grpc(user, grpc_listen, broker_listen), listen, broker_listen, is_encrypted=is_encrypted)
    else:
        addresses = listen, controller_listen, broker_listen
        _serve_replicas(replicas, user, addresses, grpc_listen, is_encrypted=is_encrypted)


def _with_grpc(user: UserOptions, flag: str | None, broker_listen: str | None) -> UserOptions:
    place = user.broker_options(broker_listen, _BROKER, _NAME_SERVER)
    return user.with_grpc(flag, place["bindAddress"])


def _serve_one(user: UserOptions, listen: str | None, broker_listen: str | None, *, is_encrypted: bool) -> None:
    from flaremq.broker.options import load_options
    from flaremq.broker.service import BrokerService
    from flaremq.cli.servers.broker import grpc_part, own_options_path
    from flaremq.cli.servers.user_options import reachable, with_port

    listen = with_port(user.address(listen, _NAME_SERVER))
    options, *_ = load_options(user.config_file, user.broker_options(broker_listen, _BROKER, listen))
    _check_inner(options.access)
    encryption = _encryption(user, [listen], options) if is_encrypted else None
    if encryption is not None:
        user = user.with_options(encryption.options)
    options_file, kept = kept_options(user.config_file, own_options_path(user.data))
    broker_settings = {**kept, **user.broker_options(broker_listen, _BROKER, listen)}
    options, store_options, remoting_options = load_options(user.config_file, broker_settings)
    namesrv = _name_server(user, listen)
    broker = BrokerService(user.data, options, store_options, remoting_options, options_file=options_file)
    beside = dashboard_beside(lambda: reachable(namesrv.address), user.data, user.given, options.access)
    _serve(
        [namesrv, broker, *beside],
        with_dashboard(
            lambda: (
                f"FlareMQ is ready: name server {namesrv.address}, broker {broker.address} "
                f"({store_options.flush_disk_type}){grpc_part(broker)}, data in {broker.path}"
            ),
            beside,
        ),
        encryption,
    )


def _serve_replicas(
    count: int, user: UserOptions, addresses: _Addresses, grpc_listen: str | None, *, is_encrypted: bool
) -> None:
    """Port 0 takes free ones, for good."""
    from flaremq.access.inner import signing
    from flaremq.broker.options import load_options
    from flaremq.cli.servers.broker import check_own_places
    from flaremq.cli.servers.proxy_beside import proxy_beside, without_own_ports
    from flaremq.cli.servers.replicas import ReplicaPlan, ReplicaProcesses, choose_addresses
    from flaremq.cli.servers.user_options import reachable
    from flaremq.controller.options import ControllerOptions
    from flaremq.controller.service import ControllerService
    from flaremq.remoting.address import format_address

    listen = user.address(addresses[0], _NAME_SERVER)
    options, store_options, _ = load_options(user.config_file, user.broker_options(addresses[2], _BROKER, listen))
    check_own_places(store_options, "--replicas")
    _check_inner(options.access)
    controller_listen = None if addresses[1] is None else user.address(addresses[1], _NAME_SERVER)
    first_broker = format_address(options.bind_address, options.listen_port)
    listen, controller_listen, brokers = choose_addresses(count, listen, controller_listen, first_broker)
    encryption = _encryption(user, [listen, controller_listen], options) if is_encrypted else None
    if encryption is not None:
        user = user.with_options(encryption.options)
    plan = ReplicaPlan(
        data=user.data,
        addresses=brokers,
        controller=reachable(controller_listen),
        settings=without_own_ports(user.broker_options(addresses[2], _BROKER, listen)),
        config_file=user.config_file,
        log_arguments=log_arguments,
    )
    load_options(user.config_file, plan.settings_of(0))  # what is wrong is said here, once
    place = {
        **split_listen(controller_listen),
        "advertisedAddress": plan.controller,
        "controllerStorePath": os.path.join(plan.data, "controller"),
    }
    controller_options = ControllerOptions.from_properties({**place, **user.shared})
    namesrv = _name_server(user, listen)
    controller = ControllerService(controller_options)
    remoting = signing(controller_options.remoting, controller_options.access)
    processes = ReplicaProcesses(plan, options.broker_name, remoting)
    proxies = proxy_beside(user, grpc_listen, options, reachable(listen))
    beside = dashboard_beside(lambda: reachable(namesrv.address), plan.data, user.given, options.access)
    _serve(
        [namesrv, controller, processes, *proxies, *beside],
        with_dashboard(
            lambda: (
                f"FlareMQ is ready: name server {namesrv.address}, controller {controller.address}, "
                f"{processes.description} ({store_options.flush_disk_type})"
                f"{''.join(proxy.part for proxy in proxies)}, data in {plan.data}"
            ),
            beside,
        ),
        encryption,
    )


def _check_inner(access: AccessOptions) -> None:
    """Servers that ask who is there would turn each other away."""
    if access.authentication_enabled and not access.inner_client_authentication_credentials:
        raise InvalidArgumentError(
            "authenticationEnabled needs innerClientAuthenticationCredentials: with them a broker signs what it asks "
            "its name server and controller"
        )
    if access.acl_enable and not access.inner_client_authentication_credentials:
        click.echo(
            "warning: aclEnable without innerClientAuthenticationCredentials: a broker signs nothing then, and its "
            "name server knows it only if globalWhiteRemoteAddresses has its address",
            err=True,
        )


def _serve(servers: list[Server], ready: Callable[[], str], encryption: Encryption | None) -> None:
    if encryption is None:
        serve(servers, ready)
    else:
        serve([*encryption.keepers, *servers], ready, encryption.advice)


def _encryption(user: UserOptions, addresses: list[str], options: BrokerOptions) -> Encryption:
    from flaremq.cli.servers.encryption import Encryption
    from flaremq.remoting.address import parse_address

    hosts = [parse_address(address)[0] for address in addresses]
    hosts += [options.bind_address, options.broker_ip1, *filter(None, [options.broker_ip2])]
    return Encryption.of(user.data, user.given, hosts)


def _name_server(user: UserOptions, listen: str) -> NamesrvService:
    from flaremq.namesrv.options import NamesrvOptions
    from flaremq.namesrv.service import NamesrvService

    place = {"kvConfigPath": os.path.join(user.data, "config", "kvConfig.json"), **split_listen(listen)}
    options_file, kept = kept_options(None, os.path.join(user.data, "config", "namesrv.conf"))
    options = NamesrvOptions.from_properties({**kept, **place, **user.shared})
    return NamesrvService(options, options_file=options_file)

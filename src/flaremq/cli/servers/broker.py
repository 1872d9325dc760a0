"""``flaremq broker``: a broker on its own, or several of one cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from flaremq.cli.parameters import check_log_place, server_options
from flaremq.cli.servers.dashboard_process import dashboard_beside, dashboard_options, with_dashboard
from flaremq.cli.servers.kept_options import SHARED_FILE, kept_options
from flaremq.cli.servers.logs import log_arguments, log_options
from flaremq.cli.servers.serve import print_options, print_options_flag, serve, split_listen
from flaremq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flaremq.broker.service import BrokerService
    from flaremq.storage.options import StoreOptions

_PORT_STEP = 10  # room for the VIP and HA ports of each


@click.command()
@click.option(
    "-n",
    "--namesrv",
    "name_servers",
    metavar="ADDR",
    default=None,
    envvar="NAMESRV_ADDR",
    help="Name servers to register at, separated by ';'.  [default: $NAMESRV_ADDR]",
)
@click.option("--data", metavar="DIR", default=None, type=click.Path(file_okay=False), help="Where the store is kept.")
@click.option("--listen", metavar="ADDR", default=None, help="Address to listen at.  [default: 127.0.0.1:10911]")
@server_options("broker.conf", "flushDiskType=ASYNC_FLUSH")
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(min=1, max=64),
    default=1,
    show_default=True,
    help="Start N brokers of one cluster, each with its own store, name and ports (10 apart).",
)
@print_options_flag
@dashboard_options
@log_options
def broker(
    name_servers: str | None,
    data: str | None,
    listen: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    processes: int,
    print_only: bool,
) -> None:
    """A broker: takes, stores and hands out messages.

    Options come from broker.conf (-c), then from the command line.
    """
    from flaremq.broker.options import load_options
    from flaremq.options import parse_assignments

    settings = {**split_listen(listen), **({"namesrvAddr": name_servers} if name_servers else {})}
    if data is not None:
        settings["storePathRootDir"] = os.path.abspath(data)
    settings.update(parse_assignments(assignments))
    folder = load_options(config_file, settings)[1].store_root
    options_file, kept = kept_options(config_file, own_options_path(folder))
    loaded = load_options(config_file, {**kept, **settings})
    if print_only:
        print_options([*loaded, loaded[0].access, loaded[0].metrics, loaded[0].grpc])
        return
    check_log_place(folder, config_file, settings)
    if processes > 1:
        if dashboard_beside(str, folder, {}, loaded[0].access):
            raise click.UsageError("--dashboard goes with one broker: start `flaremq dashboard` beside several")
        check_own_places(loaded[1], "--processes")
        sys.exit(_run_several(processes, config_file, settings, folder, *loaded[:1]))
    from flaremq.broker.service import BrokerService

    server = BrokerService(folder, *loaded, options_file=options_file)
    beside = dashboard_beside(lambda: loaded[0].namesrv_addr, folder, {**kept, **settings}, loaded[0].access)
    if beside and not loaded[0].namesrv_addr:
        raise click.UsageError("--dashboard needs name servers: give -n")
    serve(
        [server, *beside],
        with_dashboard(
            lambda: (
                f"FlareMQ broker {server.options.broker_name} is ready at {server.address} "
                f"({loaded[1].flush_disk_type}{_rank(server)}){grpc_part(server)}, data in {server.path}"
            ),
            beside,
        ),
    )


def grpc_part(server: BrokerService) -> str:
    """What the line of a broker that is ready says about its port of gRPC."""
    return f", gRPC {server.grpc_address}" if server.grpc_address else ""


def own_options_path(store: str) -> str:
    """Where a broker without a broker.conf keeps options that were changed."""
    return os.path.join(store, "config", "broker.conf")


def _rank(server: BrokerService) -> str:
    """What a broker is that is no master; under a controller that comes later."""
    is_plain_slave = not server.role.is_master and not server.options.enable_controller_mode
    return f", slave {server.role.broker_id}" if is_plain_slave else ""


def check_own_places(options: StoreOptions, flag: str) -> None:
    """Every broker needs a commit log of its own: two that write to one destroy it. And a port for slaves."""
    for name, text, what in (
        ("storePathCommitLog", options.store_path_commit_log, "commit log"),
        ("readOnlyCommitLogStorePaths", options.read_only_commit_log_store_paths, "commit log"),
        ("haListenPort", options.ha_listen_port, "port for slaves"),
    ):
        if text:
            raise InvalidArgumentError(
                f"{name}={text} cannot be used with {flag}: each broker needs a {what} of its own, and gets it "
                f"{'next to its listenPort' if name == 'haListenPort' else 'below storePathRootDir'}"
            )


def _run_several(count: int, config_file: str | None, settings: dict[str, str], folder: str, options: Any) -> int:
    """One child process a broker; a signal stops them all, and one that ends unasked ends the others."""
    children = []
    metrics_port = options.metrics.metrics_prom_exporter_port
    for number in range(count):
        name = f"{options.broker_name}-{number}"
        own = settings | {
            "brokerName": name,
            "listenPort": str(options.listen_port and options.listen_port + _PORT_STEP * number),  # 0: any free one
            "metricsPromExporterPort": str(metrics_port and metrics_port + _PORT_STEP * number),
            "storePathRootDir": os.path.join(folder, name),
        }
        line = [sys.executable, "-m", "flaremq", "broker", *log_arguments(name)]
        if config_file is not None:
            line += ["-c", config_file]
        for key, value in own.items():
            line += ["--set", f"{key}={value}"]
        environment = {**os.environ, SHARED_FILE: "1"}
        children.append(subprocess.Popen(line, start_new_session=True, env=environment))
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    worst = 0
    waiting = list(children)
    while waiting:
        pid, status = os.wait()
        child = next((child for child in waiting if child.pid == pid), None)
        if child is None:
            continue
        waiting.remove(child)
        child.returncode = os.waitstatus_to_exitcode(status)
        worst = worst or child.returncode
        if not stopping:
            click.echo(f"a broker ended with code {child.returncode}; stopping the others", err=True)
            stop()
            worst = worst or 1
    return worst

"""``flaremq proxy``: the port of gRPC before a cluster."""

from __future__ import annotations

import click

from flaremq.cli.parameters import server_options
from flaremq.cli.servers.logs import log_options
from flaremq.cli.servers.serve import print_options, print_options_flag, serve


@click.command()
@click.option("-n", "--namesrv", "name_servers", metavar="ADDR", default=None, help="Name servers, separated by ';'.")
@click.option("--listen", metavar="ADDR", default=None, help="Address to listen at.  [default: 127.0.0.1:8081]")
@server_options("proxy.conf", "grpcClientsMax=1000")
@print_options_flag
@log_options
def proxy(
    name_servers: str | None,
    listen: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    print_only: bool,
) -> None:
    """A proxy: serves clients of RocketMQ 5, which speak gRPC, before brokers that do not, ours or RocketMQ's."""
    from flaremq.options import parse_assignments
    from flaremq.proxy.options import ProxyOptions
    from flaremq.proxy.service import ProxyService
    from flaremq.remoting.address import parse_address

    settings = dict(parse_assignments(assignments))
    if name_servers is not None:
        settings["namesrvAddr"] = name_servers
    if listen is not None:
        host, port = parse_address(listen)
        settings |= {"bindAddress": host, "grpcServerPort": str(port)}
    options = ProxyOptions.load(config_file, settings)
    if print_only:
        print_options(options.layers)
        return
    server = ProxyService(options)
    serve([server], lambda: f"FlareMQ proxy is ready at {server.address}")

"""``flaremq up``: name server and broker in one process."""

from __future__ import annotations

import click

from flaremq.cli.parameters import check_log_place, server_options
from flaremq.cli.servers.serve import Server, log_option, serve, split_listen


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
@server_options("broker.conf", "flushDiskType=ASYNC_FLUSH")
@log_option
def up(data: str, listen: str, broker_listen: str, config_file: str | None, assignments: tuple[str, ...]) -> None:
    """Name server and broker in one process, for development and small installations.

    Ctrl-C stops both; everything is on disk then, and the next start goes on where this one ended.
    """
    import os

    from flaremq.broker.options import load_options
    from flaremq.broker.service import BrokerService
    from flaremq.namesrv.options import NamesrvOptions
    from flaremq.namesrv.service import NamesrvService
    from flaremq.options import parse_assignments

    settings = parse_assignments(assignments)
    broker_settings = {**split_listen(broker_listen), "namesrvAddr": listen, **settings}
    options, store_options, remoting_options = load_options(config_file, broker_settings)
    check_log_place(data, config_file, settings)
    insecure = {"insecureBindEnable": "true"} if options.insecure_bind_enable else {}
    kv_path = os.path.join(os.path.abspath(data), "config", "kvConfig.json")
    namesrv_options = NamesrvOptions.from_properties({"kvConfigPath": kv_path, **split_listen(listen), **insecure})
    namesrv = NamesrvService(namesrv_options)
    broker = BrokerService(data, options, store_options, remoting_options)
    servers: list[Server] = [namesrv, broker]
    serve(
        servers,
        lambda: (
            f"FlareMQ is ready: name server {namesrv.address}, broker {broker.address} "
            f"({store_options.flush_disk_type}), data in {broker.path}"
        ),
    )

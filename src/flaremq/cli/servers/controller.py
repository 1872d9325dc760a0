"""``flaremq controller``: decides which broker of a name is master."""

from __future__ import annotations

import os

import click

from flaremq.cli.parameters import server_options
from flaremq.cli.servers.kept_options import kept_options
from flaremq.cli.servers.logs import log_options
from flaremq.cli.servers.serve import print_options, print_options_flag, serve, split_listen


@click.command()
@click.option("--listen", metavar="ADDR", default=None, help="Address to listen at.  [default: 127.0.0.1:9878]")
@click.option("--data", metavar="DIR", type=click.Path(file_okay=False), help="Keep the state in this folder.")
@click.option(
    "--etcd",
    metavar="URL[,URL]",
    help="Keep the state in etcd; several controllers may share it, and one of them leads.",
)
@server_options("controller.conf", "enableElectUncleanMaster=false")
@print_options_flag
@log_options
def controller(
    listen: str | None,
    data: str | None,
    etcd: str | None,
    config_file: str | None,
    assignments: tuple[str, ...],
    print_only: bool,
) -> None:
    """A controller: decides which broker of a name is master, and who may take over from it.

    Brokers with enableControllerMode=true and controllerAddr find it, RocketMQ's own of 5.x as well.
    """
    from flaremq.controller.options import ControllerOptions
    from flaremq.controller.service import ControllerService
    from flaremq.options import parse_assignments

    if data is not None and etcd is not None:
        raise click.UsageError("--data and --etcd exclude each other")
    place = {"controllerStorePath": data, "etcdEndpoints": etcd}
    named = {key: text for key, text in place.items() if text is not None}
    settings = {**split_listen(listen), **named, **parse_assignments(assignments)}
    home = ControllerOptions.load(config_file, settings).store_folder
    options_file, changed = kept_options(config_file, os.path.join(home, "controller.conf"))
    options = ControllerOptions.load(config_file, {**changed, **settings})
    if print_only:
        print_options([options, options.remoting, options.access, options.metrics])
        return
    if not options.etcd_endpoints and not options.controller_store_path:
        raise click.UsageError("say where to keep the state: --data DIR or --etcd URL")
    server = ControllerService(options, options_file=options_file)
    kept = f"etcd {options.etcd_endpoints}" if options.etcd_endpoints else options.store_folder
    serve([server], lambda: f"FlareMQ controller is ready at {server.address}, state in {kept}")

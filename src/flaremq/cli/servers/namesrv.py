"""``flaremq namesrv``: a name server on its own."""

from __future__ import annotations

import os

import click

from flaremq.cli.parameters import server_options
from flaremq.cli.servers.kept_options import kept_options
from flaremq.cli.servers.logs import log_options
from flaremq.cli.servers.serve import print_options, print_options_flag, serve, split_listen


@click.command()
@click.option("--listen", metavar="ADDR", default=None, help="Address to listen at.  [default: 127.0.0.1:9876]")
@server_options("namesrv.conf", "orderMessageEnable=true")
@print_options_flag
@log_options
def namesrv(listen: str | None, config_file: str | None, assignments: tuple[str, ...], print_only: bool) -> None:
    """A name server: knows which broker has which topics, and tells clients."""
    from flaremq.namesrv.options import NamesrvOptions
    from flaremq.namesrv.service import NamesrvService
    from flaremq.options import parse_assignments

    settings = {**split_listen(listen), **parse_assignments(assignments)}
    home = os.path.dirname(NamesrvOptions.load(config_file, settings).kv_config_file)
    options_file, kept = kept_options(config_file, os.path.join(home, "namesrv.conf"))
    options = NamesrvOptions.load(config_file, {**kept, **settings})
    if print_only:
        print_options([options, options.remoting, options.access, options.metrics])
        return
    server = NamesrvService(options, options_file=options_file)
    serve([server], lambda: f"FlareMQ name server is ready at {server.address}")

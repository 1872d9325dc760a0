"""``flaremq dashboard``: web pages about a cluster."""

from __future__ import annotations

import click

from flaremq.cli.admin.administration import name_server_option
from flaremq.cli.servers.logs import log_options
from flaremq.cli.servers.serve import serve

LISTEN_DEFAULT = "127.0.0.1:8082"
TOKEN_HELP = "A file with the token, mode 0600: who signs in with it may change things. Without it nobody can."


@click.command()
@name_server_option
@click.option("--listen", metavar="ADDR", default=LISTEN_DEFAULT, show_default=True, help="Where browsers find it.")
@click.option("--token-file", metavar="FILE", type=click.Path(dir_okay=False), help=TOKEN_HELP)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A host name to answer to besides that of ADDR, as behind a proxy (repeatable).",
)
@click.option(
    "--audit",
    "audit_folder",
    metavar="DIR",
    default=".",
    type=click.Path(file_okay=False),
    help="Where dashboard-audit.log is written.  [default: the current folder]",
)
@click.option(
    "--archive",
    "archives",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False),
    help="An archive made by `pipeline archive`, to tell of (repeatable).",
)
@click.option(
    "--table",
    "tables",
    metavar="TABLE",
    multiple=True,
    help="A table made by `pipeline table`, as its --to named it, to tell of (repeatable).",
)
@click.option(
    "--warehouse",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The folder of the embedded Iceberg catalog.  [default: ./CATALOG]",
)
@click.option(
    "--downloads/--no-downloads", "has_downloads", default=True, help="Whether bodies and lists can be saved."
)
@click.option("--insecure", is_flag=True, help="Let other machines look without signing in.")
@log_options
def dashboard(
    name_servers: str,
    listen: str,
    token_file: str | None,
    hosts: tuple[str, ...],
    audit_folder: str,
    archives: tuple[str, ...],
    tables: tuple[str, ...],
    warehouse: str | None,
    has_downloads: bool,
    insecure: bool,
) -> None:
    """Web pages about a cluster, ours or Java's: brokers, topics, groups, messages, as they change.

    Nothing can be changed unless --token-file is given. Where the cluster has access control, pages are shown to those
    who sign in with an account of it.
    """
    from flaremq.cli.admin.credentials import client_options
    from flaremq.client.options import ClientOptions
    from flaremq.dashboard.options import DashboardOptions
    from flaremq.dashboard.service import DashboardService

    service = DashboardService(
        DashboardOptions(
            name_servers=name_servers,
            listen=listen,
            token_file=token_file,
            allowed_hosts=hosts,
            audit_folder=audit_folder,
            archives=archives,
            tables=tables,
            warehouse=warehouse,
            is_download_allowed=has_downloads,
            is_insecure=insecure,
            client=client_options(ClientOptions),
        )
    )
    serve([service], lambda: f"FlareMQ dashboard is ready at {service.url}")

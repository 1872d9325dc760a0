"""``flaremq``: the front door. Finds the command, runs it, turns what went wrong into one sentence and a
code.

Commands are imported when they are called: ``--help`` of any of them must answer at once, so nothing here
or at the top of a command module may import more than ``click`` and the light parts of the package. Help
texts of the groups stand in the table below for the same reason.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from flaremq.cli import failure
from flaremq.cli.admin.credentials import credential_parameters
from flaremq.cli.groups import LazyGroup

# command -> (where it lives, one line for the overview), in the order the overview has
COMMANDS = {
    "up": ("flaremq.cli.servers.up:up", "Start name server and broker in one process."),
    "namesrv": ("flaremq.cli.servers.namesrv:namesrv", "Start a name server."),
    "broker": ("flaremq.cli.servers.broker:broker", "Start a broker, or several of one cluster."),
    "controller": ("flaremq.cli.servers.controller:controller", "Start a controller: elects masters of brokers."),
    "proxy": ("flaremq.cli.servers.proxy:proxy", "Start a proxy: gRPC for clients of RocketMQ 5."),
    "dashboard": ("flaremq.cli.dashboard.command:dashboard", "Web pages about a cluster, as it changes."),
    "topic": ("flaremq.cli.admin.topic:topic", "Topics: list, create, delete, status, route."),
    "group": ("flaremq.cli.admin.group:group", "Groups: list, create, delete, progress, connections, reset."),
    "message": ("flaremq.cli.admin.message:message", "Messages: send, tail, print, query, get, dead-letters, resend."),
    "cluster": ("flaremq.cli.admin.cluster:cluster", "Brokers of a cluster: list, status."),
    "config": ("flaremq.cli.admin.config:config", "Options of running servers: get, set, diff."),
    "user": ("flaremq.cli.admin.access:user", "Users of brokers: list, create, update, delete."),
    "acl": ("flaremq.cli.admin.access:acl", "What users may do: list, set, delete."),
    "mqadmin": ("flaremq.cli.mqadmin.command:mqadmin", "All that in RocketMQ's own spelling, as in mqadmin topicList."),
    "store": ("flaremq.cli.store.commands:store", "Look into a store directory, check it, repair it."),
    "sql": ("flaremq.cli.pipeline.asking:sql", "SQL over messages, queues, groups and index, without Spark."),
    "pipeline": (
        "flaremq.cli.pipeline.commands:pipeline",
        "Spark jobs: archive, replay, rebuild, verify, report, sql.",
    ),
    "bench": (
        "flaremq.cli.bench.commands:bench",
        "Measure this machine: put, get, query, recover, send, consume, spark.",
    ),
    "demo": ("flaremq.cli.demo.demo:demo", "The whole product in one go."),
    "completion": ("flaremq.cli.completion:completion", "What bash, zsh or fish needs to complete our commands."),
}


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from flaremq import __version__, interpreted

        why = interpreted.reason()
        click.echo(f"flaremq {__version__} (core {'compiled' if why is None else f'interpreted: {why}'})")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    elsewhere=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def flaremq() -> None:
    """RocketMQ in Python: the same protocol on the wire, the same files on disk.

    Commands that talk to a cluster take --access-key and the options beside it, too. FLAREMQ_ACCESS_KEY and
    FLAREMQ_SECRET_KEY do the same, and so does conf/tools.yml of $ROCKETMQ_HOME.

    Exit codes: 0 done, 1 the check found something or the work failed, 2 wrong usage or bad option, 3 not
    reachable or refused, 4 the store is damaged.
    """


flaremq.params += credential_parameters(hidden=False)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. Nothing but a requested traceback gets past here."""
    failure.want_traceback(False)
    try:
        outcome: Any = flaremq.main(
            args=None if arguments is None else list(arguments), prog_name="flaremq", standalone_mode=False
        )
        sys.stdout.flush()
    except BaseException as error:
        return failure.report(error)
    return outcome if isinstance(outcome, int) else failure.DONE


def main() -> None:
    """The console script."""
    sys.exit(run())

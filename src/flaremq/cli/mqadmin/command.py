"""``flaremq mqadmin``: RocketMQ's own commands, for those who have them in their fingers and in their scripts.

Each command takes RocketMQ's flags and prints what RocketMQ 5's tool prints, column for column. What goes wrong is said
in one sentence with an exit code, as everywhere here, where the original prints a Java stack.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any, NoReturn

import click

from flaremq.cli.admin.administration import DEFAULT_NAME_SERVER, NAME_SERVER_HELP, administer
from flaremq.cli.admin.credentials import credential_parameters
from flaremq.cli.groups import LazyGroup
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.mqadmin.table import ABSENT, COMMANDS, AdminCommand, Flag

_NAMES = {name.lower(): name for name in COMMANDS}
_OVERVIEW = {name: ("", row.summary) for name, row in COMMANDS.items()}  # built from its row, not imported


class _MqadminGroup(LazyGroup):
    """Builds a command from its row. Names may be written in any case, as in the original."""

    def find_command(self, name: str) -> click.Command | None:
        known = _NAMES.get(name.lower())
        return self.commands.get(name) if known is None else _build(known, COMMANDS[known])

    def refuse(self, ctx: click.Context, name: str) -> NoReturn:
        """With the reason why it is not there, or the nearest names."""
        reason = next((text for known, text in ABSENT.items() if known.lower() == name.lower()), None)
        if reason is not None:
            raise click.UsageError(f"flaremq mqadmin has no {name}: {reason}. See flaremq mqadmin --help.")
        import difflib

        close = [_NAMES[match] for match in difflib.get_close_matches(name.lower(), _NAMES, n=3)]
        hint = f"did you mean {' or '.join(close)}?" if close else "see flaremq mqadmin --help."
        raise click.UsageError(f"flaremq mqadmin has no command {name!r}; {hint}")


def _build(name: str, row: AdminCommand) -> click.Command:
    def run(name_servers: str, **values: Any) -> Any:
        args = Arguments(click.get_current_context(), values)
        if row.one_of and all(values[flag] is None for flag in row.one_of):
            flags = [f"-{flag.short} {flag.long}" for flag in row.flags if flag.long in row.one_of]
            args.refuse(f"Give {' or '.join(flags)}.")
        module, _, function = row.place.partition(":")
        work = getattr(importlib.import_module(f"flaremq.cli.mqadmin.{module}"), function)
        if inspect.iscoroutinefunction(work):
            return administer(name_servers, lambda admin: work(admin, args))
        return work(name_servers, args)  # it decides itself whether it needs the client

    command = click.Command(name, params=[_option(flag) for flag in row.flags], callback=run, help=row.summary)
    command.params.append(
        click.Option(
            ["name_servers", "-n", "--namesrvAddr", "--namesrv"],
            metavar="ADDR",
            envvar="NAMESRV_ADDR",
            default=DEFAULT_NAME_SERVER,
            help=NAME_SERVER_HELP,
        )
    )
    command.params += credential_parameters(hidden=True)
    return command


def _option(flag: Flag) -> click.Option:
    names = [flag.long, f"--{flag.long}", *([f"-{flag.short}"] if flag.short else [])]
    if flag.long == "showSecrets":
        names.append("--show-secrets")  # ours, so it is spelled our way too
    if flag.has_value:
        return click.Option(names, help=flag.help, required=flag.is_required, metavar="ARG")
    return click.Option(names, help=flag.help, is_flag=True, default=None)


@click.group(name="mqadmin", cls=_MqadminGroup, elsewhere=_OVERVIEW)
def mqadmin() -> None:
    """RocketMQ's own commands: the same names, the same flags, the same columns.

    `flaremq mqadmin help COMMAND` explains one. Newer spellings of the most used ones are in flaremq topic, group,
    message, cluster and config.
    """


@mqadmin.command(name="help")
@click.argument("name", metavar="[COMMAND]", required=False)
@click.pass_context
def help_(context: click.Context, name: str | None) -> None:
    """Explain a command and its flags."""
    parent = context.parent
    assert parent is not None
    if name is None:
        click.echo(parent.get_help())
        return
    command = mqadmin.get_command(parent, name)
    if command is None:
        mqadmin.refuse(parent, name)
    with click.Context(command, info_name=command.name, parent=parent) as own:
        click.echo(command.get_help(own))

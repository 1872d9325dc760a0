"""The one kind of command group: it imports a command only to run it or to show its help, and gives it ``--debug``.

``--help`` must answer at once, so the overview of a group is made of what stands in its table and its own module.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from flaremq.cli import failure


def _want_traceback(_: click.Context, __: click.Parameter, wanted: bool) -> None:
    if wanted:
        failure.want_traceback()


_DEBUG = click.Option(
    ["--debug"],
    is_flag=True,
    expose_value=False,
    callback=_want_traceback,
    help="Show a traceback when something fails.",
)


class LazyGroup(click.Group):
    """A group of commands defined in its own module (``@group.command``) and in others.

    ``elsewhere`` maps the name of a command in another module to its place and its line in the overview:
    ``{"tail": ("flaremq.cli.admin.message_read:tail", "Messages as they come in, until Ctrl-C.")}``.
    """

    def __init__(
        self, *arguments: Any, elsewhere: Mapping[str, tuple[str, str]] | None = None, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self._elsewhere = dict(elsewhere or {})
        self.params.append(_DEBUG)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """By name; a group with no command of its own keeps the order of its table."""
        return sorted([*self.commands, *self._elsewhere]) if self.commands else list(self._elsewhere)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self.find_command(cmd_name)
        if command is not None and _DEBUG not in command.params:
            command.params.append(_DEBUG)
        return command

    def find_command(self, name: str) -> click.Command | None:
        if name not in self._elsewhere:
            return self.commands.get(name)
        module, _, attribute = self._elsewhere[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._overview_line(name, width)) for name in names])

    def _overview_line(self, name: str, width: int) -> str:
        return self._elsewhere[name][1] if name in self._elsewhere else self.commands[name].get_short_help_str(width)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            self.refuse(ctx, args[0])
        return super().resolve_command(ctx, args)

    def refuse(self, ctx: click.Context, name: str) -> NoReturn:
        """Answer an unknown command with the nearest one."""
        import difflib

        close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"see {ctx.command_path} --help."
        raise click.UsageError(f"{ctx.command_path} has no command {name!r}; {hint}", ctx)


def refuse_options_before(ctx: click.Context) -> None:
    """For a group that is a command too: what stands before the name of a command of it would do nothing."""
    for parameter in ctx.command.params:
        if parameter.name and ctx.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[0]} stands before {ctx.invoked_subcommand!r} and would do nothing; put it behind", ctx
            )

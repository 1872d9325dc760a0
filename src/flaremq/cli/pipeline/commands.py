"""``flaremq pipeline``: the Spark jobs. Commands that have much to say live in modules of their own."""

from __future__ import annotations

import importlib

import click

from flaremq.cli import failure
from flaremq.cli.parameters import debug_option

# command -> (module, one line for the overview), in the order the overview has
COMMANDS = {
    "archive": ("flaremq.cli.pipeline.archive:archive", "The log as Parquet files, incrementally."),
    "replay": ("flaremq.cli.pipeline.replay:replay", "Messages of a store or archive to a topic, once each."),
    "rebuild": ("flaremq.cli.pipeline.proof:rebuild", "Queues and index from the log alone."),
    "verify": ("flaremq.cli.pipeline.proof:verify", "Check everything, and certify it."),
    "report": ("flaremq.cli.pipeline.ask:report", "Traffic, sizes, latency, lag, capacity as an HTML page."),
    "sql": ("flaremq.cli.pipeline.ask:sql", "Spark SQL over messages, queues, groups and index."),
    "package": ("flaremq.cli.pipeline.package:package", "A zip of FlareMQ for --py-files."),
}


class _PipelineGroup(click.Group):
    """Imports a command only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(failure.unknown_command("flaremq pipeline", args[0], COMMANDS), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_PipelineGroup)
@debug_option
def pipeline() -> None:
    """Spark jobs over a store, a cluster or an archive.

    On this machine by default (--master local[*]); any Spark master will do.
    """

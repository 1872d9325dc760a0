"""What the commands that give orders to a cluster share: its address, the admin client, times, short answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flaremq.cli import failure
from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    from flaremq.cli.admin_tool import AdminTool

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
DEFAULT_NAME_SERVER = "127.0.0.1:9876"


def name_server_option(command: F) -> F:
    """``-n``."""
    return click.option(
        "-n",
        "--namesrv",
        "name_servers",
        metavar="ADDR",
        envvar="NAMESRV_ADDR",
        default=DEFAULT_NAME_SERVER,
        help=f"Name servers, separated by ';'.  [default: $NAMESRV_ADDR or {DEFAULT_NAME_SERVER}]",
    )(command)


def place_options(command: F) -> F:
    """``--cluster`` and ``--broker``: whom an order is for, all brokers if neither is given."""
    command = click.option("--broker", metavar="NAME", help="Only this broker, by name or address.")(command)
    return click.option("--cluster", metavar="NAME", help="Only the brokers of this cluster.")(command)


def administer(name_servers: str, work: Callable[[AdminTool], Awaitable[T]]) -> T:
    """Run something with an admin client."""
    import asyncio

    from flaremq.cli.admin_tool import AdminTool

    async def run() -> T:
        async with AdminTool(name_servers) as admin:
            return await work(admin)

    with hinted(name_servers):
        return asyncio.run(run())


def administer_in_parts(name_servers: str, work: Callable[[AdminTool], AsyncGenerator[T, None]]) -> Iterator[T]:
    """What something with an admin client yields, as soon as it does; between two parts its event loop rests."""
    import asyncio

    from flaremq.cli.admin_tool import AdminTool

    with hinted(name_servers), asyncio.Runner() as runner:
        admin = AdminTool(name_servers)
        runner.run(admin.start())
        parts = work(admin)
        try:
            while True:
                try:
                    part = runner.run(_next(parts))
                except StopAsyncIteration:
                    return
                yield part
        finally:
            runner.run(parts.aclose())
            runner.run(admin.close())


async def _next(parts: AsyncGenerator[T, None]) -> T:
    return await anext(parts)


@contextlib.contextmanager
def hinted(name_servers: str) -> Iterator[None]:
    """Says what to do next where no name server answers."""
    from flaremq.cli.wire import HINT

    try:
        yield
    except UnavailableError as error:
        if str(error).startswith("no name server can be reached"):
            raise UnavailableError(f"no name server can be reached at {name_servers}: {HINT}") from error
        raise


def answer(sentence: str, record: Mapping[str, Any], output: str | None) -> None:
    """What an order did: a sentence on a terminal, a record in a pipe."""
    from flaremq.cli import output as out

    chosen = out.chosen(output, in_pipe=out.JSON)
    if chosen == out.TABLE:
        click.echo(sentence)
    elif chosen == out.JSONL:
        out.print_rows([record], out.JSONL)
    else:
        out.print_json(record)


class NounGroup(click.Group):
    """A group that answers a misspelt verb with the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(failure.unknown_command(ctx.command_path, args[0], known), ctx)
        return super().resolve_command(ctx, args)


def with_times(rows: Iterable[Mapping[str, Any]], output: str, *names: str) -> list[Mapping[str, Any]]:
    """Rows whose times (milliseconds since 1970) are readable in a table; programs get the numbers."""
    from flaremq.cli import output as out
    from flaremq.cli.times import local_text

    if output != out.TABLE:
        return list(rows)
    return [{**row, **{name: local_text(row[name]) for name in names if name in row}} for row in rows]

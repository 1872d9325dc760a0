"""What the commands that give orders to a cluster share: its address, the admin client, times, short answers."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flaremq.cli import failure
from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.producer.producer import Producer

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
DEFAULT_NAME_SERVER = "127.0.0.1:9876"
NAME_SERVER_HELP = f"Name servers, separated by ';'.  [default: $NAMESRV_ADDR or {DEFAULT_NAME_SERVER}]"


def name_server_option(command: F) -> F:
    """``-n``."""
    return click.option(
        "-n",
        "--namesrv",
        "name_servers",
        metavar="ADDR",
        envvar="NAMESRV_ADDR",
        default=DEFAULT_NAME_SERVER,
        help=NAME_SERVER_HELP,
    )(command)


def topic_argument(command: F) -> F:
    """``TOPIC``, which a shell can complete."""
    return click.argument("topic", metavar="TOPIC", shell_complete=_complete_topic)(command)


def _complete_topic(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from flaremq.cli.completion import complete_topic  # only when a shell asks

    return complete_topic(context, parameter, incomplete)


def place_options(command: F) -> F:
    """``--cluster`` and ``--broker``: whom an order is for, all brokers if neither is given."""
    command = click.option("--broker", metavar="NAME", help="Only this broker, by name or address.")(command)
    return click.option("--cluster", metavar="NAME", help="Only the brokers of this cluster.")(command)


def administer(name_servers: str, work: Callable[[AdminTool], Awaitable[T]]) -> T:
    """Run something with an admin client."""
    import asyncio

    from flaremq.cli.admin.admin_tool import AdminTool

    async def run() -> T:
        async with AdminTool(name_servers) as admin:
            return await work(admin)

    with hinted(name_servers):
        return asyncio.run(run())


def administer_in_parts(name_servers: str, work: Callable[[AdminTool], AsyncGenerator[T, None]]) -> Iterator[T]:
    """What something with an admin client yields, as soon as it does; between two parts its event loop rests."""
    import asyncio

    from flaremq.cli.admin.admin_tool import AdminTool

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
    from flaremq.cli.admin.wire import HINT

    try:
        yield
    except UnavailableError as error:
        if str(error).startswith("no name server can be reached"):
            raise UnavailableError(f"no name server can be reached at {name_servers}: {HINT}") from error
        raise


def producer_of(name_servers: str | Sequence[str], *, auto_batch: bool = True) -> Producer:
    """A producer for one command: a broker that is away is an error now, not in a minute."""
    from flaremq.client.options import ProducerOptions
    from flaremq.client.producer.producer import Producer

    return Producer(name_servers, options=ProducerOptions(send_deadline=0, auto_batch=auto_batch))


def answer(sentence: str, record: Mapping[str, Any], output: str | None) -> None:
    """What an order did: a sentence on a terminal, a record in a pipe."""
    from flaremq.cli import output as out

    chosen = out.chosen(output, in_pipe=out.JSON)
    if chosen == out.TABLE:
        out.say(sentence)
    elif chosen == out.JSONL:
        out.print_rows([record], out.JSONL)
    else:
        out.print_json(record)


class NounGroup(click.Group):
    """A group that answers a misspelt verb with the nearest one, and fetches some verbs from other modules.

    ``elsewhere`` tells where those live: ``{"tail": "flaremq.cli.admin.message_read:tail"}``.
    """

    def __init__(self, *arguments: Any, elsewhere: Mapping[str, str] | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._elsewhere = dict(elsewhere or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self._elsewhere])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._elsewhere:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._elsewhere[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(failure.unknown_command(ctx.command_path, args[0], known), ctx)
        return super().resolve_command(ctx, args)


def for_people(
    rows: Iterable[Mapping[str, Any]],
    output: str,
    names: Mapping[str, str],
    *,
    times: Collection[str] = (),
) -> Iterator[Mapping[str, Any]]:
    """Rows for a table: the fields of ``names`` under those names, times readable. Programs get them as they are."""
    from flaremq.cli import output as out
    from flaremq.cli.times import local_text

    for row in rows:
        if output != out.TABLE:
            yield row
        else:
            yield {
                shown: local_text(row[name]) if name in times else _joined(row[name]) for name, shown in names.items()
            }


def _joined(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value

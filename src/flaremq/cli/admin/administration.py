"""What the commands of this room share: the address of a cluster, the admin client, short answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flaremq.cli import output as out
from flaremq.cli.admin.credentials import client_options, credential_options
from flaremq.cli.admin.names import complete_topic
from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.producer.producer import Producer

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
DEFAULT_NAME_SERVER = "127.0.0.1:9876"
NAME_SERVER_HELP = f"Name servers, separated by ';'.  [default: $NAMESRV_ADDR or {DEFAULT_NAME_SERVER}]"


def name_server_option(command: F) -> F:
    """``-n``, and who asks."""
    return credential_options(
        click.option(
            "-n",
            "--namesrv",
            "name_servers",
            metavar="ADDR",
            envvar="NAMESRV_ADDR",
            default=DEFAULT_NAME_SERVER,
            help=NAME_SERVER_HELP,
        )(command)
    )


def topic_argument(command: F) -> F:
    """``TOPIC``, which a shell can complete."""
    return click.argument("topic", metavar="TOPIC", shell_complete=complete_topic)(command)


def place_options(command: F) -> F:
    """``--cluster`` and ``--broker``: the brokers a command is for, all if neither is given."""
    command = click.option("--broker", metavar="NAME", help="Only this broker, by name or address.")(command)
    return click.option("--cluster", metavar="NAME", help="Only the brokers of this cluster.")(command)


def administer(name_servers: str, work: Callable[[AdminTool], Awaitable[T]]) -> T:
    """Run something with an admin client."""
    import asyncio

    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.options import ClientOptions

    options = client_options(ClientOptions)

    async def run() -> T:
        async with AdminTool(name_servers, options=options) as admin:
            return await work(admin)

    with hinted(name_servers):
        return asyncio.run(run())


def administer_in_parts(name_servers: str, work: Callable[[AdminTool], AsyncGenerator[T, None]]) -> Iterator[T]:
    """What something with an admin client yields, as soon as it does; between two parts its event loop rests."""
    import asyncio

    from flaremq.cli.admin.admin_tool import AdminTool
    from flaremq.client.options import ClientOptions

    with hinted(name_servers), asyncio.Runner() as runner:
        admin = AdminTool(name_servers, options=client_options(ClientOptions))
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
    """Adds what to do next to the error that no name server answers."""
    from flaremq.cli.admin.name_server import HINT

    try:
        yield
    except UnavailableError as error:
        if str(error).startswith("no name server can be reached"):
            raise UnavailableError(f"{error}: {HINT}") from error
        raise


def producer_of(name_servers: str | Sequence[str], *, auto_batch: bool = True) -> Producer:
    """A producer for one command: a broker that is away is an error now, not in a minute."""
    from flaremq.client.options import ProducerOptions
    from flaremq.client.producer.producer import Producer

    return Producer(name_servers, options=client_options(ProducerOptions, send_deadline=0, auto_batch=auto_batch))


def answer(sentence: str, record: Mapping[str, Any], output: str | None) -> None:
    """What an order did: a sentence on a terminal, a record in a pipe."""
    out.print_object(record, output, lambda: out.echo(sentence))

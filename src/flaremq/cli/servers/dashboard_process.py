"""The dashboard of ``flaremq up --dashboard`` and ``flaremq broker --dashboard``: a process of its own.

What pages cost, however many are open, the broker does not pay: it answers one sampler, over the wire, as it would
answer that of ``flaremq dashboard``. Where servers ask who one is it signs as whom the command line or the environment
names, else as the servers themselves do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from flaremq.cli.parameters import GIVEN
from flaremq.cli.servers.logs import log_arguments
from flaremq.cli.servers.serve import PARENT_PIPE
from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    import asyncio

    from flaremq.access.options import AccessOptions

F = TypeVar("F", bound=Callable[..., Any])
_META: Final = "flaremq.dashboard"  # key in click's context
_LISTEN: Final = "127.0.0.1:8082"
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_READY: Final = "is ready at "
_WHO: Final = ("access_key", "secret_key", "secret_key_file", "tools_yml")  # none of them is a secret
_ACCESS_KEY_VARIABLE: Final = "FLAREMQ_ACCESS_KEY"
_SECRET_KEY_VARIABLE: Final = "FLAREMQ_SECRET_KEY"


def dashboard_options(command: F) -> F:
    """``--dashboard [ADDR]`` and ``--dashboard-token FILE``."""

    def keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            context.meta.setdefault(_META, {})[parameter.name] = value

    token = click.option(
        "--dashboard-token",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        expose_value=False,
        callback=keep,
        help="A file with the dashboard's token, mode 0600: who signs in with it may change things.",
    )
    listen = click.option(
        "--dashboard",
        metavar="[ADDR]",
        is_flag=False,
        flag_value=_LISTEN,
        default=None,
        expose_value=False,
        callback=keep,
        help=f"Start the dashboard beside it, at {_LISTEN} unless told otherwise.",
    )
    return listen(token(command))


class DashboardProcess:
    """``start`` returns when it answers."""

    def __init__(
        self,
        name_servers: Callable[[], str],
        given: Mapping[str, str],
        *,
        audit_folder: str,
        trust_path: str | None,
        account: Mapping[str, str],
    ) -> None:
        """``account``: environment variables that say who it is."""
        self._name_servers = name_servers
        self._given = given
        self._audit_folder = audit_folder
        self._trust_path = trust_path
        self._account = account
        self._logs = log_arguments("dashboard")
        self._child: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.url = ""

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "flaremq", "dashboard", "-n", self._name_servers()]
        command += ["--listen", self._given["dashboard"], "--audit", self._audit_folder, *self._logs]
        if "dashboard_token" in self._given:
            command += ["--token-file", os.path.abspath(self._given["dashboard_token"])]
        for name in _WHO:
            if name in self._given:
                command += [f"--{name.replace('_', '-')}", self._given[name]]
        if self._trust_path is not None:
            command += ["--tls", *(["--tls-trust", self._trust_path] if self._trust_path else [])]
        return command

    async def start(self) -> None:
        import asyncio

        ours, theirs = os.pipe()  # its other end closes with us, however we end
        try:
            child = self._child = await asyncio.create_subprocess_exec(
                *self._command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us, and we end it ourselves
                pass_fds=(ours,),
                env={**os.environ, **self._account, PARENT_PIPE: str(ours)},
            )
        except BaseException:
            os.close(theirs)
            raise
        finally:
            os.close(ours)
        self._pipe = theirs
        assert child.stdout is not None
        try:
            line = (await asyncio.wait_for(child.stdout.readline(), _START_SECONDS)).decode(errors="replace")
        except TimeoutError:
            line = ""
        if _READY not in line:
            await self.stop()
            raise UnavailableError("the dashboard did not start; what it said stands above")
        self.url = line.partition(_READY)[2].partition(",")[0].strip()
        self._keeper = asyncio.create_task(self._watch(child))

    async def _watch(self, child: asyncio.subprocess.Process) -> None:
        code = await child.wait()
        click.echo(f"the dashboard ended with code {code}; the servers go on without it", err=True)

    async def stop(self) -> None:
        import asyncio

        child, self._child = self._child, None
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if child is None:
            return
        os.close(self._pipe)
        if child.returncode is None:
            child.terminate()
        try:
            await asyncio.wait_for(child.wait(), _STOP_SECONDS)
        except TimeoutError:
            child.kill()
            await child.wait()


def dashboard_beside(
    name_servers: Callable[[], str], data: str, options: Mapping[str, str], access: AccessOptions
) -> list[DashboardProcess]:
    """The dashboard, if one was asked for. ``options``: what the servers were told, for the way to reach them."""
    from flaremq.remoting.address import parse_address

    given: dict[str, str] = click.get_current_context().meta.get(_META, {})
    if "dashboard" not in given:
        if given:
            raise click.UsageError("--dashboard-token needs --dashboard")
        return []
    parse_address(given["dashboard"])  # before any server starts
    is_encrypted = options.get("tlsMode") == "enforcing"
    trust_path = options.get("tlsTrustPath", "") if is_encrypted else None
    audit_folder = os.path.join(data, "logs")
    context = click.get_current_context().meta.get(GIVEN, {})
    who = {name: context[name] for name in _WHO if name in context}
    process = DashboardProcess(
        name_servers,
        given | who,
        audit_folder=audit_folder,
        trust_path=trust_path,
        account=_account(who, access),
    )
    return [process]


def _account(given: Mapping[str, str], access: AccessOptions) -> dict[str, str]:
    """That of the servers, unless somebody else was named for commands."""
    from flaremq.access.inner import own_account

    is_named = given or os.environ.get(_ACCESS_KEY_VARIABLE)
    account = own_account(access) if access.is_enabled and not is_named else None
    return {} if account is None else {_ACCESS_KEY_VARIABLE: account[0], _SECRET_KEY_VARIABLE: account[1]}


def with_dashboard(ready: Callable[[], str], beside: list[DashboardProcess]) -> Callable[[], str]:
    """What is said when all are ready."""
    return lambda: ready() + "".join(f", dashboard {process.url}" for process in beside)

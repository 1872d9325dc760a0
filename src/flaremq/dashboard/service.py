"""DashboardService: the sampler, the application and its server, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Final

from flaremq.clock import Clock, SystemClock
from flaremq.dashboard.options import DashboardOptions
from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from flaremq.dashboard.app.context import Context
    from flaremq.dashboard.live.hub import Hub

_NEEDED: Final = ("jinja2", "starlette", "uvicorn")
_STOP_SECONDS: Final = 3
_CONNECTIONS_MAX: Final = 512


def check_installed() -> None:
    """One sentence if the extra is missing."""
    import importlib.util

    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"the dashboard needs {' and '.join(missing)}: pip install {' '.join(missing)} "
            "(the extra [dashboard] of flaremq has them)"
        )


class DashboardService:
    """One dashboard. Start and stop it on one event loop."""

    def __init__(self, options: DashboardOptions, *, clock: Clock | None = None) -> None:
        check_installed()
        self.options = options
        self._clock = clock or SystemClock()
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._hub: Hub | None = None
        self._context: Context | None = None
        self._port = options.port
        self._stack = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        """What a person opens; with the port that was really taken."""
        return self.options.url(self._port)

    @property
    def context(self) -> Context:
        """What the application works on, while it runs."""
        assert self._context is not None, "the dashboard runs between start and stop only"
        return self._context

    @property
    def hub(self) -> Hub:
        """Its streams, while it runs."""
        assert self._hub is not None, "the dashboard runs between start and stop only"
        return self._hub

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        from flaremq.dashboard.app.answers import to_json
        from flaremq.dashboard.app.routes import Routes
        from flaremq.dashboard.live.hub import Hub

        listener = _listener(self.options)
        self._stack.callback(listener.close)
        self._port = listener.getsockname()[1]
        context = self._context = await self._make_context()
        await context.sampler.start()
        self._stack.push_async_callback(context.sampler.stop)
        hub = self._hub = Hub(to_json)
        await self._serve(Routes(context, hub).app(), listener)

    async def _make_context(self) -> Context:
        from flaremq.dashboard.app.context import QUESTIONS_AT_ONCE, Accounts, Context
        from flaremq.dashboard.data.reader import ClusterReader
        from flaremq.dashboard.data.sampler import Sampler
        from flaremq.dashboard.data.state import ClusterState
        from flaremq.dashboard.questions.tables import Tables
        from flaremq.dashboard.security.audit_lines import AuditLines
        from flaremq.dashboard.security.hosts import HostCheck
        from flaremq.dashboard.security.sessions import Sessions
        from flaremq.dashboard.security.token import TokenFile

        options, clock = self.options, self._clock
        token = None if options.token_file is None else TokenFile(options.token_file)
        accounts = Accounts(options)
        sessions = Sessions(clock, accounts.session_ended)
        self._stack.push_async_callback(accounts.close)
        reader = await self._stack.enter_async_context(ClusterReader(options.name_servers, options=options.client))
        probe = None
        if options.client.access_key:
            probe = await accounts.make(None)
            self._stack.push_async_callback(probe.close)
        state = ClusterState(name_servers=reader.name_servers)
        return Context(
            options=options,
            clock=clock,
            state=state,
            sampler=Sampler(state, reader, clock, probe=probe),
            reader=reader,
            accounts=accounts,
            sessions=sessions,
            token=token,
            hosts=HostCheck(options.host, options.allowed_hosts),
            audit=AuditLines(options.audit_path, clock),
            room=asyncio.Semaphore(QUESTIONS_AT_ONCE),
            tables=Tables(options.tables, options.warehouse),
        )

    async def _serve(self, app: ASGIApp, listener: socket.socket) -> None:
        import uvicorn

        from flaremq.dashboard.app.connection import Connection, quiet_server

        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # who asks is who is connected
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        server = self._server = quiet_server(config)
        self._task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            if self._task.done():
                self._task.result()
                raise UnavailableError(f"the dashboard could not listen at {self.options.listen}")
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """End the streams, answer what is under way, close."""
        if self._hub is not None:
            self._hub.close()
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await asyncio.gather(self._task, return_exceptions=True)
        self._server = self._task = self._hub = None
        if self._context is not None:
            await self._context.audit.write()
        await self._stack.aclose()


def _listener(options: DashboardOptions) -> socket.socket:
    """Bound here, so that a port in use is an error before anything else begins."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((options.host, options.port))
    except OSError as error:
        listener.close()
        raise UnavailableError(
            f"the dashboard cannot listen at {options.listen}: {error.strerror}; choose another address with --listen"
        ) from None
    listener.setblocking(False)
    return listener

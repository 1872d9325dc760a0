"""Connection: uvicorn's, with two limits it does not have.

A peer that sends no request is closed, and a stream whose reader stands still can be aborted: closing would wait for
what is buffered to be read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Generator
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_REQUEST_SECONDS: Final = 15.0
_open: dict[tuple[str, int], asyncio.Transport] = {}  # by address of the peer


class Connection(H11Protocol):
    """One connection."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.client is not None:
            _open[self.client] = transport
        self._patience = self.loop.call_later(_REQUEST_SECONDS, self._lose_patience)

    def _lose_patience(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        if self.client is not None:
            _open.pop(self.client, None)
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """Whoever runs us waits for signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def quiet_server(config: uvicorn.Config) -> uvicorn.Server:
    """A server that leaves signals alone, and says nothing while all is well."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    return _Server(config)


def with_abort(app: ASGIApp) -> ASGIApp:
    """The application with a way to cut a request's connection off, in ``extensions``."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        transport = _open.get(tuple(scope["client"])) if scope.get("client") else None
        if transport is not None:
            scope["extensions"] = {**scope.get("extensions", {}), "flaremq.abort": transport.abort}
        await app(scope, receive, send)

    return serve

"""The guard: what holds for every request, whichever route it takes, also for those that take none.

Pure ASGI, so that streams pass unbuffered: hosts are checked, methods are few, every answer gets the security headers,
and an error that nobody caught becomes a plain answer without a traceback.
"""

from __future__ import annotations

import logging
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flaremq.dashboard.app.answers import json_failure
from flaremq.dashboard.app.failures import Failure
from flaremq.dashboard.security.headers import NOT_KEPT, SECURITY_HEADERS
from flaremq.dashboard.security.hosts import HostCheck

_log = logging.getLogger(__name__)
_METHODS: Final = ("GET", "HEAD", "POST")
_PROBE: Final = "/healthz"
_PATH_MAX: Final = 4_096
_QUERY_MAX: Final = 16_384


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, hosts: HostCheck) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets; uvicorn's lifespan is off
        has_begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message = {**message, "headers": _with_ours(message.get("headers", ()))}
            await send(message)

        failure = self._refusal(scope)
        if failure is not None:
            await json_failure(failure)(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except Exception:
            _log.exception("%s %s failed", scope["method"], scope["path"][:200].encode("ascii", "backslashreplace"))
            if has_begun:
                raise
            failure = Failure(500, "internal", "the dashboard failed; its log says why")
            await json_failure(failure)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Failure | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        is_probe = scope["path"] == _PROBE  # orchestrators ask by the address of the moment; nothing is told
        if not is_probe and (len(hosts) != 1 or not self._hosts.allows(hosts[0])):
            return Failure(421, "host", "the Host header names a host that the dashboard does not answer to")
        if scope["method"] not in _METHODS:
            return Failure(405, "method", "only GET, HEAD and POST are served")
        if len(scope["path"]) > _PATH_MAX or len(scope["query_string"]) > _QUERY_MAX:
            return Failure(414, "too_large", "the address of the request is too long")
        return None


def _with_ours(headers: object) -> list[tuple[bytes, bytes]]:
    given: list[tuple[bytes, bytes]] = list(headers)  # type: ignore[call-overload]  # ASGI says so
    names = {name.lower() for name, _ in given}
    ours = [pair for pair in (*SECURITY_HEADERS, NOT_KEPT) if pair[0] not in names]
    return [*given, *ours]

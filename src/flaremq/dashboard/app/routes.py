"""Routes: which address is answered by what. Nothing here that is reached by GET changes anything at a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from flaremq.dashboard.app.acting import Acting
from flaremq.dashboard.app.answers import json_failure
from flaremq.dashboard.app.api import Api
from flaremq.dashboard.app.asking import Asking
from flaremq.dashboard.app.connection import with_abort
from flaremq.dashboard.app.context import Context
from flaremq.dashboard.app.failures import RefusedError, failure_of
from flaremq.dashboard.app.guard import Guard
from flaremq.dashboard.app.pages import Pages
from flaremq.dashboard.app.render import Renderer, StaticFiles
from flaremq.dashboard.app.signing_in import SigningIn
from flaremq.dashboard.app.views import PARTS
from flaremq.dashboard.live.hub import Hub
from flaremq.errors import FlareMQError

Answer = Callable[[Asking], Awaitable[Any]]
_KEPT: Final = "public, max-age=31536000, immutable"

# Page and address; a name may hold slashes, so what has one comes after what is more exact.
_ADDRESSES: Final = (
    ("brokers", "brokers"),
    ("topics", "topics"),
    ("groups", "groups"),
    ("clients", "clients"),
    ("messages", "messages"),
    ("trace", "trace"),
    ("dlq", "dlq"),
    ("waiting", "waiting"),
    ("store", "store"),
    ("spark", "spark"),
    ("access", "access"),
    ("search", "search"),
    ("broker", "brokers/{name:path}"),
    ("topic", "topics/{name:path}"),
    ("group", "groups/{name:path}"),
    ("client", "clients/{name:path}"),
    ("message", "messages/{name:path}"),
    ("dlq_group", "dlq/{name:path}"),
)
_METHODS: Final = {404: "not_found", 405: "method"}


class Routes:
    """Puts the application together."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._static = StaticFiles()
        self._pages = Pages(Renderer(self._static))
        self._api = Api(hub)
        self._signing_in = SigningIn(self._pages)
        self._acting = Acting(self._pages)

    def app(self) -> ASGIApp:
        router = Router(self.routes(), redirect_slashes=False, default=self._nothing)
        return Guard(with_abort(self._catching(router)), self._context.hosts)

    def routes(self) -> list[BaseRoute]:
        pages, api = self._pages, self._api
        found: list[BaseRoute] = [
            self._get("/healthz", api.health),
            self._get("/api/history", api.history),
            self._get("/api/live", api.live),
            self._get("/static/{name:path}", self._file),
            self._get("/login", self._login_page),
            self._post("/login", self._signing_in.sign_in),
            self._post("/logout", self._signing_in.sign_out),
            self._post("/preferences", pages.preferences),
        ]
        if self._context.token is not None:  # without it nothing that changes anything has an address
            found += [
                self._post("/api/actions/{name}", self._acting.api),
                self._post("/actions/{name}", self._acting.form),
            ]
        else:
            found += [
                self._post("/api/actions/{name}", self._refused),
                self._post("/actions/{name}", self._refused),
            ]
        found.append(self._get("/api/messages/{name:path}/body", api.body))
        for page, address in _ADDRESSES:
            for part in PARTS.get(page, ()):
                found.append(self._get(f"/api/{address}/{part}", _part(api, page, part)))
        for page, address in (("overview", "overview"), *_ADDRESSES):
            found.append(self._get(f"/api/{address}", _api_page(api, page)))
        for page, address in (("overview", ""), ("overview", "overview"), *_ADDRESSES):
            found.append(self._get(f"/{address}", _page(pages, page)))
        return found

    def _get(self, path: str, answer: Any) -> Route:
        return Route(path, self._endpoint(answer), methods=["GET"])

    def _post(self, path: str, answer: Any) -> Route:
        return Route(path, self._endpoint(answer), methods=["POST"])

    def _endpoint(self, answer: Any) -> Any:
        async def serve(request: Request) -> Any:
            asking = Asking.of(self._context, request)
            try:
                result = answer(asking)
                return await result if hasattr(result, "__await__") else result
            except (RefusedError, FlareMQError) as error:
                return self._failed(asking, error)

        return serve

    def _failed(self, asking: Asking, error: Exception) -> Response:
        failure = failure_of(error)
        if asking.request.url.path.startswith(("/api/", "/static/", "/healthz")):
            return json_failure(failure)
        return self._pages.failure(asking, failure)

    def _catching(self, router: Router) -> ASGIApp:
        """Addresses and methods that no route has."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await router(scope, receive, send)
            except HTTPException as error:
                request = Request(scope, receive)
                code = _METHODS.get(error.status_code, "bad_request")
                refusal = RefusedError(error.status_code, code, str(error.detail))
                await self._failed(Asking.of(self._context, request), refusal)(scope, receive, send)

        return serve

    async def _nothing(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise HTTPException(404, "there is no such page")

    async def _refused(self, asking: Asking) -> Response:
        await self._context.audit.refused(asking.user, asking.peer, f"action {asking.name[:64]}", "read-only")
        raise RefusedError(403, "forbidden", "the dashboard is read-only: it was started without a token file")

    def _login_page(self, asking: Asking) -> Response:
        return self._pages.login(asking)

    def _file(self, asking: Asking) -> Response:
        found = self._static.files.get(asking.name)
        if found is None:
            raise RefusedError(404, "not_found", "there is no such file")
        content, kind = found
        is_versioned = asking.query.get("v") == self._static.version(asking.name)
        headers = {"cache-control": _KEPT if is_versioned else "no-cache"}
        return Response(content, media_type=kind, headers=headers)


def _page(pages: Pages, page: str) -> Answer:
    return lambda asking: pages.page(asking, page)


def _api_page(api: Api, page: str) -> Answer:
    return lambda asking: api.page(asking, page)


def _part(api: Api, page: str, part: str) -> Answer:
    return lambda asking: api.part(asking, page, part)

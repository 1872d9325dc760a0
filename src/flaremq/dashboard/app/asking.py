"""Asking: one request, with what its cookie, headers and query say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
from starlette.requests import Request

from flaremq.dashboard.app.context import Context
from flaremq.dashboard.app.failures import RefusedError
from flaremq.dashboard.security.sessions import Session
from flaremq.dashboard.texts import LANGUAGES
from flaremq.digits import whole_number

FORM: Final = "application/x-www-form-urlencoded"
BODY_MAX: Final = 8 << 20  # a message of 4 MiB as base64, with room for its fields
_BODY_SECONDS: Final = 15.0
_FIELDS_MAX: Final = 200
_THEMES: Final = ("auto", "light", "dark")


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """What routes get of a request."""

    context: Context
    request: Request
    session: Session | None
    query: dict[str, str]
    lang: str
    theme: str

    @classmethod
    def of(cls, context: Context, request: Request) -> Asking:
        query = dict(request.query_params)
        return cls(
            context=context,
            request=request,
            session=context.sessions.find(request.cookies.get(cookie_name(context))),
            query=query,
            lang=_language(request, query),
            theme=next((theme for theme in _THEMES if theme == request.cookies.get("flaremq_theme")), "auto"),
        )

    @property
    def name(self) -> str:
        """The name that the path ends with."""
        return str(self.request.path_params.get("name", ""))

    @property
    def peer(self) -> str:
        client = self.request.client
        return "unknown" if client is None else f"{client.host}:{client.port}"

    @property
    def user(self) -> str:
        return "" if self.session is None else self.session.user

    @property
    def can_change(self) -> bool:
        return self.context.token is not None and self.session is not None and self.session.can_change

    @property
    def csrf(self) -> str:
        return self.context.sessions.csrf_of(self.session)

    def check_may_look(self) -> None:
        if self.session is None and self.context.must_sign_in:
            raise RefusedError(401, "sign_in", "this page is shown to those only who signed in")

    async def fields(self) -> dict[str, Any]:
        """The body of a POST: a form or JSON, of a bounded size and in a bounded time."""
        data = await self._body()
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == FORM:
            try:
                pairs = parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
            except ValueError:
                raise RefusedError(400, "bad_request", "the form cannot be read") from None
            found: dict[str, Any] = {}
            for name, value in pairs:
                if name == "ids":  # the one field that may come several times
                    found.setdefault(name, []).append(value)
                else:
                    found[name] = value
            return found
        if kind != "application/json":
            raise RefusedError(415, "bad_request", f"a POST has a form or application/json, not {kind[:60]!r}")
        try:
            value = orjson.loads(data or b"{}")
        except ValueError:
            raise RefusedError(400, "bad_request", "the body is no JSON") from None
        if not isinstance(value, dict) or len(value) > _FIELDS_MAX:
            raise RefusedError(400, "bad_request", "the body is no JSON object of a few fields")
        return value

    async def _body(self) -> bytes:
        length = whole_number(self.request.headers.get("content-length", "0"))
        if length is None or length > BODY_MAX:
            raise RefusedError(413, "too_large", f"a request has at most {BODY_MAX} bytes")
        data = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in self.request.stream():
                    data += chunk
                    if len(data) > BODY_MAX:
                        raise RefusedError(413, "too_large", f"a request has at most {BODY_MAX} bytes")
        except TimeoutError:
            raise RefusedError(408, "bad_request", "the body did not come in time") from None
        return bytes(data)

    async def check_own_form(self, fields: dict[str, Any]) -> None:
        """Refuse a POST that no page of ours sent: by its origin, and by the CSRF token."""
        headers, hosts = self.request.headers, self.context.hosts
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        given = str(headers.get("x-csrf-token") or fields.get("csrf") or "")
        if origin is not None and not hosts.is_own_origin(origin, headers.get("host", "")):
            rule = "origin"
        elif site is not None and site not in ("same-origin", "none"):
            rule = "site"
        elif not self.context.sessions.is_csrf(self.session, given):
            rule = "csrf"
        else:
            return
        await self.context.audit.refused(self.user, self.peer, self.request.url.path, rule)
        raise RefusedError(
            403, "forbidden", f"the request does not come from a page of this dashboard ({rule})", "load the page again"
        )


def cookie_name(context: Context) -> str:
    """Cookies do not know ports: two dashboards of one machine need two names."""
    return f"flaremq_session_{context.options.port}"


def _language(request: Request, query: dict[str, str]) -> str:
    for wanted in (query.get("lang"), request.cookies.get("flaremq_lang")):
        if wanted in LANGUAGES:
            return str(wanted)
    for part in request.headers.get("accept-language", "")[:200].split(","):
        code = part.strip()[:2].lower()
        if code in LANGUAGES:
            return code
    return str(LANGUAGES[0])

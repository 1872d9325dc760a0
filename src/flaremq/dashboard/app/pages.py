"""Answers for people: pages, and the forms around them that change nothing at any server."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from flaremq.dashboard.app.asking import Asking
from flaremq.dashboard.app.failures import Failure, RefusedError
from flaremq.dashboard.app.render import Renderer, base_of
from flaremq.dashboard.app.views import PAGES, Wish

_YEAR_SECONDS: Final = 365 * 86_400
_THEMES: Final = ("auto", "light", "dark")
_LANGS: Final = ("en", "zh")


class Pages:
    """Renders what the API answers."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    async def page(self, asking: Asking, page: str) -> Response:
        asking.check_may_look()
        kind = PAGES[page]
        wish = Wish(asking.context, await asking.context.reader_of(asking.session), asking.name, asking.query)
        if kind.is_asking:
            async with asking.context.room:
                data = await kind.view(wish)
        else:
            data = await kind.view(wish)
        period = None if kind.seconds is None else round(kind.seconds * 1000)
        return self.rendered(asking, kind.template, page, data, period_ms=period, live=self._live(asking, page))

    def _live(self, asking: Asking, page: str) -> str | None:
        kind = PAGES[page]
        if kind.seconds is None and not (page == "messages" and asking.query.get("topic")):
            return None
        query = {**asking.query, "page": page}
        if asking.name:
            query["name"] = asking.name
        base = base_of(asking.request.scope["path"])
        return f"{base}api/live?{urlencode({key: value.encode('utf-8', 'replace') for key, value in query.items()})}"

    def rendered(
        self, asking: Asking, template: str, page: str, data: Any, *, status: int = 200, **more: Any
    ) -> Response:
        """A template with everything that all of them may use."""
        context, path = asking.context, asking.request.scope["path"]
        values = {
            "data": data,
            "page": page,
            "query": asking.query,
            "here": _here(asking),
            "can_change": asking.can_change,
            "csrf": asking.csrf,
            "session": {
                "signed_in": asking.session is not None,
                "user": asking.user or None,
                "login_possible": bool(context.login_kinds),
                "login_kinds": context.login_kinds,
                "login_needed": context.must_sign_in,
            },
            "theme": asking.theme,
            "live": None,
            "period_ms": None,
            **more,
        }
        body = self._renderer.page(template, values, base=base_of(path), lang=asking.lang)
        return Response(body, status, media_type="text/html; charset=utf-8")

    def failure(self, asking: Asking, failure: Failure) -> Response:
        if failure.code == "sign_in" and asking.context.login_kinds:
            return _redirect(asking, "login", back=_here(asking))
        return self.rendered(asking, "error.html", "error", failure.value, status=failure.status)

    def login(self, asking: Asking, error: str | None = None) -> Response:
        if not asking.context.login_kinds:
            raise RefusedError(404, "not_found", "there is nothing to sign in for: the dashboard has no token file")
        data = {"error": error, "back": asking.query.get("back", "")}
        return self.rendered(asking, "login.html", "login", data, status=200 if error is None else 401)

    async def preferences(self, asking: Asking) -> Response:
        """Theme and language: cookies of the browser, nothing else."""
        fields = await asking.fields()
        await asking.check_own_form(fields)
        answer = go_back(asking, str(fields.get("back") or ""))
        for name, cookie, allowed in (("theme", "flaremq_theme", _THEMES), ("lang", "flaremq_lang", _LANGS)):
            if fields.get(name) in allowed:
                answer.set_cookie(cookie, str(fields[name]), max_age=_YEAR_SECONDS, samesite="strict", httponly=True)
        return answer


def _here(asking: Asking) -> str:
    """The page that was asked for, relative to the root."""
    path, query = asking.request.url.path, asking.request.url.query
    return (path + (f"?{query}" if query else "")).lstrip("/")


def go_back(asking: Asking, back: str) -> Response:
    """To a page of ours: never to another host, whatever the form says."""
    is_ours = not back.startswith(("/", "\\")) and ":" not in back.partition("?")[0].partition("/")[0]
    is_plain = all(32 < ord(char) < 127 and char != "\\" for char in back)
    target = back if is_ours and is_plain and len(back) < 4_096 else ""
    return RedirectResponse(base_of(asking.request.scope["path"]) + target, 303)


def _redirect(asking: Asking, page: str, **query: str) -> Response:
    given = urlencode({key: value.encode("utf-8", "replace") for key, value in query.items()})
    return RedirectResponse(f"{base_of(asking.request.scope['path'])}{page}?{given}", 303)

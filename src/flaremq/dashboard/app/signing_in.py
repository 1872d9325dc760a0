"""Signing in: with the token of the dashboard, with an account of the cluster, or with both."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from flaremq.client.credentials import Credentials
from flaremq.client.errors import is_believed
from flaremq.dashboard.app.asking import Asking, cookie_name
from flaremq.dashboard.app.failures import RefusedError
from flaremq.dashboard.app.pages import Pages, go_back
from flaremq.dashboard.security.sessions import LIFE_SECONDS
from flaremq.errors import AccessDeniedError, FlareMQError, UnavailableError

_WRONG = "wrong"


class SigningIn:
    """``POST /login`` and ``/logout``."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def sign_in(self, asking: Asking) -> Response:
        context = asking.context
        fields = await asking.fields()
        await asking.check_own_form(fields)
        if not context.login_kinds:
            raise RefusedError(404, "not_found", "there is nothing to sign in for: the dashboard has no token file")
        if (seconds := context.sessions.wait_seconds()) > 0:
            raise RefusedError(429, "too_many", f"too many wrong tries: wait {seconds:.0f} seconds")
        token, name = str(fields.get("token") or ""), str(fields.get("access_key") or "")
        is_token = bool(token) and context.token is not None and context.token.matches(token)
        credentials = None
        if (token and not is_token) or not (token or name):
            return await self._wrong(asking, name, "token")
        if name:
            credentials = await self._proven(asking, name, str(fields.get("secret_key") or ""))
            if credentials is None:
                return await self._wrong(asking, name, "account")
        elif context.must_sign_in and context.state.has_access_control:
            return await self._wrong(asking, name, "account")
        user = name or "token"
        cookie, _ = context.sessions.begin(user, can_change=is_token, credentials=credentials)
        await context.audit.action(user, asking.peer, "sign-in", {"can_change": is_token}, 0)
        answer = go_back(asking, str(fields.get("back") or ""))
        answer.set_cookie(
            cookie_name(context), cookie, max_age=int(LIFE_SECONDS), httponly=True, samesite="strict", path="/"
        )
        return answer

    async def _proven(self, asking: Asking, name: str, secret: str) -> Credentials | None:
        """The account, if a broker believes it: it may be refused what it asks for, but not who it is."""
        if not secret or secret.startswith(("env:", "file:")):  # those are read here, and are nobody's to name
            return None
        context = asking.context
        credentials = Credentials(access_key=name, secret_key=secret)
        masters = [broker for broker in context.state.masters]
        reader = await context.accounts.make(credentials)
        try:
            for broker in masters:
                try:
                    await reader.runtime(broker.address)
                except AccessDeniedError as error:
                    return credentials if is_believed(error) else None
                except FlareMQError:
                    continue
                return credentials
        finally:
            await reader.close()
        raise UnavailableError("no broker can be asked whether the account is right")

    async def _wrong(self, asking: Asking, name: str, what: str) -> Response:
        asking.context.sessions.note_failure()
        await asking.context.audit.refused("", asking.peer, f"sign-in as {name[:64]!r}", what)
        return self._pages.login(asking, _WRONG)

    async def sign_out(self, asking: Asking) -> Response:
        fields: dict[str, Any] = await asking.fields()
        await asking.check_own_form(fields)
        asking.context.sessions.end(asking.request.cookies.get(cookie_name(asking.context)))
        answer = go_back(asking, "")
        answer.delete_cookie(cookie_name(asking.context), path="/", httponly=True, samesite="strict")
        return answer

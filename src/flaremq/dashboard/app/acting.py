"""Acting: every change goes through here. The token, the form's origin, the preview, the audit line, in this order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from starlette.responses import Response

from flaremq.dashboard.actions.fields import Fields
from flaremq.dashboard.actions.plan import Desk, Plan
from flaremq.dashboard.actions.table import ACTIONS
from flaremq.dashboard.app.answers import json_answer
from flaremq.dashboard.app.asking import Asking
from flaremq.dashboard.app.failures import RefusedError, failure_of
from flaremq.dashboard.app.pages import Pages
from flaremq.errors import FlareMQError

# Of what was posted, what an audit line tells: names and numbers, never a body.
_UNTOLD: Final = frozenset(("csrf", "body", "body_base64", "properties", "back", "recall"))
_IDS_TOLD: Final = 5


class Acting:
    """``POST /api/actions/{name}`` and its twin for forms."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def api(self, asking: Asking) -> Response:
        fields = await self._checked(asking)
        return json_answer(await self._act(asking, fields))

    async def form(self, asking: Asking) -> Response:
        fields = await self._checked(asking)
        answer: dict[str, Any] | None = None
        error: dict[str, Any] | None = None
        status = 200
        try:
            answer = await self._act(asking, fields)
        except (RefusedError, FlareMQError) as failure:
            found = failure_of(failure)
            error, status = found.value, found.status
        shown = {name: value for name, value in fields.items() if name not in ("csrf", "dry_run", "confirm", "back")}
        back = fields.get("back")
        data = {"action": asking.name, "fields": shown, "answer": answer, "error": error, "back": back}
        return self._pages.rendered(asking, "action.html", "action", data, status=status)

    async def _checked(self, asking: Asking) -> dict[str, Any]:
        """The fields of a request that may change something."""
        fields = await asking.fields()
        await asking.check_own_form(fields)
        if not asking.can_change:
            await asking.context.audit.refused(asking.user, asking.peer, f"action {asking.name[:64]}", "token")
            raise RefusedError(403, "forbidden", "nothing can be changed without signing in with the token")
        if asking.name not in ACTIONS:
            raise RefusedError(404, "not_found", f"there is no action {asking.name[:64]!r}")
        if asking.context.state.has_access_control and asking.session and asking.session.credentials is None:
            raise RefusedError(403, "forbidden", "the cluster asks who one is: sign in with an account of it, too")
        return fields

    async def _act(self, asking: Asking, given: dict[str, Any]) -> dict[str, Any]:
        context, fields = asking.context, Fields(given)
        dry_run = fields.flag("dry_run", True)
        reader = await context.reader_of(asking.session)
        client = replace(reader.options, instance_name="")
        desk = Desk(context.state, reader, client, context.options.name_servers)
        if dry_run:
            async with context.room:
                return (await ACTIONS[asking.name](desk, fields)).answer(asking.name, dry_run=True)
        try:
            plan = await ACTIONS[asking.name](desk, fields)
            plan.check(given.get("confirm"))
            await plan.carry_out()
        except FlareMQError as error:
            told = _told(given) | {"error": str(error)[:200]}
            await context.audit.action(asking.user, asking.peer, asking.name, told, 1)
            raise
        finally:
            context.sampler.hurry()
        await context.audit.action(asking.user, asking.peer, asking.name, _line(given, plan), len(plan.failed))
        return plan.answer(asking.name, dry_run=False)


def _line(given: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Who is said elsewhere; what, before, after, result."""
    return _told(given) | {"before": plan.before, "after": plan.after, "done": plan.done, "failed": len(plan.failed)}


def _told(given: dict[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in given.items() if name not in _UNTOLD and name not in ("dry_run", "confirm")}
    if isinstance(told.get("ids"), list):
        told["ids"] = [*told["ids"][:_IDS_TOLD], f"{len(told['ids'])} in all"]
    return told

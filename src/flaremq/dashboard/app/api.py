"""Answers for programs: the same values as JSON, lists as CSV, bodies as attachments, streams."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from flaremq.dashboard.app.answers import csv_answer, json_answer, to_json
from flaremq.dashboard.app.asking import Asking
from flaremq.dashboard.app.failures import RefusedError
from flaremq.dashboard.app.views import PAGES, PARTS, View, Wish
from flaremq.dashboard.data.ring import empty_series
from flaremq.dashboard.live.hub import Hub, Stream
from flaremq.dashboard.live.tail import Tail
from flaremq.dashboard.questions.lookup import find_message
from flaremq.dashboard.questions.message import KINDS, body_of, whole_body
from flaremq.dashboard.views.listing import chosen, rows_at, whole
from flaremq.errors import CorruptionError, InvalidArgumentError

_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")


class Api:
    """The JSON side."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def page(self, asking: Asking, page: str) -> Response:
        return await self._answer(asking, PAGES[page].view, page)

    async def part(self, asking: Asking, page: str, part: str) -> Response:
        return await self._answer(asking, PARTS[page][part], f"{page}-{part}")

    async def _answer(self, asking: Asking, view: View, name: str) -> Response:
        asking.check_may_look()
        wants_csv = chosen(asking.query, "format", ("json", "csv"), "json") == "csv"
        if wants_csv and not asking.context.options.is_download_allowed:
            raise RefusedError(403, "forbidden", "downloads are switched off")
        wish = Wish(asking.context, await asking.context.reader_of(asking.session), asking.name, asking.query)
        async with asking.context.room:
            data = await view(wish)
        if not wants_csv:
            return json_answer(data)
        place = asking.query.get("list", "")
        rows = rows_at(data, place or "/items")
        if rows is None:
            what = f"there is no list {place[:80]!r} in {name}" if place else f"{name} is no list, but has some"
            raise InvalidArgumentError(f"{what}: only lists can be had as CSV")
        return csv_answer(rows, f"flaremq-{name}{_FILE_NAME.sub('-', place)[:60]}")

    async def body(self, asking: Asking) -> Response:
        """A body in one of its forms; as it is, as an attachment that no browser opens."""
        asking.check_may_look()
        kind = chosen(asking.query, "as", (*KINDS, "raw"), "text")
        reader = await asking.context.reader_of(asking.session)
        async with asking.context.room:
            message = await find_message(asking.context.state, reader, asking.query.get("topic", ""), asking.name)
        if kind != "raw":
            return json_answer({"body": body_of(message, kind)})
        if not asking.context.options.is_download_allowed:
            raise RefusedError(403, "forbidden", "downloads are switched off")
        try:
            data = whole_body(message)
        except CorruptionError:
            data = bytes(message.stored_body)
        name = _FILE_NAME.sub("_", message.message_id)[:100]
        headers = {"content-disposition": f'attachment; filename="{name}.bin"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def history(self, asking: Asking) -> Response:
        asking.check_may_look()
        query, state = asking.query, asking.context.state
        of = chosen(query, "of", ("cluster", "broker", "topic", "group"), "cluster")
        name, key = query.get("name", "in"), query.get("key", "")
        minutes = whole(query, "minutes", 15, low=1, high=15)
        ring: Any = None
        if of == "cluster":
            ring = state.rings.get(name)
        elif of == "broker" and (broker := state.master_of(key)) is not None:
            ring = broker.rings.get(name)
        elif of == "topic" and key in state.topics:
            ring = state.topics[key].rings.get(name)
        elif of == "group" and key in state.groups:
            ring = state.groups[key].rings.get(name)
        series = empty_series() if ring is None else ring.series(minutes)
        return json_answer({"as_of": state.as_of_ms, "name": name, "of": of, "key": key, "series": series})

    def health(self, asking: Asking) -> Response:
        return json_answer({"ok": True})

    async def live(self, asking: Asking) -> Any:
        """The stream of a page, as an ASGI application."""
        asking.check_may_look()
        page = asking.query.get("page", "")
        if self._hub.is_full:
            raise RefusedError(429, "too_many", "too many pages are open")
        query = {key: value for key, value in asking.query.items() if key not in ("page", "name", "lang")}
        if page == "messages":
            return self._tail(asking, query)
        kind = PAGES.get(page)
        if kind is None or kind.seconds is None:
            raise InvalidArgumentError(f"page {page[:40]!r} is not live")
        context = asking.context
        wish = Wish(context, context.reader, asking.query.get("name", ""), query)
        key = to_json([page, wish.name, sorted(query.items())]).decode()
        view, seconds = kind.view, kind.seconds
        await view(wish)  # what is wrong with it is said by a status, not by a stream

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            async with self._hub.subscribed(key, lambda: view(wish), seconds) as stream:
                await _pump(asking, stream, receive, send)

        return serve

    def _tail(self, asking: Asking, query: dict[str, str]) -> Any:
        topic = query.get("topic", "")
        if not topic:
            raise InvalidArgumentError("a live tail needs a topic")

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            stream = Stream()
            reader = await asking.context.reader_of(asking.session)
            tail = Tail(reader, topic, query.get("tag", ""), stream, to_json)
            with self._hub.counted(stream):
                task = asyncio.create_task(tail.run())
                try:
                    await _pump(asking, stream, receive, send)
                finally:
                    task.cancel()

        return serve


async def _pump(asking: Asking, stream: Stream, receive: Receive, send: Send) -> None:
    """Send what comes until either side ends it. A reader that does not read is cut off: its connection would keep what
    is buffered for it, and us waiting, for as long as it likes."""
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"retry: 2000\n\n", "more_body": True})
    session, sessions = asking.session, asking.context.sessions

    async def write() -> None:
        async for data in stream.events():
            if session is not None and not sessions.is_live(session):
                stream.drop("signed_out")
                break
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    writing, listening = asyncio.create_task(write()), asyncio.create_task(listen())
    dropped = asyncio.create_task(stream.dropped.wait())
    try:
        await asyncio.wait((writing, listening, dropped), return_when=asyncio.FIRST_COMPLETED)
        if dropped.done():
            await asyncio.wait((writing,), timeout=0.5)
        if writing.done() and not listening.done() and not writing.cancelled() and writing.exception() is None:
            await send({"type": "http.response.body", "body": stream.farewell, "more_body": False})
        elif not listening.done():
            abort = asking.request.scope.get("extensions", {}).get("flaremq.abort")
            if abort is not None:
                abort()
    finally:
        for task in (writing, listening, dropped):
            task.cancel()
        await asyncio.gather(writing, listening, dropped, return_exceptions=True)

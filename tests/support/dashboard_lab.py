"""A dashboard before a broker of a test, and a browser without a screen: HTTP, cookies, forms, streams."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from flaremq.clock import SystemClock
from flaremq.dashboard.options import DashboardOptions
from flaremq.dashboard.service import DashboardService
from flaremq.testing import EphemeralBroker, ephemeral_broker

TOKEN = "correct horse battery staple"
_CSRF = re.compile(r'<meta name="csrf" content="([^"]+)"')


@dataclass
class Reply:
    """An answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Browser:
    """One visitor. Paths are below the dashboard's root."""

    url: str
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None and parts.port is not None
        return await asyncio.open_connection(parts.hostname, parts.port)

    async def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request whose answer is still to be read."""
        reader, writer = await self.open()
        given = {"host": self.host, "connection": "close", **(headers or {})}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body or method == "POST":
            given.setdefault("content-length", str(len(body)))
        lines = [f"{method} /{path.lstrip('/')} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        return reader, writer

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        reader, writer = await self.send(method, path, body, headers)
        try:
            reply = await read_reply(reader)
        finally:
            writer.close()
        for name, value in reply.headers:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                text = rest.partition(";")[0].strip('"')
                self.cookies.pop(key, None)
                if text:
                    self.cookies[key] = text
        return reply

    async def get(self, path: str, **query: object) -> Reply:
        return await self.request("GET", path + (f"?{urlencode(query)}" if query else ""))

    async def json(self, path: str, **query: object) -> Any:
        reply = await self.get(path, **query)
        assert reply.status == 200, (path, reply.status, reply.text)
        return reply.json()

    async def csrf(self) -> str:
        """The token of a page, as a script finds it."""
        found = _CSRF.search((await self.get("/")).text) or _CSRF.search((await self.get("/login")).text)
        assert found is not None
        return found[1]

    async def post_form(self, path: str, **fields: str) -> Reply:
        fields = {"csrf": await self.csrf(), **fields}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        return await self.request("POST", path, urlencode(fields).encode(), headers)

    async def act(self, name: str, /, *, dry_run: bool = False, **fields: Any) -> Reply:
        """An action as a script posts it."""
        headers = {"content-type": "application/json", "x-csrf-token": await self.csrf()}
        body = json.dumps({"dry_run": dry_run, **fields}).encode()
        return await self.request("POST", f"/api/actions/{name}", body, headers)

    async def sign_in(self, token: str = TOKEN) -> Reply:
        return await self.post_form("/login", token=token)

    @asynccontextmanager
    async def stream(self, page: str, **query: object) -> AsyncIterator[Events]:
        asked = urlencode({"page": page, **query})
        reader, writer = await self.send("GET", f"/api/live?{asked}")
        try:
            head = await read_head(reader)
            assert head.status == 200, head
            yield Events(reader)
        finally:
            writer.close()


class Events:
    """The events of a stream."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._data = b""

    async def next(self) -> tuple[str, Any]:
        """Name and value of the next one; comments are passed over."""
        while True:
            while b"\n\n" not in self._data:
                size = int((await self._reader.readline()).strip() or b"0", 16)
                if not size:
                    raise EOFError("the stream has ended")
                self._data += await self._reader.readexactly(size)
                await self._reader.readline()
            text, _, self._data = self._data.partition(b"\n\n")
            fields = dict(line.split(": ", 1) for line in text.decode().splitlines() if ": " in line)
            if "event" in fields:
                return fields["event"], json.loads(fields["data"])


async def read_head(reader: asyncio.StreamReader) -> Reply:
    status = int((await reader.readline()).split(b" ")[1])
    headers = []
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name.strip().lower(), value.strip()))
    return Reply(status, headers, b"")


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    reply = await read_head(reader)
    if reply.header("transfer-encoding") == "chunked":
        while size := int((await reader.readline()).strip(), 16):
            reply.body += await reader.readexactly(size)
            await reader.readline()
    else:
        reply.body = await reader.readexactly(int(reply.header("content-length") or 0))
    return reply


def token_file(folder: Path, text: str = TOKEN) -> str:
    path = folder / "token"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@dataclass
class DashboardLab:
    """What a test has at hand."""

    broker: EphemeralBroker
    service: DashboardService
    browser: Browser
    folder: Path

    async def look(self) -> None:
        """Let the sampler look at everything once, now."""
        await self.service.context.sampler.look()

    async def freeze(self) -> None:
        """From now on it looks only when it is told to."""
        await self.service.context.sampler.stop()

    def audit_lines(self) -> list[dict[str, Any]]:
        path = self.folder / "dashboard-audit.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@asynccontextmanager
async def dashboard_lab(
    folder: Path, *, can_change: bool = True, broker_options: Mapping[str, object] | None = None, **options: Any
) -> AsyncIterator[DashboardLab]:
    async with ephemeral_broker(clock=SystemClock(), **(broker_options or {})) as broker:
        settings = {"name_servers": broker.name_server, "listen": "127.0.0.1:0", "audit_folder": str(folder)}
        if can_change:
            settings["token_file"] = token_file(folder)
        service = DashboardService(DashboardOptions(**{**settings, **options}))
        await service.start()
        try:
            yield DashboardLab(broker, service, Browser(service.url), folder)
        finally:
            await service.stop()

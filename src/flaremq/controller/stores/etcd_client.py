"""EtcdClient: the few requests to etcd's JSON gateway (``/v3/...`` over HTTP) that a controller needs.

One connection a request: there are a few requests a second, and a connection that hangs then holds up nothing else.
Each request has a time limit of its own and goes to the endpoint that answered last; questions go on to the next one
when that fails. A *transaction* that got no answer is not repeated: whether it was carried out is unknown, and
:class:`EtcdTimeoutError` says so.

Keys and values are bytes here and base64 on the wire; numbers of 64 bits travel as text.

Where etcd asks who is there, a token is got with name and password and sent along. It ends with etcd's process, with a
pause and with a change of users: a request that is refused for its token was not carried out, so it is asked again, a
transaction too.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from flaremq.errors import InvalidArgumentError, RemoteProtocolError, UnavailableError
from flaremq.remoting.address import format_address

_HEAD_MAX: Final = 32 << 10
_BODY_MAX: Final = 64 << 20  # a page of some hundred groups is far below
_PAGE: Final = 500  # keys read in one request


_TOKEN_REFUSALS: Final = ("invalid auth token", "revision of auth store is old", "user name is empty")


class EtcdTimeoutError(UnavailableError):
    """No answer: what was asked for may have happened or not."""


class _TokenError(UnavailableError):
    """The token is good no more, or there is none; nothing was carried out."""


@dataclass(frozen=True, slots=True)
class EtcdAccount:
    """Who a controller is for etcd."""

    name: str
    password: str = field(repr=False)


class Entry(NamedTuple):
    """A key with its value."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int


class Endpoint(NamedTuple):
    """Where an etcd listens."""

    host: str
    port: int
    is_secure: bool
    text: str


class EtcdClient:
    """Requests to one etcd cluster. Event loop only."""

    def __init__(self, urls: str, tls: ssl.SSLContext | None = None, account: EtcdAccount | None = None) -> None:
        self._endpoints = parse_endpoints(urls)
        self._tls = tls
        self._account = account
        self._token = ""
        self._first = 0  # the endpoint that answered last

    async def grant_lease(self, seconds: int, timeout: float) -> int:
        """A new lease; its id."""
        answer = await self._ask("/v3/lease/grant", {"TTL": str(seconds)}, timeout)
        return _number(answer.get("ID"))

    async def keep_alive(self, lease: int, timeout: float) -> int:
        """Prolong a lease; the seconds it has now, 0 if it is gone."""
        answer = await self._ask("/v3/lease/keepalive", {"ID": str(lease)}, timeout)
        result = answer.get("result")
        return _number(result.get("TTL", 0)) if isinstance(result, dict) else 0

    async def revoke_lease(self, lease: int, timeout: float) -> None:
        """End a lease, and the keys that hang on it."""
        await self._ask("/v3/lease/revoke", {"ID": str(lease)}, timeout)

    async def get(self, key: bytes, timeout: float) -> Entry | None:
        """One key."""
        answer = await self._ask("/v3/kv/range", {"key": _base64(key)}, timeout)
        found = _entries(answer)
        return found[0] if found else None

    async def get_prefix(self, prefix: bytes, timeout: float) -> list[Entry]:
        """All keys with a prefix, as they are at one moment."""
        found: list[Entry] = []
        end = _base64(prefix[:-1] + bytes([prefix[-1] + 1]))
        start, revision = prefix, "0"
        while True:
            question = {"key": _base64(start), "range_end": end, "limit": str(_PAGE), "revision": revision}
            answer = await self._ask("/v3/kv/range", question, timeout)
            page = _entries(answer)
            found += page
            if not answer.get("more") or not page:
                return found
            start = page[-1].key + b"\0"
            revision = str(_number(answer["header"]["revision"]))

    async def transact(self, compare: Sequence[dict[str, str]], put: dict[str, str], timeout: float) -> int | None:
        """Put a key if all comparisons hold; the revision of that, None if they do not. Asked once only."""
        question = {"compare": list(compare), "success": [{"request_put": put}]}
        answer = await self._ask("/v3/kv/txn", question, timeout, once=True)
        return _number(answer["header"]["revision"]) if answer.get("succeeded") is True else None

    async def _ask(self, path: str, question: dict[str, Any], timeout: float, *, once: bool = False) -> dict[str, Any]:
        last: UnavailableError | None = None
        for turn in range(len(self._endpoints)):
            number = (self._first + turn) % len(self._endpoints)
            endpoint = self._endpoints[number]
            try:
                answer = await self._ask_as_account(endpoint, path, question, timeout)
            except UnavailableError as error:
                last = error
                # A transaction that was not even begun may go to the next endpoint.
                if once and isinstance(error, EtcdTimeoutError):
                    self._first = (number + 1) % len(self._endpoints)
                    raise
                continue
            self._first = number
            return answer
        assert last is not None
        raise last

    async def _ask_as_account(
        self, endpoint: Endpoint, path: str, question: dict[str, Any], timeout: float
    ) -> dict[str, Any]:
        account, token = self._account, self._token
        if account is None:
            return await self._ask_one(endpoint, path, question, timeout)
        if token:
            try:
                return await self._ask_one(endpoint, path, question, timeout, token)
            except _TokenError:
                pass
        if self._token == token:  # nobody else has asked for a new one meanwhile
            credentials = {"name": account.name, "password": account.password}
            try:
                answer = await self._ask_one(endpoint, "/v3/auth/authenticate", credentials, timeout)
            except EtcdTimeoutError as error:
                raise UnavailableError(f"etcd user {account.name!r} cannot sign in: {error}") from error
            self._token = str(answer.get("token", ""))
        return await self._ask_one(endpoint, path, question, timeout, self._token)

    async def _ask_one(
        self, endpoint: Endpoint, path: str, question: dict[str, Any], timeout: float, token: str = ""
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(timeout), self._connected(endpoint) as (reader, writer):
                try:
                    status, body = await _exchange(reader, writer, endpoint, path, orjson.dumps(question), token)
                except (OSError, EOFError) as error:
                    raise EtcdTimeoutError(f"etcd at {endpoint.text} broke off: {error!r}") from error
        except TimeoutError as error:
            raise EtcdTimeoutError(f"etcd at {endpoint.text} does not answer") from error
        try:
            value = orjson.loads(body)
        except ValueError as error:
            raise EtcdTimeoutError(f"etcd at {endpoint.text} answered no JSON (status {status})") from error
        if status != 200 or not isinstance(value, dict) or "error" in value:
            text = value.get("error") if isinstance(value, dict) else value
            if any(refusal in str(text) for refusal in _TOKEN_REFUSALS):
                raise _TokenError(f"etcd at {endpoint.text} asks who is there: {str(text)[:200]}")
            raise EtcdTimeoutError(f"etcd at {endpoint.text} answered {status}: {str(text)[:200]}")
        return value

    @contextlib.asynccontextmanager
    async def _connected(self, endpoint: Endpoint) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        tls = (self._tls or ssl.create_default_context()) if endpoint.is_secure else None
        try:
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls, limit=_HEAD_MAX)
        except OSError as error:
            raise UnavailableError(f"cannot connect to etcd at {endpoint.text}: {error}") from error
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint, path: str, body: bytes, token: str
) -> tuple[int, bytes]:
    """One request of HTTP/1.1; status and body of the answer."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {format_address(endpoint.host, endpoint.port)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    )
    if token:
        head += f"Authorization: {token}\r\n"
    writer.write(head.encode() + b"\r\n" + body)
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): text.strip() for name, _, text in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split()[1])
        if "chunked" in fields.get("transfer-encoding", "").lower():
            return status, await _read_chunks(reader)
        if "content-length" in fields:
            return status, await reader.readexactly(min(int(fields["content-length"]), _BODY_MAX))
        return status, await reader.read(_BODY_MAX)
    except (ValueError, IndexError, asyncio.LimitOverrunError) as error:
        raise EOFError(f"no HTTP: {error}") from error


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size == 0:
            return bytes(body)
        if size < 0 or len(body) + size > _BODY_MAX:
            raise ValueError("an answer is too large")
        body += await reader.readexactly(size)
        await reader.readexactly(2)


def parse_endpoints(urls: str) -> list[Endpoint]:
    """The endpoints of ``http://host:port,https://...``; InvalidArgumentError names the one that is none."""
    found = []
    for text in filter(None, (part.strip() for part in urls.replace(";", ",").split(","))):
        url = urlsplit(text if "://" in text else f"http://{text}")
        try:
            host, port = url.hostname, url.port
        except ValueError:
            host, port = None, None
        if url.scheme not in ("http", "https") or not host or url.username or url.path.strip("/") or url.query:
            raise InvalidArgumentError(f"{text!r} is no address of an etcd like http://127.0.0.1:2379")
        found.append(Endpoint(host, port or 2379, url.scheme == "https", text))
    if not found:
        raise InvalidArgumentError(f"{urls!r} names no etcd like http://127.0.0.1:2379")
    return found


def created_at(key: bytes, revision: int) -> dict[str, str]:
    """A comparison: the key was made by this revision; 0 means that there is none."""
    return {"key": _base64(key), "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}


def modified_at(key: bytes, revision: int) -> dict[str, str]:
    """A comparison: the key was changed last by this revision; 0 means that there is none."""
    return {"key": _base64(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def put_of(key: bytes, value: bytes, lease: int = 0) -> dict[str, str]:
    """What a transaction puts; with a lease it goes when that ends."""
    return {"key": _base64(key), "value": _base64(value), "lease": str(lease)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _entries(answer: dict[str, Any]) -> list[Entry]:
    try:
        return [
            Entry(
                base64.b64decode(row["key"]),
                base64.b64decode(row.get("value", "")),
                _number(row["create_revision"]),
                _number(row["mod_revision"]),
            )
            for row in answer.get("kvs", [])
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteProtocolError(f"etcd answered keys that are none: {error!r}") from error


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise RemoteProtocolError(f"etcd answered {value!r} where a number should be") from None

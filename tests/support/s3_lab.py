"""An S3-compatible server for tests, with faults: a small model of one, or a real one behind it.

    with S3Server() as server:
        server.fail(Fault("PUT", "manifest", CUT))   # the next such request is carried out, its answer lost
        ...use server.endpoint...

The model knows what PyArrow, delta-rs and obstore ask: objects, ranges, uploads in parts, listings, ``If-None-Match``.
It checks no signatures; a real server does. It runs in a process of its own: delta-rs waits for answers without letting
other threads of Python run.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import itertools
import json
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUSY: Final = "busy"  # 503, nothing is done
CUT: Final = "cut"  # carried out, the connection is cut instead of an answer
STALL: Final = "stall"  # carried out, the answer comes when nobody waits for it any more
BUCKET: Final = "bucket"
_STALL_SECONDS: Final = 3.0
_CONTROL: Final = "/-/faults"  # where tests say what is to happen


@dataclass
class Fault:
    """What happens to the next ``times`` requests of this method whose path has the text in it."""

    method: str
    text: str
    kind: str
    times: int = 1

    def meets(self, method: str, path: str) -> bool:
        return self.times > 0 and method == self.method and self.text in path


class Request(NamedTuple):
    method: str
    target: str  # path and query
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


Backend = Callable[[Request], Answer]


class S3Server:
    """``endpoint`` is where it is. ``host`` is that of a real server; without it the model answers."""

    def __init__(self, host: str | None = None) -> None:
        command = [sys.executable, "-m", "tests.support.s3_lab", *([host] if host is not None else [])]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def fail(self, *faults: Fault) -> None:
        """These from now on, and no others; what was met is forgotten."""
        self._tell("PUT", [vars(fault) for fault in faults])

    @property
    def met(self) -> dict[str, int]:
        """How many faults of which kind happened."""
        return dict(Counter(self._tell("GET")["met"]))

    @property
    def left(self) -> list[Fault]:
        """Those that did not."""
        return [fault for fault in (Fault(**value) for value in self._tell("GET")["faults"]) if fault.times]

    def _tell(self, method: str, value: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, _CONTROL, json.dumps(value))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()


class _Plan:
    """Which faults are still to come, and which were."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.met: list[str] = []
        self._turn = threading.Lock()  # guards both

    def next(self, request: Request) -> str | None:
        with self._turn:
            for fault in self.faults:
                if fault.meets(request.method, unquote(request.target)):
                    fault.times -= 1
                    self.met.append(fault.kind)
                    return fault.kind
        return None

    def told(self, request: Request) -> Answer:
        with self._turn:
            if request.method == "PUT":
                self.faults, self.met = [Fault(**value) for value in json.loads(request.body)], []
            state = {"met": self.met, "faults": [vars(fault) for fault in self.faults]}
            return Answer(200, json.dumps(state).encode())


class _Handler(BaseHTTPRequestHandler):
    plan: _Plan
    backend: Backend
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, self._body(headers))
        if self.path == _CONTROL:
            return self._answer(self.plan.told(request))
        fault = self.plan.next(request)
        if fault == BUSY:
            return self._answer(Answer(503, b"<Error><Code>SlowDown</Code><Message>slow down</Message></Error>"))
        answer = type(self).backend(request)
        if fault == STALL:
            time.sleep(_STALL_SECONDS)
        if fault is not None:
            self.close_connection = True
            return None
        return self._answer(answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _answer(self, answer: Answer) -> None:
        with contextlib.suppress(ConnectionError):
            self.send_response_only(answer.status)
            headers = {"content-length": str(len(answer.body)), **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

    def log_message(self, *message: object) -> None:
        return None


class Forwarder:
    """A real server as a backend. Signatures hold: they are of the address that the client used."""

    def __init__(self, host: str) -> None:
        self._host = host

    def __call__(self, request: Request) -> Answer:
        connection = http.client.HTTPConnection(self._host, timeout=60)
        try:
            connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            dropped = ("connection", "expect", "transfer-encoding", "content-length")
            for name, value in request.headers.items():
                if name not in dropped:
                    connection.putheader(name, value)
            connection.putheader("content-length", str(len(request.body)))
            connection.endheaders(request.body)
            response = connection.getresponse()
            body = response.read()
            kept = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
            if request.method == "HEAD":
                kept["content-length"] = response.headers.get("content-length", "0")
            return Answer(response.status, body, kept)
        finally:
            connection.close()


@dataclass
class _Object:
    data: bytes
    changed: float = field(default_factory=time.time)

    @property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'

    @property
    def headers(self) -> dict[str, str]:
        changed = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.changed))
        return {"etag": self.tag, "last-modified": changed, "accept-ranges": "bytes"}


class S3Model:
    """One bucket in memory. Each request is carried out whole, one after the other."""

    def __init__(self) -> None:
        self.objects: dict[str, _Object] = {}
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._numbers = itertools.count(1)
        self._turn = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        parts = urlsplit(request.target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        _, bucket, *rest = unquote(parts.path).split("/", 2)
        with self._turn:
            if bucket != BUCKET:
                return _error(404, "NoSuchBucket")
            if not rest or not rest[0]:
                return self._of_bucket(request, query)
            return self._of_object(request, rest[0], query)

    def _of_bucket(self, request: Request, query: Mapping[str, str]) -> Answer:
        if request.method == "POST" and "delete" in query:
            for key in ElementTree.fromstring(request.body).iter():
                if key.tag.endswith("Key"):
                    self.objects.pop(key.text or "", None)
            return _xml("<DeleteResult/>")
        return self._list(query) if request.method == "GET" else Answer(200)

    def _list(self, query: Mapping[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        found: dict[str, str] = {}
        for key in sorted(self.objects):
            if not key.startswith(prefix) or key <= after:
                continue
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                folder = key[: end + 1]
                found[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            else:
                item = self.objects[key]
                changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(item.changed))
                found[key] = (
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{changed}</LastModified>"
                    f"<ETag>{escape(item.tag)}</ETag><Size>{len(item.data)}</Size></Contents>"
                )
        return _xml(
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(found.values())}</ListBucketResult>"
        )

    def _of_object(self, request: Request, key: str, query: Mapping[str, str]) -> Answer:
        if request.method in ("GET", "HEAD"):
            return self._read(request, key)
        if request.method == "DELETE":
            if "uploadId" in query:
                self._uploads.pop(query["uploadId"], None)
            else:
                self.objects.pop(key, None)
            return Answer(204)
        if request.method == "PUT":
            return self._put(request, key, query)
        if "uploads" in query:
            upload = f"upload-{next(self._numbers)}"
            self._uploads[upload] = {}
            return _xml(
                f"<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
        pieces = self._uploads.pop(query["uploadId"], None)
        if pieces is None:
            return _error(404, "NoSuchUpload")
        self.objects[key] = _Object(b"".join(pieces[number] for number in sorted(pieces)))
        return _xml(
            f"<CompleteMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key>"
            f"<ETag>{escape(self.objects[key].tag)}</ETag></CompleteMultipartUploadResult>"
        )

    def _read(self, request: Request, key: str) -> Answer:
        item = self.objects.get(key)
        if item is None:
            return _error(404, "NoSuchKey")
        span = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        if request.method == "HEAD":
            return Answer(200, b"", {**item.headers, "content-length": str(len(item.data))})
        if span is None:
            return Answer(200, item.data, item.headers)
        size = len(item.data)
        start = int(span[1]) if span[1] else size - int(span[2])
        end = min(int(span[2]) + 1 if span[1] and span[2] else size, size)
        if start >= size:
            return _error(416, "InvalidRange")
        return Answer(206, item.data[start:end], {**item.headers, "content-range": f"bytes {start}-{end - 1}/{size}"})

    def _put(self, request: Request, key: str, query: Mapping[str, str]) -> Answer:
        data = _plain(request)
        if "uploadId" in query:
            pieces = self._uploads.get(query["uploadId"])
            if pieces is None:
                return _error(404, "NoSuchUpload")
            pieces[int(query["partNumber"])] = data
            return Answer(200, b"", {"etag": _Object(data).tag})
        if request.headers.get("if-none-match") == "*" and key in self.objects:
            return _error(412, "PreconditionFailed")
        self.objects[key] = _Object(data)
        return Answer(200, b"", {"etag": self.objects[key].tag})


def _plain(request: Request) -> bytes:
    """The content, out of the chunks that Amazon's own clients send it in."""
    if "x-amz-decoded-content-length" not in request.headers:
        return request.body
    parts, at = [], 0
    while True:
        end = request.body.index(b"\r\n", at)
        size = int(request.body[at:end].split(b";")[0], 16)
        if not size:
            return b"".join(parts)
        parts.append(request.body[end + 2 : end + 2 + size])
        at = end + 4 + size


def _xml(text: str) -> Answer:
    return Answer(200, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(), {"content-type": "application/xml"})


def _error(status: int, code: str) -> Answer:
    return Answer(
        status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode(), {"connection": "close"}
    )


def main(host: str | None = None) -> None:
    """Print the port, and serve until whoever started this is gone."""

    class Handler(_Handler):
        plan = _Plan()
        backend = staticmethod(S3Model() if host is None else Forwarder(host))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])

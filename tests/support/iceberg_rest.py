"""A REST catalog of Iceberg for tests, with faults: what PyIceberg asks of one, answered by its own SQL catalog.

with RestCatalogServer(folder) as server:
    server.fail(Fault("POST", "/tables/orders", CUT))  # the next commit is carried out, its answer lost
    ...use server.uri and TOKEN...
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest

TOKEN: Final = "let-me-in"
BUSY: Final = "busy"  # 503, nothing is done
ABSENT: Final = "absent"  # the connection is cut, nothing is done
CUT: Final = "cut"  # carried out, the connection is cut instead of an answer
UNKNOWN: Final = "unknown"  # carried out, 504: of a gateway that did not wait for the answer
DENIED: Final = "denied"  # 401, nothing is done
NONE: Final = "none"  # all is well; for what others do meanwhile

_BEFORE: Final = {BUSY: (503, "busy"), DENIED: (401, "the token has expired")}
_ERRORS: Final = (
    (CommitFailedException, 409),
    (NamespaceAlreadyExistsError, 409),
    (TableAlreadyExistsError, 409),
    (NoSuchNamespaceError, 404),
    (NoSuchTableError, 404),
)


@dataclass
class Fault:
    """What happens to the next ``times`` requests of this method whose path ends so.

    ``before`` and ``after`` are what others do right before and after it is carried out.
    """

    method: str
    path_end: str
    kind: str
    times: int = 1
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None

    def meets(self, method: str, path: str) -> bool:
        return self.times > 0 and method == self.method and path.endswith(self.path_end)


class RestCatalogServer:
    """At ``uri`` between ``with`` and its end; ``seen`` are the requests, those that failed too."""

    def __init__(self, warehouse: Path, *, overrides: dict[str, str] | None = None) -> None:
        warehouse.mkdir(parents=True, exist_ok=True)
        self.seen: list[tuple[str, str]] = []
        self._behind = SqlCatalog("behind", uri=f"sqlite:///{warehouse}/rest.db", warehouse=f"file://{warehouse}")
        self._overrides = overrides or {}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self.uri = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._behind.close()

    def fail(self, *faults: Fault) -> None:
        with self._lock:
            self._faults += faults

    @property
    def pending(self) -> list[Fault]:
        """Faults that have not happened yet."""
        return [fault for fault in self._faults if fault.times]

    def fault_of(self, method: str, path: str) -> Fault | None:
        with self._lock:
            self.seen.append((method, path))
            for fault in self._faults:
                if fault.meets(method, path):
                    fault.times -= 1
                    return fault
        return None

    def answer(self, method: str, path: str, query: str, body: bytes) -> tuple[int, Any]:
        with self._lock:
            try:
                return 200, self._done(method, path.removeprefix("/v1/").split("/"), query, body)
            except Exception as error:
                status = next((status for kind, status in _ERRORS if isinstance(error, kind)), 500)
                return status, told(status, type(error).__name__, str(error))

    def _done(self, method: str, parts: list[str], query: str, body: bytes) -> Any:
        namespace = tuple(unquote(parts[1]).split("\x1f")) if len(parts) > 1 else ()
        match method, *parts:
            case "GET", "config":
                return {"defaults": {}, "overrides": self._overrides}
            case "GET", "namespaces":
                return {"namespaces": self._behind.list_namespaces()}
            case "POST", "namespaces":
                asked = json.loads(body)
                self._behind.create_namespace(tuple(asked["namespace"]), asked["properties"])
                return asked
            case "GET", "namespaces", _:
                return {"namespace": namespace, "properties": dict(self._behind.load_namespace_properties(namespace))}
            case "GET", "namespaces", _, "tables":
                names = self._behind.list_tables(namespace)
                return {"identifiers": [{"namespace": name[:-1], "name": name[-1]} for name in names]}
            case "POST", "namespaces", _, "tables":
                return self._staged(
                    namespace, CreateTableRequest.model_validate({"location": None, **json.loads(body)})
                )
            case "GET", "namespaces", _, "tables", name:
                table = self._behind.load_table((*namespace, unquote(name)))
                return _told_table(table, only_refs="snapshots=refs" in query)
            case "POST", "namespaces", _, "tables", name:
                commit = CommitTableRequest.model_validate_json(body)
                named: Any = SimpleNamespace(name=lambda: (*namespace, unquote(name)))
                return _told_table(self._behind.commit_table(named, commit.requirements, commit.updates))
        raise NoSuchNamespaceError(f"no such address: {method} {'/'.join(parts)}")

    def _staged(self, namespace: tuple[str, ...], asked: CreateTableRequest) -> Any:
        """Tables are made by a commit that says so; here one only learns what it will be."""
        assert asked.stage_create
        name = (*namespace, asked.name)
        if not self._behind.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"there is no namespace {namespace}")
        if self._behind.table_exists(name):
            raise TableAlreadyExistsError(f"there is a table {name}")
        kept = (asked.partition_spec, asked.write_order, asked.properties)
        return _told_table(self._behind._create_staged_table(name, asked.table_schema, asked.location, *kept))


def told(status: int, kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": status}}


def _told_table(table: Any, *, only_refs: bool = False) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    if only_refs:
        named = {ref["snapshot-id"] for ref in metadata["refs"].values()}
        metadata["snapshots"] = [each for each in metadata["snapshots"] if each["snapshot-id"] in named]
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _handler_of(server: RestCatalogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            where = urlsplit(self.path)
            fault = server.fault_of(self.command, where.path)
            kind = fault.kind if fault is not None else ""
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self._send(401, told(401, "NotAuthorizedException", "who are you?"))
            if kind in _BEFORE:
                status, why = _BEFORE[kind]
                return self._send(status, told(status, "Fault", why))
            if kind == ABSENT:
                return self._cut()
            if fault is not None:
                fault.before()
            status, answer = server.answer(self.command, where.path, where.query, body)
            if fault is not None:
                fault.after()
            if kind == CUT:
                return self._cut()
            if kind == UNKNOWN:
                return self._send(504, told(504, "Fault", "the gateway did not wait"))
            return self._send(status, answer)

        def _cut(self) -> None:
            self.close_connection = True

        def _send(self, status: int, answer: Any) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler

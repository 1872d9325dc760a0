"""One client on one connection, as its heartbeats describe it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flaremq.protocol.bodies.client import ClientConnection
from flaremq.remoting.connection import Connection

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ClientInfo:
    """Who registered on a connection. The two times belong to the last heartbeat: one to show, one to measure."""

    connection: Connection
    client_id: str
    language: str
    version: int
    last_update_ms: int = 0
    last_seen: float = 0.0  # monotonic seconds: a clock that is set must not expire anybody

    def to_body(self) -> ClientConnection:
        return ClientConnection(
            client_id=self.client_id,
            client_addr=self.connection.peer,
            language=self.language,
            version=self.version,
        )


def drop_silent(
    members: Iterable[ClientInfo], deadline: float, kind: str, on_closed: Callable[[Connection], None]
) -> int:
    """Close the connections of members whose last heartbeat came before ``deadline``; how many members that were."""
    late = [info.connection for info in members if info.last_seen < deadline]
    for connection in dict.fromkeys(late):
        _log.warning("no heartbeat from the %s at %s for too long", kind, connection.peer)
        on_closed(connection)
        connection.close()
    return len(late)

"""The producers that are online: targets of transaction checks and of replies."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flaremq.broker.members.client_info import ClientInfo, drop_silent
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pace import PacedTable, paced
from flaremq.clock import Clock
from flaremq.protocol.bodies.client import ProducerConnection, ProducerInfo, ProducerTableInfo
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.remoting.connection import Connection

_log = logging.getLogger(__name__)


class ProducerTable:
    """All producers that are online. Event loop only."""

    def __init__(self, options: BrokerOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._groups: dict[str, dict[Connection, ClientInfo]] = {}
        self._groups_of: dict[Connection, set[str]] = {}
        self._clients: dict[str, Connection] = {}  # by client id; the newest connection of an account wins
        self._registrations = 0
        self._turn = 0
        # What access control says of connections: whose they are, and whether they may send to a topic.
        self.account_of: Callable[[Connection], str] = lambda _: ""
        self.may_send: Callable[[Connection, str], bool] = lambda _, topic: True

    def groups(self) -> list[str]:
        return list(self._groups)

    def connections(self, group: str) -> list[ClientInfo]:
        """The clients of a group."""
        return list(self._groups.get(group, {}).values())

    @property
    def registrations(self) -> int:
        """Pairs of client and group."""
        return self._registrations

    def pick(self, group: str, topic: str) -> Connection | None:
        """Some open connection of a group, another one each time, that may send to the topic.

        Anybody may call itself a producer of any group; whoever is picked is shown a message of the topic.
        """
        members = list(self._groups.get(group, ()))
        for _ in members:
            self._turn += 1
            connection = members[self._turn % len(members)]
            if connection.is_open and self.may_send(connection, topic):
                return connection
        return None

    def find_client(self, client_id: str) -> Connection | None:
        """The connection on which a client with this id registered as a producer."""
        return self._clients.get(client_id)

    def members(self) -> dict[str, list[ClientInfo]]:
        """The clients of every group; a copy."""
        return {group: list(members.values()) for group, members in self._groups.items()}

    def register(self, group: str, info: ClientInfo) -> bool:
        """Take one producer entry of a heartbeat; True if it is new."""
        connection = info.connection
        members = self._groups.get(group)
        is_new = members is None or connection not in members
        if is_new:
            if self._registrations >= self._options.registrations_max:
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY, f"{self._registrations} producers are registered, no more are allowed"
                )
            self._registrations += 1
            members = self._groups.setdefault(group, {})
            self._groups_of.setdefault(connection, set()).add(group)
            _log.debug("producer %s at %s joins group %s", info.client_id, connection.peer, group)
        assert members is not None
        info.last_update_ms = self._clock.now_ms()
        info.last_seen = self._clock.monotonic()
        old = members.get(connection)
        if old is not None and old.client_id != info.client_id:
            self._forget_client(old)
        members[connection] = info
        holder = self._clients.get(info.client_id)
        # A client id is but a word: the replies to one account's client are not for another that says the same.
        if holder is None or not holder.is_open or self.account_of(holder) == self.account_of(connection):
            self._clients[info.client_id] = connection
        return is_new

    def unregister(self, group: str, connection: Connection) -> bool:
        """One client leaves one group; False if it was not there."""
        members = self._groups.get(group)
        if members is None or connection not in members:
            return False
        info = members.pop(connection)
        self._registrations -= 1
        if not members:
            del self._groups[group]
        names = self._groups_of[connection]
        names.discard(group)
        if not names:
            del self._groups_of[connection]
            self._forget_client(info)
        _log.debug("producer %s at %s leaves group %s", info.client_id, connection.peer, group)
        return True

    def connection_closed(self, connection: Connection) -> None:
        """The client behind a connection left all its groups."""
        for group in list(self._groups_of.get(connection, ())):
            self.unregister(group, connection)

    def expire(self) -> int:
        """Drop clients without a heartbeat for too long and close their connections; how many."""
        deadline = self._clock.monotonic() - self._options.channel_expired_timeout / 1000
        members = (info for members in self._groups.values() for info in members.values())
        return drop_silent(members, deadline, "producer", self.connection_closed)

    def _forget_client(self, info: ClientInfo) -> None:
        if self._clients.get(info.client_id) is info.connection:
            del self._clients[info.client_id]


def render_producers(members: list[ClientInfo]) -> bytes:
    """GET_PRODUCER_CONNECTION_LIST. Any thread."""
    return ProducerConnection(connection_set=tuple(info.to_body() for info in paced(members))).to_json()


def render_producer_table(groups: dict[str, list[ClientInfo]]) -> bytes:
    """GET_ALL_PRODUCER_INFO. Any thread."""
    data: dict[str, tuple[ProducerInfo, ...]] = PacedTable()
    for group, members in groups.items():
        data[group] = tuple(
            ProducerInfo(
                client_id=info.client_id,
                remote_ip=info.connection.peer,
                language=info.language,
                version=info.version,
                last_update_timestamp=info.last_update_ms,
            )
            for info in paced(members)
        )
    return ProducerTableInfo(data=data).to_json()

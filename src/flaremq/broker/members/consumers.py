"""The consumers that are online: which clients of which groups, and what they subscribe to.

Heartbeats register, and register again every 30 s; silence for ``channelExpiredTimeout`` or a closed connection
unregisters. Whenever the clients or topics of a group change, every client of the group is told to share the queues out
anew (NOTIFY_CONSUMER_IDS_CHANGED), the newcomer too, but not in broadcasting groups, where nothing is shared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from flaremq.broker.filter.subscription import checked_subscription
from flaremq.broker.members.client_info import ClientInfo, drop_silent
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pace import PacedTable, paced
from flaremq.clock import Clock
from flaremq.protocol.bodies.client import ConsumerConnection, ConsumerData, SubscriptionData
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.connection import Connection

_log = logging.getLogger(__name__)

BROADCASTING: Final = "BROADCASTING"

# Of all groups together; what one group may have is an option.
SUBSCRIPTIONS_MAX: Final = 500_000
SUBSCRIPTION_BYTES_MAX: Final = 128 << 20
_TAG_BYTES: Final = 128  # what a tag and its hash take in memory, besides the text they are in

# A thousand clients that come together would be told of each other a million times. Up to this many are told at once,
# a larger group after a pause, of all that happened meanwhile.
_NOTIFY_AT_ONCE_MAX: Final = 32
_NOTIFY_PAUSE_SECONDS: Final = 0.2


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """The online part of a consumer group."""

    name: str
    connections: dict[Connection, ClientInfo] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    last_update_ms: int = 0
    notify_is_due: bool = False

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Each client once, though it may have two connections for a moment while it reconnects."""
        return list({info.client_id: None for info in self.connections.values()})

    def renderer(self) -> Callable[[], bytes]:
        """GET_CONSUMER_CONNECTION_LIST: writes the group as it is now, on any thread."""
        members = list(self.connections.values())
        body = ConsumerConnection(
            connection_set=(),
            subscription_table=PacedTable(self.subscriptions),
            consume_type=self.consume_type,
            message_model=self.message_model,
            consume_from_where=self.consume_from_where,
        )
        return lambda: replace(body, connection_set=tuple(info.to_body() for info in paced(members))).to_json()


class ConsumerTable:
    """All consumers that are online. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        *,
        subscriptions_max: int = SUBSCRIPTIONS_MAX,
        subscription_bytes_max: int = SUBSCRIPTION_BYTES_MAX,
    ) -> None:
        self._options = options
        self._clock = clock
        self._subscriptions_max = subscriptions_max
        self._subscription_bytes_max = subscription_bytes_max
        self._subscriptions = 0  # over all groups
        self._subscription_bytes = 0
        self._groups: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[Connection, set[str]] = {}
        self._registrations = 0
        # Called with the group and its subscriptions at every full heartbeat, with the group when its last client left.
        self.on_subscribed: list[Callable[[str, Collection[SubscriptionData]], None]] = []
        self.on_gone: list[Callable[[str], None]] = []

    # Looking

    def find_group(self, group: str) -> ConsumerGroup | None:
        return self._groups.get(group)

    def groups(self) -> list[str]:
        """Every group that is online."""
        return list(self._groups)

    def groups_subscribed_to(self, topic: str) -> set[str]:
        return {name for name, group in self._groups.items() if topic in group.subscriptions}

    def client_ids(self, group: str) -> list[str]:
        found = self._groups.get(group)
        return [] if found is None else found.client_ids()

    def find_connection(self, group: str, client_id: str) -> Connection | None:
        """The newest connection of a client of the group."""
        found = self._groups.get(group)
        if found is not None:
            for connection, info in reversed(found.connections.items()):
                if info.client_id == client_id:
                    return connection
        return None

    def find_subscription(self, group: str, topic: str) -> SubscriptionData | None:
        found = self._groups.get(group)
        return None if found is None else found.subscriptions.get(topic)

    @property
    def registrations(self) -> int:
        """Pairs of client and group."""
        return self._registrations

    # Coming and going

    def register(
        self,
        info: ClientInfo,
        data: ConsumerData,
        *,
        notify: bool = True,
        keep_subscriptions: bool = False,
        is_checked: bool = False,
    ) -> bool:
        """Take one consumer entry of a heartbeat; True if the group changed.

        ``keep_subscriptions`` is for heartbeats that leave the subscriptions out because nothing changed,
        ``is_checked`` for those whose subscriptions went through :meth:`checked` already.
        """
        subscriptions = {} if keep_subscriptions else self._newest(data, is_checked=is_checked)
        connection = info.connection
        group = self._groups.get(data.group_name)
        is_new = group is None or connection not in group.connections
        if is_new and self._registrations >= self._options.registrations_max:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, f"{self._registrations} consumers are registered, no more are allowed"
            )
        if not keep_subscriptions:
            self._count({} if group is None else group.subscriptions, subscriptions)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(data.group_name)
        if is_new:
            self._registrations += 1
            self._groups_of.setdefault(connection, set()).add(data.group_name)
            _log.info("consumer %s at %s joins group %s", info.client_id, connection.peer, group.name)
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        self._stamp(group, info)
        group.connections[connection] = info
        changed = is_new
        if not keep_subscriptions:
            changed |= subscriptions.keys() != group.subscriptions.keys()
            group.subscriptions = subscriptions
            for listener in self.on_subscribed:
                listener(group.name, group.subscriptions.values())
        if changed and notify:
            self._notify(group)
        return changed

    def unregister(self, group: str, connection: Connection, *, notify: bool = True) -> bool:
        """One client leaves one group; False if it was not there."""
        found = self._groups.get(group)
        if found is None or connection not in found.connections:
            return False
        info = found.connections.pop(connection)
        self._registrations -= 1
        names = self._groups_of[connection]
        names.discard(group)
        if not names:
            del self._groups_of[connection]
        _log.info("consumer %s at %s leaves group %s", info.client_id, connection.peer, group)
        if not found.connections:
            del self._groups[group]
            self._count(found.subscriptions, {})
            for listener in self.on_gone:
                listener(group)
        elif notify:
            self._notify(found)
        return True

    def connection_closed(self, connection: Connection) -> None:
        """The client behind a connection left all its groups."""
        for group in list(self._groups_of.get(connection, ())):
            self.unregister(group, connection, notify=self._options.notify_consumer_ids_changed_enable)

    def expire(self) -> int:
        """Drop clients without a heartbeat for too long and close their connections; how many."""
        deadline = self._clock.monotonic() - self._options.channel_expired_timeout / 1000
        members = (info for group in self._groups.values() for info in group.connections.values())
        return drop_silent(members, deadline, "consumer", self.connection_closed)

    # The parts of a registration

    def checked(self, data: ConsumerData) -> ConsumerData:
        """The entry with subscriptions as they are kept; RequestError if they cannot be. Any thread."""
        self._check_count(data)
        bytes_max = self._options.filter_expression_bytes_max
        subscriptions = (checked_subscription(one, bytes_max=bytes_max) for one in data.subscription_data_set)
        return replace(data, subscription_data_set=tuple(subscriptions))

    def _newest(self, data: ConsumerData, *, is_checked: bool) -> dict[str, SubscriptionData]:
        """What the group subscribes to from now on: newer versions win, topics no longer named are dropped."""
        self._check_count(data)
        bytes_max = self._options.filter_expression_bytes_max
        known = self._groups.get(data.group_name)
        result = {}
        for subscription in data.subscription_data_set:
            old = None if known is None else known.subscriptions.get(subscription.topic)
            if old is not None and old.sub_version >= subscription.sub_version:
                subscription = old
            elif not is_checked:
                subscription = checked_subscription(subscription, bytes_max=bytes_max)
            result[subscription.topic] = subscription
        return result

    def _check_count(self, data: ConsumerData) -> None:
        count = len(data.subscription_data_set)
        if count > self._options.subscriptions_per_group_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"group {data.group_name} subscribes to {count} topics, too many"
            )

    def _count(self, old: dict[str, SubscriptionData], new: dict[str, SubscriptionData]) -> None:
        """Account for a group's change; RequestError if all groups together would have too much."""
        more = len(new) - len(old)
        more_bytes = sum(_weight(one) for topic, one in new.items() if old.get(topic) is not one)
        more_bytes -= sum(_weight(one) for topic, one in old.items() if new.get(topic) is not one)
        if more > 0 and self._subscriptions + more > self._subscriptions_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the groups of this broker have {self._subscriptions} subscriptions, "
                f"at most {self._subscriptions_max} are kept",
            )
        if more_bytes > 0 and self._subscription_bytes + more_bytes > self._subscription_bytes_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"the subscriptions of this broker's groups take {self._subscription_bytes} bytes, "
                f"at most {self._subscription_bytes_max} are kept",
            )
        self._subscriptions += more
        self._subscription_bytes += more_bytes

    def _stamp(self, group: ConsumerGroup, info: ClientInfo) -> None:
        info.last_update_ms = group.last_update_ms = self._clock.now_ms()
        info.last_seen = self._clock.monotonic()

    def _notify(self, group: ConsumerGroup) -> None:
        if group.is_broadcasting:
            return
        if len(group.connections) <= _NOTIFY_AT_ONCE_MAX:
            self._notify_now(group)
        elif not group.notify_is_due:
            group.notify_is_due = True
            asyncio.get_running_loop().call_later(_NOTIFY_PAUSE_SECONDS, self._notify_now, group)

    def _notify_now(self, group: ConsumerGroup) -> None:
        group.notify_is_due = False
        for connection in list(group.connections):
            connection.notify(
                RemotingCommand.request(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group.name}, oneway=True
                )
            )


def _weight(subscription: SubscriptionData) -> int:
    """About the bytes a subscription keeps."""
    text = len(subscription.topic.encode("utf-8", "surrogatepass"))
    text += len(subscription.sub_string.encode("utf-8", "surrogatepass"))
    return text + _TAG_BYTES * len(subscription.tags_set)

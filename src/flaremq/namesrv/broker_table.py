"""Who is alive: clusters, the groups of brokers that share a name, and the address of each broker.

A *group* is what RocketMQ calls a broker name: one master (id 0) and its slaves. Each address of a group has a live
entry, and the two come and go together; clusters are the clusters of the live entries. Plain state: no I/O, no
clock of its own, times are handed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from flaremq.protocol.bodies.topic import DataVersion

MASTER_ID = 0


@dataclass(slots=True)
class LiveBroker:
    """One broker process that registered and was heard of since."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    connection: object | None  # compared by identity only
    last_update_ms: int
    timeout_ms: int
    fingerprint: bytes = b""  # of the registration request
    deletions_seen: int = 0  # of topics, when it came

    def is_expired(self, now_ms: int) -> bool:
        return now_ms - self.last_update_ms > self.timeout_ms


@dataclass(slots=True)
class BrokerGroup:
    """The brokers of one name by their ids."""

    cluster: str
    broker_name: str
    addresses: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None

    @property
    def has_master(self) -> bool:
        return MASTER_ID in self.addresses


class BrokerTable:
    """All groups and live entries of a name server."""

    def __init__(self) -> None:
        self.groups: dict[str, BrokerGroup] = {}
        self.live: dict[tuple[str, str], LiveBroker] = {}  # by cluster and address
        self.clusters: dict[str, dict[str, None]] = {}  # names in the order they came

    def find_live(self, cluster: str, address: str) -> LiveBroker | None:
        return self.live.get((cluster, address))

    def add(self, broker: LiveBroker) -> bool:
        """Enter a broker, or replace what it was. True when its group did not know this id before.

        An address belongs to one id: a slave that became master leaves its old id.
        """
        group = self.groups.get(broker.broker_name)
        if group is None:
            group = self.groups[broker.broker_name] = BrokerGroup(broker.cluster, broker.broker_name)
        for broker_id in [key for key, address in group.addresses.items() if address == broker.address]:
            if broker_id != broker.broker_id:
                del group.addresses[broker_id]
        previous = group.addresses.get(broker.broker_id)
        if previous is not None and previous != broker.address:
            self.live.pop((broker.cluster, previous), None)
        group.addresses[broker.broker_id] = broker.address
        self.live[broker.cluster, broker.address] = broker
        self.clusters.setdefault(broker.cluster, {})[broker.broker_name] = None
        return previous is None

    def remove(self, broker: LiveBroker) -> BrokerGroup | None:
        """Forget a broker; returns what is left of its group, None when that was the last one."""
        self.live.pop((broker.cluster, broker.address), None)
        if not any(other.broker_name == broker.broker_name for other in self._of_cluster(broker.cluster)):
            names = self.clusters.get(broker.cluster, {})
            names.pop(broker.broker_name, None)
            if not names:
                self.clusters.pop(broker.cluster, None)
        group = self.groups.get(broker.broker_name)
        if group is None:
            return None
        for broker_id in [key for key, address in group.addresses.items() if address == broker.address]:
            del group.addresses[broker_id]
        if group.addresses:
            return group
        del self.groups[broker.broker_name]
        return None

    def of_connection(self, connection: object) -> list[LiveBroker]:
        """The brokers that registered last over this connection."""
        return [broker for broker in self.live.values() if broker.connection is connection]

    def expired(self, now_ms: int) -> list[LiveBroker]:
        return [broker for broker in self.live.values() if broker.is_expired(now_ms)]

    def _of_cluster(self, cluster: str) -> Iterator[LiveBroker]:
        return (broker for broker in self.live.values() if broker.cluster == cluster)

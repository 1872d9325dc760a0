"""RouteInfo: the name server's one table, who has which queues at which address.

Brokers fill it by registering; nothing of it is ever written to disk, a new name server learns everything within one
registration interval. The table is plain state: no I/O, no clock, no locks. Whoever owns it (the event loop of the
service) calls it from one thread and hands in the time.

How topics get in and out:

* A registration of a master, or of a 5.x slave that has the lowest id of its group, enters the topics it names, if
  anything may have changed since the last one (the data version says so) or an entry is missing. It never removes a
  topic, because 5.x brokers register single topics (unless the option says that brokers always send all).
* A topic goes when it is deleted here, or with the last broker of its last group.
* Wiping the write permission lasts until a registration with another data version brings the broker's own view back.

Everything a stranger can make grow has a maximum: a name server asks nobody for a password.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flaremq.java_json import write_java_json
from flaremq.namesrv.broker_table import MASTER_ID, BrokerGroup, BrokerTable, LiveBroker
from flaremq.namesrv.topic_queues import TopicQueues, queue_data, with_write, without_write
from flaremq.protocol.bodies.route import BrokerData, BrokerMemberGroup, ClusterInfo, QueueData, TopicRouteData
from flaremq.protocol.bodies.topic import DataVersion, TopicConfig
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError

UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
NAME_LENGTH_MAX = 255
BROKERS_MAX = 10_000
QUEUE_ENTRIES_MAX = 2_000_000  # topics times groups; about 300 bytes each
FILTER_SERVERS_MAX = 20_000
FILTER_SERVERS_PER_BROKER_MAX = 64
MAPPINGS_MAX = 20_000
MAPPINGS_PER_BROKER_MAX = 5_000
MAPPING_BYTES_MAX = 16 << 10  # of one, as JSON: about 1,500 queues
# A 5.x broker keeps notes about its group in a topic of this prefix; its route must show the true roles.
_MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """What a broker says about itself."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    timeout_ms: int
    data_version: DataVersion
    topics: Mapping[str, TopicConfig]
    enable_acting_master: bool | None = None  # None: a 4.x broker, which knows no such thing
    zone_name: str | None = None
    filter_servers: tuple[str, ...] = ()
    mappings: Mapping[str, Any] | None = None  # of 5.x's static topics, passed on unread
    fingerprint: bytes = b""  # of the whole request: equal ones say the same

    def __post_init__(self) -> None:
        """RequestError for what no broker can mean: checked where it is made, perhaps not on the event loop."""
        if len(self.filter_servers) > FILTER_SERVERS_PER_BROKER_MAX:
            raise _too_much(f"{len(self.filter_servers)} filter servers, at most {FILTER_SERVERS_PER_BROKER_MAX}")
        for server in self.filter_servers:
            _check_name("filter server", server)
        if self.mappings is not None and len(self.mappings) > MAPPINGS_PER_BROKER_MAX:
            raise _too_much(f"{len(self.mappings)} mappings of static topics, at most {MAPPINGS_PER_BROKER_MAX}")
        for topic, mapping in (self.mappings or {}).items():
            _check_name("topic", topic)
            size = len(write_java_json(mapping))
            if size > MAPPING_BYTES_MAX:
                raise _too_much(f"a mapping of {topic} with {size} bytes, at most {MAPPING_BYTES_MAX}")


@dataclass(frozen=True, slots=True)
class RegisterResult:
    """What a slave is told about its master; None for a master, or when there is none."""

    master_address: str | None = None
    ha_address: str | None = None


class RouteInfo:
    """Topics, brokers and clusters of one name server."""

    def __init__(
        self,
        *,
        brokers_max: int = BROKERS_MAX,
        queue_entries_max: int = QUEUE_ENTRIES_MAX,
        filter_servers_max: int = FILTER_SERVERS_MAX,
        mappings_max: int = MAPPINGS_MAX,
    ) -> None:
        self.brokers = BrokerTable()
        self.queues = TopicQueues()
        self._filter_servers: dict[str, tuple[str, ...]] = {}  # by broker address
        self._brokers_max = brokers_max
        self._queue_entries_max = queue_entries_max
        self._filter_servers_max = filter_servers_max
        self._mappings_max = mappings_max

    # Brokers come and go

    def register(
        self,
        registration: BrokerRegistration,
        connection: object | None,
        now_ms: int,
        *,
        delete_missing_topics: bool = False,
    ) -> RegisterResult:
        """Enter or refresh a broker and, if it speaks for its group, its topics. RequestError when refused."""
        self._check(registration)
        brokers = self.brokers
        previous = brokers.find_live(registration.cluster, registration.address)
        if previous is not None and previous.broker_name != registration.broker_name:
            self._forget(previous)  # the same process under a new name
            previous = None
        broker = LiveBroker(
            cluster=registration.cluster,
            broker_name=registration.broker_name,
            broker_id=registration.broker_id,
            address=registration.address,
            ha_address=registration.ha_address,
            data_version=registration.data_version,
            connection=connection,
            last_update_ms=now_ms,
            timeout_ms=registration.timeout_ms,
            fingerprint=registration.fingerprint,
            deletions_seen=self.queues.deletions,
        )
        is_new = brokers.add(broker) or previous is None
        group = brokers.groups[registration.broker_name]
        group.enable_acting_master = bool(registration.enable_acting_master)
        group.zone_name = registration.zone_name
        if _speaks_for_group(registration, group):
            changed = is_new or previous is None or previous.data_version != registration.data_version
            self._enter_topics(registration, changed=changed, delete_missing=delete_missing_topics)
        if registration.filter_servers:
            self._filter_servers[registration.address] = registration.filter_servers
        else:
            self._filter_servers.pop(registration.address, None)
        return self._master_for(broker)

    def refresh(
        self, cluster: str, address: str, fingerprint: bytes, connection: object, now_ms: int
    ) -> RegisterResult | None:
        """The answer to a registration that repeats the last one word for word; None if it must be read after all.

        Brokers send all their topics every 30 seconds; with many topics the reading is what a name server does most.
        """
        broker = self.brokers.find_live(cluster, address)
        if broker is None or broker.fingerprint != fingerprint or broker.connection is not connection:
            return None
        if broker.deletions_seen != self.queues.deletions:
            return None  # perhaps one of its topics is missing now
        broker.last_update_ms = now_ms
        return self._master_for(broker)

    def unregister(self, *, cluster: str, broker_name: str, address: str) -> None:
        """A broker says goodbye; an unknown one is nothing to complain about."""
        broker = self.brokers.find_live(cluster, address)
        if broker is not None and broker.broker_name == broker_name:
            self._forget(broker)

    def connection_lost(self, connection: object) -> list[LiveBroker]:
        """Forget the brokers behind a connection; one that has since registered over another stays."""
        lost = self.brokers.of_connection(connection)
        for broker in lost:
            self._forget(broker)
        return lost

    def expire(self, now_ms: int) -> list[LiveBroker]:
        """Forget the brokers that have been silent for too long."""
        expired = self.brokers.expired(now_ms)
        for broker in expired:
            self._forget(broker)
        return expired

    def touch(self, cluster: str, address: str, now_ms: int) -> None:
        """A broker is alive and has nothing new."""
        broker = self.brokers.find_live(cluster, address)
        if broker is not None:
            broker.last_update_ms = now_ms

    def find_data_version(self, cluster: str, address: str) -> DataVersion | None:
        """What was last registered by this broker."""
        broker = self.brokers.find_live(cluster, address)
        return None if broker is None else broker.data_version

    # Changes from outside

    def register_topic(self, topic: str, entries: Iterable[QueueData]) -> None:
        """Enter queues of a topic by hand; nothing is entered if one of the groups is unknown."""
        entries = list(entries)
        _check_name("topic", topic)
        unknown = [entry.broker_name for entry in entries if entry.broker_name not in self.brokers.groups]
        if unknown:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"no broker {unknown[0][:NAME_LENGTH_MAX]} is registered")
        self._check_room(sum(not self.queues.has(topic, entry.broker_name) for entry in entries))
        for entry in entries:
            self.queues.put(topic, entry)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, everywhere or at the brokers of one cluster."""
        names = None if cluster is None else list(self.brokers.clusters.get(cluster, ()))
        self.queues.delete(topic, names)

    def wipe_write_perm(self, broker_name: str) -> int:
        """No more sends to a group, for the time being; returns how many topics it has."""
        return self.queues.change_perms(broker_name, without_write)

    def add_write_perm(self, broker_name: str) -> int:
        return self.queues.change_perms(broker_name, with_write)

    # Questions

    def find_route(self, topic: str, *, support_acting_master: bool = False) -> TopicRouteData | None:
        """The queues of a topic and where their brokers are; None unless there is one of each."""
        entries = tuple(self.queues.table.get(topic, {}).values())
        groups = [group for entry in entries if (group := self.brokers.groups.get(entry.broker_name)) is not None]
        if not groups:
            return None
        datas = [broker_data(group) for group in groups]
        if support_acting_master and not topic.startswith(_MEMBER_TOPIC_PREFIX):
            writable = {entry.broker_name for entry in entries if entry.perm != without_write(entry.perm)}
            datas = [data if data.broker_name in writable else _with_acting_master(data) for data in datas]
        addresses = [address for data in datas for address in data.broker_addrs.values()]
        filters = {address: self._filter_servers[address] for address in addresses if address in self._filter_servers}
        return TopicRouteData(
            queue_datas=entries,
            broker_datas=tuple(datas),
            filter_server_table=filters,
            topic_queue_mapping_by_broker=self.queues.mappings.get(topic),
        )

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={name: broker_data(group) for name, group in self.brokers.groups.items()},
            cluster_addr_table={cluster: tuple(names) for cluster, names in self.brokers.clusters.items()},
        )

    def member_group(self, cluster: str, broker_name: str) -> BrokerMemberGroup:
        """The live members of a group; empty for one that nobody knows."""
        group = self.brokers.groups.get(broker_name)
        addresses = {} if group is None or group.cluster != cluster else dict(group.addresses)
        return BrokerMemberGroup(cluster=cluster, broker_name=broker_name, broker_addrs=addresses)

    def topics(self) -> list[str]:
        return list(self.queues.table)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        return self.queues.topics_of(self.brokers.clusters.get(cluster, ()))

    def system_topics(self) -> tuple[list[str], str | None]:
        """Cluster and broker names, which are topics too, and an address that knows the other system topics."""
        names = list(dict.fromkeys([*self.brokers.clusters, *self.brokers.groups]))
        addresses = [address for group in self.brokers.groups.values() for address in group.addresses.values()]
        return names, addresses[0] if addresses else None

    def unit_topics(self) -> list[str]:
        return self.queues.topics_where(lambda flag: bool(flag & UNIT_FLAG))

    def unit_sub_topics(self) -> list[str]:
        return self.queues.topics_where(lambda flag: bool(flag & UNIT_SUB_FLAG))

    def unit_sub_ununit_topics(self) -> list[str]:
        return self.queues.topics_where(lambda flag: bool(flag & UNIT_SUB_FLAG) and not flag & UNIT_FLAG)

    # Private

    def _check(self, registration: BrokerRegistration) -> None:
        """Refuse what cannot be right before anything is changed."""
        for what, name in (
            ("clusterName", registration.cluster),
            ("brokerName", registration.broker_name),
            ("brokerAddr", registration.address),
            *(("topic", topic) for topic in registration.topics),
        ):
            _check_name(what, name)
        group = self.brokers.groups.get(registration.broker_name)
        known = None if group is None else group.addresses.get(registration.broker_id)
        if known is None and len(registration.topics) == 1:
            # Otherwise a broker whose first registration got lost would show up with the one topic that changed.
            raise RequestError(ResponseCode.SYSTEM_ERROR, "register broker failed: one topic is no first registration")
        if known is None and len(self.brokers.live) >= self._brokers_max:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"register broker failed: {self._brokers_max} are registered")
        if known is not None and known != registration.address:
            rival = self.brokers.find_live(registration.cluster, known)
            if rival is not None and rival.data_version.state_version > registration.data_version.state_version:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"register broker failed: {known} is a newer {registration.broker_name}:{registration.broker_id}",
                )
        new = sum(not self.queues.has(topic, registration.broker_name) for topic in registration.topics)
        self._check_room(new)
        self._check_extras(registration)

    def _check_room(self, new_entries: int) -> None:
        if new_entries and self.queues.count + new_entries > self._queue_entries_max:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"the name server is full: {self.queues.count} topic entries")

    def _check_extras(self, registration: BrokerRegistration) -> None:
        own = len(registration.filter_servers) - len(self._filter_servers.get(registration.address, ()))
        if own > 0 and sum(map(len, self._filter_servers.values())) + own > self._filter_servers_max:
            raise _too_much(f"with these there were more than {self._filter_servers_max} filter servers")
        queues, name = self.queues, registration.broker_name
        new = sum(
            not queues.has_mapping(topic, name)
            for topic in registration.mappings or ()
            if topic in registration.topics or queues.has(topic, name)
        )
        if new and queues.mapping_count + new > self._mappings_max:
            raise _too_much(f"with these there were more than {self._mappings_max} mappings of static topics")

    def _enter_topics(self, registration: BrokerRegistration, *, changed: bool, delete_missing: bool) -> None:
        queues, name = self.queues, registration.broker_name
        if delete_missing:
            for topic in queues.topics_of((name,)):
                if topic not in registration.topics:
                    queues.delete(topic, (name,))
        acting = registration.broker_id != MASTER_ID and registration.enable_acting_master
        for topic, config in registration.topics.items():
            if changed or not queues.has(topic, name):
                entry = queue_data(name, config)
                queues.put(topic, replace(entry, perm=without_write(entry.perm)) if acting else entry)
        if changed:
            for topic, mapping in (registration.mappings or {}).items():
                if queues.has(topic, name):
                    queues.put_mapping(topic, name, mapping)

    def _master_for(self, broker: LiveBroker) -> RegisterResult:
        address = self.brokers.groups[broker.broker_name].addresses.get(MASTER_ID)
        if broker.broker_id == MASTER_ID or address is None:
            return RegisterResult()
        master = self.brokers.find_live(broker.cluster, address)
        return RegisterResult(address, None if master is None else master.ha_address)

    def _forget(self, broker: LiveBroker) -> None:
        self._filter_servers.pop(broker.address, None)
        group = self.brokers.remove(broker)
        if group is None:
            self.queues.drop_broker(broker.broker_name)
        elif group.enable_acting_master and not group.has_master:
            self.queues.change_perms(broker.broker_name, without_write)


def broker_data(group: BrokerGroup) -> BrokerData:
    """A group as routes and cluster lists show it."""
    return BrokerData(
        cluster=group.cluster,
        broker_name=group.broker_name,
        broker_addrs=dict(group.addresses),
        enable_acting_master=group.enable_acting_master,
        zone_name=group.zone_name,
    )


def _speaks_for_group(registration: BrokerRegistration, group: BrokerGroup) -> bool:
    if registration.broker_id == MASTER_ID:
        return True
    return registration.enable_acting_master is not None and registration.broker_id == min(group.addresses)


def _with_acting_master(data: BrokerData) -> BrokerData:
    """The slave of the lowest id in the place of the master, if there is none and the brokers want that."""
    if not data.enable_acting_master or not data.broker_addrs or MASTER_ID in data.broker_addrs:
        return data
    lowest = min(data.broker_addrs)
    others = {broker_id: address for broker_id, address in data.broker_addrs.items() if broker_id != lowest}
    return replace(data, broker_addrs={MASTER_ID: data.broker_addrs[lowest], **others})


def _too_much(sentence: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, f"register broker failed: {sentence}")


def _check_name(what: str, name: str) -> None:
    if not name or len(name) > NAME_LENGTH_MAX:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{what} {name[:64]!r} is not 1 to {NAME_LENGTH_MAX} characters")

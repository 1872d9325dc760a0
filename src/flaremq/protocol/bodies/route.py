"""Routes: which brokers have a topic, and where those brokers are.

Broker ids are written as quoted keys for everybody: each client reads that, while the bare form, which Java's name
server uses for old clients and in cluster information, is no JSON. Both are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from flaremq.errors import RemoteProtocolError
from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, Bean
from flaremq.protocol.bodies.bean_rows import (
    anything,
    bean,
    bean_table,
    beans,
    flag,
    integer,
    integer_text_table,
    maybe_text,
    text,
    texts_table,
)
from flaremq.protocol.bodies.topic import PERM_READ, PERM_WRITE

BROKER_QUEUES_MAX: Final = 65_536  # of one topic on one broker; as many as ours make
ROUTE_QUEUES_MAX: Final = 131_072  # of one topic that a client takes: a second of work, 60 MB


def check_queue_count(topic: str, sizes: Iterable[int]) -> None:
    """RemoteProtocolError for a route whose queues would cost whoever lists them more than any real topic does."""
    total = sum(max(0, size) for size in sizes)
    if total > ROUTE_QUEUES_MAX:
        raise RemoteProtocolError(
            f"the route of topic {topic!r} has {total} queues, at most {ROUTE_QUEUES_MAX} are taken: "
            "the name server, or a broker registered there, is not to be trusted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData(Bean):
    """The queues of a topic on one broker."""

    broker_name: str = text()
    read_queue_nums: int = integer()
    write_queue_nums: int = integer()
    perm: int = integer(default=PERM_READ | PERM_WRITE)
    topic_sys_flag: int = integer()

    @classmethod
    def adapt(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Older servers misspell the flag."""
        if "topicSynFlag" in value and "topicSysFlag" not in value:
            return {**value, "topicSysFlag": value["topicSynFlag"]}
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData(Bean):
    """One broker: its master (id 0) and slaves."""

    cluster: str = text()
    broker_name: str = text()
    broker_addrs: dict[int, str] = integer_text_table()
    enable_acting_master: bool = flag()
    zone_name: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRouteData(Bean):
    """GET_ROUTEINFO_BY_TOPIC. The mapping of static topics is passed on unread."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    broker_datas: tuple[BrokerData, ...] = beans(BrokerData)
    queue_datas: tuple[QueueData, ...] = beans(QueueData)
    filter_server_table: dict[str, tuple[str, ...]] = texts_table()
    order_topic_conf: str | None = maybe_text()
    topic_queue_mapping_by_broker: dict[str, Any] | None = anything()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo(Bean):
    """GET_BROKER_CLUSTER_INFO."""

    broker_addr_table: dict[str, BrokerData] = bean_table(BrokerData)
    cluster_addr_table: dict[str, tuple[str, ...]] = texts_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMemberGroup(Bean):
    """The live members of one broker name."""

    cluster: str = text()
    broker_name: str = text()
    broker_addrs: dict[int, str] = integer_text_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerMemberGroupResponseBody(Bean):
    """GET_BROKER_MEMBER_GROUP."""

    broker_member_group: BrokerMemberGroup = bean(BrokerMemberGroup)

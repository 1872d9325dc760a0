"""A cluster that is made up: what the dashboard's sampler asks of it, from a few numbers, every call counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from flaremq.errors import AccessDeniedError, ReplyError
from flaremq.protocol.bodies.client import ConsumerConnection, ProducerInfo
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.route import BrokerData, ClusterInfo
from flaremq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, OffsetWrapper, TopicOffset, TopicStatsTable
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import ResponseCode

ADDRESS = "127.0.0.1:10911"
_NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class FakeReader:
    """One broker of the name ``broker-a``."""

    def __init__(
        self,
        topics: Iterable[str] = (),
        groups: Iterable[str] = (),
        *,
        queues: int = 2,
        told: Mapping[str, str] | None = None,
        unknown: Iterable[str] = (),
        denied: Iterable[str] = (),
    ) -> None:
        """``unknown`` and ``denied``: names of calls that the broker does not know, or not let this account make."""
        self.name_servers = ["127.0.0.1:9876"]
        self.topics, self.groups, self.queues = list(topics), list(groups), queues
        self.told = dict(told or {})
        self.unknown, self.denied = set(unknown), set(denied)
        self.calls: Counter[str] = Counter()
        self.producers: dict[str, tuple[ProducerInfo, ...]] = {}
        self.behind = 0  # messages in each queue that every group is behind beyond its number
        self.sent = 0  # messages in each queue beyond its number

    def _count(self, name: str) -> None:
        self.calls[name] += 1
        if name in self.unknown:
            raise ReplyError(_NOT_SUPPORTED, "request type not supported", what=name, address=ADDRESS)
        if name in self.denied:
            raise AccessDeniedError(
                ResponseCode.NO_PERMISSION, "has no permission to access x", what=name, address=ADDRESS
            )

    async def cluster_info(self) -> ClusterInfo:
        self._count("cluster_info")
        data = BrokerData(cluster="c", broker_name="broker-a", broker_addrs={0: ADDRESS})
        return ClusterInfo(broker_addr_table={"broker-a": data}, cluster_addr_table={"c": ("broker-a",)})

    async def runtime(self, address: str) -> Mapping[str, str]:
        self._count("runtime")
        return self.told

    async def broker_config(self, address: str) -> dict[str, str]:
        self._count("broker_config")
        return {}

    async def ha_status(self, address: str) -> Any:
        self._count("ha_status")
        raise ReplyError(_NOT_SUPPORTED, "", what="ha", address=ADDRESS)

    async def topic_table(self, address: str) -> Mapping[str, TopicConfig]:
        self._count("topic_table")
        return {
            name: TopicConfig(topic_name=name, read_queue_nums=self.queues, write_queue_nums=self.queues)
            for name in self.topics
        }

    async def group_table(self, address: str) -> Mapping[str, SubscriptionGroupConfig]:
        self._count("group_table")
        return {name: SubscriptionGroupConfig(group_name=name) for name in self.groups}

    async def progress_at(self, address: str) -> ConsumeStatsList:
        """Group number n reads topic number n and is n messages behind in each queue."""
        self._count("progress_at")
        found = []
        for number, (group, topic) in enumerate(zip(self.groups, self.topics, strict=False)):
            table = {
                MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue): OffsetWrapper(
                    broker_offset=100_000, consumer_offset=100_000 - number - self.behind, pull_offset=100_000
                )
                for queue in range(self.queues)
            }
            found.append({group: (ConsumeStats(offset_table=table),)})
        return ConsumeStatsList(consume_stats_list=tuple(found))

    async def ends_at(self, address: str, topic: str) -> TopicStatsTable:
        self._count("ends_at")
        return TopicStatsTable(
            offset_table={
                MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue): TopicOffset(
                    min_offset=0, max_offset=self.sent + queue, last_update_timestamp=1
                )
                for queue in range(self.queues)
            }
        )

    async def members_at(self, address: str, group: str) -> ConsumerConnection:
        self._count("members_at")
        raise ReplyError(ResponseCode.CONSUMER_NOT_ONLINE, "not online", what="members", address=ADDRESS)

    async def all_producers(self, address: str) -> dict[str, tuple[ProducerInfo, ...]]:
        self._count("all_producers")
        return self.producers

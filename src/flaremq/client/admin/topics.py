"""Topics: which there are, where they live, how full they are; making and deleting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from flaremq.client.admin.base import AdminBase, java_flag
from flaremq.client.arguments import check_text, check_topic, check_whole_number
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError
from flaremq.message.topics import AUTO_CREATE_TOPIC, encode_topic
from flaremq.protocol.bodies.group import GroupList
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.route import TopicRouteData
from flaremq.protocol.bodies.stats import TopicOffset, TopicStatsTable
from flaremq.protocol.bodies.topic import TopicConfig, TopicConfigSerializeWrapper, TopicList
from flaremq.protocol.codes import RequestCode, ResponseCode

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class TopicAdmin(AdminBase):
    """Orders about topics."""

    async def list_topics(self, *, cluster: str | None = None) -> list[str]:
        """Names of all topics, or of those of one cluster."""
        if cluster is None:
            reply = await self._ask_name_server(
                RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, what="the list of topics"
            )
        else:
            reply = await self._ask_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
        return sorted(TopicList.from_json(reply.body_bytes).topic_list)

    async def list_system_topics(self) -> list[str]:
        """Names of the topics RocketMQ makes for itself."""
        reply = await self._ask_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        found = TopicList.from_json(reply.body_bytes)
        topics = set(found.topic_list)
        if found.broker_addr:
            topics |= await self._system_topics_at(found.broker_addr)
        return sorted(topics)

    async def _system_topics_at(self, broker: str) -> set[str]:
        code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
        return set((await self._ask(TopicList, broker, code, what="the system topics")).topic_list)

    async def topic_route(self, topic: str) -> TopicRouteData:
        """The brokers and queues of a topic."""
        route = await self._instance.routes.refresh(topic)
        if route is None:
            raise NotFoundError(f"topic {topic!r} is unknown to the name servers {', '.join(self.name_servers)}")
        return route.data

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        return sorted((await self._instance.routes.find(topic)).read_queues)

    async def topic_status(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Both ends of each queue and when it was last written to."""
        return (await self.topic_stats(topic)).offset_table

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """Both ends of each queue, and how many messages a second come in."""
        addresses = (await self._brokers_of(topic)).values()
        what = f"the status of topic {topic!r}"
        code = RequestCode.GET_TOPIC_STATS_INFO
        tables = await self._ask_each(TopicStatsTable, addresses, code, {"topic": topic}, what=what)
        ends = {queue: end for table in tables for queue, end in table.offset_table.items()}
        return TopicStatsTable(
            offset_table=dict(sorted(ends.items())), topic_put_tps=sum(table.topic_put_tps for table in tables)
        )

    async def topic_config(self, topic: str, broker: str) -> TopicConfig:
        """The settings of a topic on one broker (name or address)."""
        address = await self._address_of(broker)
        reply = await self._call(
            address,
            RequestCode.GET_TOPIC_CONFIG,
            {"topic": topic},
            accept=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
            what=f"the settings of topic {topic!r}",
        )
        if reply.code == ResponseCode.SUCCESS:
            return TopicConfig.from_json(reply.body_bytes)
        config = (await self.topic_configs(address)).get(topic)  # a broker of 4.x tells all or nothing
        if config is None:
            raise NotFoundError(f"topic {topic!r} does not exist on {broker}")
        return config

    async def topic_configs(self, broker: str) -> dict[str, TopicConfig]:
        """The settings of all topics of one broker (name or address)."""
        code, what = RequestCode.GET_ALL_TOPIC_CONFIG, "the settings of all topics"
        return (await self._ask(TopicConfigSerializeWrapper, broker, code, what=what)).topic_config_table

    async def create_topic(
        self,
        topic: str,
        *,
        read_queues: int = 8,
        write_queues: int = 8,
        perm: int = 6,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Make a topic, or change its settings, on one broker, a cluster's or all; their names.

        ``attributes`` set what 5.x keeps beside (``{"message.type": "FIFO"}``); 4.x ignores them.
        """
        check_topic(topic)
        for count in (read_queues, write_queues, perm):
            check_whole_number(count, "the number of queues or the permission")
        if attributes is not None and not isinstance(attributes, Mapping):
            raise InvalidArgumentError(f"attributes are values by name, not {attributes!r}")
        if read_queues < 1 or write_queues < 1:
            raise InvalidArgumentError(f"a topic needs queues: {read_queues} to read and {write_queues} to write")
        config = TopicConfig(
            topic_name=topic, read_queue_nums=read_queues, write_queue_nums=write_queues, perm=perm, order=order
        )
        masters = await self.masters(cluster=cluster, broker=broker)
        changes = ",".join(f"+{name}={value}" for name, value in (attributes or {}).items())
        await self._update_topic(masters.values(), config, changes)
        if order:
            counts = ";".join(f"{name}:{write_queues}" for name in masters)
            await self._tell_name_servers(
                RequestCode.PUT_KV_CONFIG, {"namespace": ORDER_NAMESPACE, "key": topic, "value": counts}
            )
        self._instance.routes.forget(topic)
        return list(masters)

    async def _update_topic(self, addresses: Iterable[str], config: TopicConfig, attributes: str) -> None:
        """``attributes`` are changes: ``+a=b,-c``."""
        ext = {
            "topic": config.topic_name,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "readQueueNums": str(config.read_queue_nums),
            "writeQueueNums": str(config.write_queue_nums),
            "perm": str(config.perm),
            "topicFilterType": config.topic_filter_type,
            "topicSysFlag": str(config.topic_sys_flag),
            "order": java_flag(config.order),
            "attributes": attributes,
            "force": "false",
        }
        what = f"creating topic {config.topic_name!r}"
        await self._call_each(addresses, RequestCode.UPDATE_AND_CREATE_TOPIC, ext, what=what)

    async def set_topic_permission(self, topic: str, perm: int, *, broker: str | None = None) -> list[str]:
        """Change what may be done with a topic (4 read, 2 write, 6 both) on one broker or all that have it."""
        masters = await self._brokers_of(topic) if broker is None else await self.masters(broker=broker)
        for name, address in masters.items():
            config = await self.topic_config(topic, address)
            await self.create_topic(
                topic,
                read_queues=config.read_queue_nums,
                write_queues=config.write_queue_nums,
                perm=perm,
                order=config.order,
                broker=address if broker is None else name,
            )
        return list(masters)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic on all brokers of a cluster (of all clusters, if none is named) and at the name servers."""
        check_text(topic, "a topic")
        encode_topic(topic)
        masters = await self.masters(cluster=cluster)
        ext, what = {"topic": topic}, f"deleting topic {topic!r}"
        await self._call_each(masters.values(), RequestCode.DELETE_TOPIC_IN_BROKER, ext, what=what)
        if cluster is not None:
            ext["clusterName"] = cluster
        await self._tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, ext, what=what)
        for address in self.name_servers:
            try:
                await self._call(address, RequestCode.DELETE_KV_CONFIG, {"namespace": ORDER_NAMESPACE, "key": topic})
            except FlareMQError:
                continue  # there was no such setting
        self._instance.routes.forget(topic)

    async def topic_groups(self, topic: str) -> list[str]:
        """The groups that consume a topic, now or in the past."""
        addresses = (await self._brokers_of(topic)).values()
        code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
        lists = await self._ask_each(GroupList, addresses, code, {"topic": topic})
        return sorted({group for found in lists for group in found.group_list})

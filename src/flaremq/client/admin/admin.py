"""Admin: everything an operator asks of a cluster. Topics, groups, messages, controllers, access have modules of their
own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from flaremq.client.admin.access import AccessAdmin
from flaremq.client.admin.base import properties_text
from flaremq.options import parse_properties
from flaremq.protocol.bodies.replication import HARuntimeInfo
from flaremq.protocol.bodies.topic import BrokerStatsData, KVTable
from flaremq.protocol.codes import RequestCode, ResponseCode


class Admin(AccessAdmin):
    """Orders to brokers and name servers.

    Use it inside ``async with``, or call :meth:`start` and :meth:`close`; from one event loop. Where a ``broker`` is
    asked for, its name or its address will do.
    """

    # Brokers

    async def broker_status(self, broker: str) -> dict[str, str]:
        """What a broker tells about itself."""
        what = f"the state of {broker}"
        return dict(
            sorted((await self._ask(KVTable, broker, RequestCode.GET_BROKER_RUNTIME_INFO, what=what)).table.items())
        )

    async def broker_config(self, broker: str) -> dict[str, str]:
        """All options of a broker."""
        address = await self._address_of(broker)
        reply = await self._call(address, RequestCode.GET_BROKER_CONFIG, what=f"the options of {broker}")
        return dict(sorted(parse_properties(reply.body_bytes.decode()).items()))

    async def set_broker_config(
        self, values: Mapping[str, str], *, broker: str | None = None, cluster: str | None = None
    ) -> list[str]:
        """Change options of one broker, a cluster's or all; the brokers' names."""
        return list(await self._change_brokers(values, broker, cluster))

    async def _change_brokers(
        self, values: Mapping[str, str], broker: str | None, cluster: str | None
    ) -> dict[str, str]:
        """What each broker has to say to that, by name."""
        code, body = RequestCode.UPDATE_BROKER_CONFIG, properties_text(values)
        masters = await self.masters(cluster=cluster, broker=broker)
        replies = await self._call_each(masters.values(), code, body=body, what="changing options")
        return {name: reply.remark or "" for name, reply in zip(masters, replies, strict=True)}

    async def broker_stats(self, broker: str, name: str, key: str) -> BrokerStatsData:
        """One counter of a broker over a minute, an hour and a day, such as ``TOPIC_PUT_NUMS`` of a topic."""
        code, ext = RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key}
        return await self._ask(BrokerStatsData, broker, code, ext, what=f"{name} of {key}")

    async def ha_status(self, broker: str) -> HARuntimeInfo:
        """How a broker stands with its replicas."""
        code, what = RequestCode.GET_BROKER_HA_STATUS, f"the replicas of {broker}"
        return await self._ask(HARuntimeInfo, broker, code, what=what)

    async def clean_expired_queues(self, *, broker: str | None = None, cluster: str | None = None) -> list[str]:
        """Let brokers delete consume queues whose messages are gone."""
        return await self._order(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, broker, cluster)

    async def clean_unused_topics(self, *, broker: str | None = None, cluster: str | None = None) -> list[str]:
        """Let brokers delete consume queues of topics that no longer exist."""
        return await self._order(RequestCode.CLEAN_UNUSED_TOPIC, broker, cluster)

    async def delete_expired_commit_log(self, *, broker: str | None = None, cluster: str | None = None) -> list[str]:
        """Let brokers delete log files that are older than they have to be kept."""
        return await self._order(RequestCode.DELETE_EXPIRED_COMMITLOG, broker, cluster)

    async def _order(self, code: RequestCode, broker: str | None, cluster: str | None) -> list[str]:
        masters = await self.masters(cluster=cluster, broker=broker)
        await self._call_each(masters.values(), code, timeout=30.0)
        return list(masters)

    # Name servers

    async def wipe_write_permission(self, broker_name: str) -> int:
        """Take a broker out of the routes of producers; how many topics that concerns."""
        return max((await self._change_write_permission(broker_name, "wipe")).values())

    async def add_write_permission(self, broker_name: str) -> int:
        """Put a broker back into the routes of producers; how many topics that concerns."""
        return max((await self._change_write_permission(broker_name, "add")).values())

    async def _change_write_permission(self, broker_name: str, change: Literal["add", "wipe"]) -> dict[str, int]:
        """The number of topics by name server."""
        code = RequestCode[f"{change.upper()}_WRITE_PERM_OF_BROKER"]
        what = f"changing the permission of broker {broker_name!r}"
        replies = await self._tell_name_servers(code, {"brokerName": broker_name}, what=what)
        counts = (reply.int_field(f"{change}TopicCount") for reply in replies)
        return dict(zip(self.name_servers, counts, strict=True))

    async def name_server_config(self) -> dict[str, dict[str, str]]:
        """All options of each name server, by address."""
        configs = {}
        for address in self.name_servers:
            reply = await self._call(address, RequestCode.GET_NAMESRV_CONFIG, what=f"the options of {address}")
            configs[address] = dict(sorted(parse_properties(reply.body_bytes.decode()).items()))
        return configs

    async def set_name_server_config(self, values: Mapping[str, str]) -> None:
        """Change options of all name servers."""
        await self._change_name_servers(values)

    async def _change_name_servers(self, values: Mapping[str, str]) -> dict[str, str]:
        """What each name server has to say to that, by address."""
        code, body = RequestCode.UPDATE_NAMESRV_CONFIG, properties_text(values)
        replies = await self._tell_name_servers(code, body=body, what="changing options")
        return {name: reply.remark or "" for name, reply in zip(self.name_servers, replies, strict=True)}

    async def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Let the name servers keep a value."""
        await self._tell_name_servers(RequestCode.PUT_KV_CONFIG, {"namespace": namespace, "key": key, "value": value})

    async def get_kv_config(self, namespace: str, key: str) -> str | None:
        """A value the name servers keep, None if there is none."""
        reply = await self._ask_name_server(
            RequestCode.GET_KV_CONFIG, {"namespace": namespace, "key": key}, accept=(ResponseCode.QUERY_NOT_FOUND,)
        )
        return None if reply.code == ResponseCode.QUERY_NOT_FOUND else reply.field("value")

    async def delete_kv_config(self, namespace: str, key: str) -> None:
        """Let the name servers forget a value."""
        await self._tell_name_servers(RequestCode.DELETE_KV_CONFIG, {"namespace": namespace, "key": key})

    async def list_kv_config(self, namespace: str) -> dict[str, str]:
        """All values of a namespace."""
        reply = await self._ask_name_server(
            RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace}, accept=(ResponseCode.QUERY_NOT_FOUND,)
        )
        return {} if reply.code == ResponseCode.QUERY_NOT_FOUND else KVTable.from_json(reply.body_bytes).table

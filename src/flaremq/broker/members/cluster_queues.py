"""The readable queues of a topic in the whole cluster, as the name servers know them.

A broker that shares queues out must know those of its fellows. Routes are kept for a while; without a name server, or
when none answers and nothing is kept, the broker's own queues are all there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.clock import Clock
from flaremq.errors import FlareMQError
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.route import TopicRouteData, check_queue_count
from flaremq.protocol.bodies.topic import PERM_READ
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient

_log = logging.getLogger(__name__)

_KEPT_SECONDS: Final = 5.0  # clients ask every 20 s, all of a group at once after a change
_KEPT_MAX: Final = 4096
_TIMEOUT_SECONDS: Final = 3.0


class ClusterQueues:
    """Asks name servers for routes. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        topics: TopicTable,
        clock: Clock,
        client: RemotingClient,
        name_servers: Sequence[str],
    ) -> None:
        self._options = options
        self._topics = topics
        self._clock = clock
        self._client = client
        self._name_servers = list(name_servers)
        self._asking: dict[str, asyncio.Future[list[MessageQueue] | None]] = {}
        self._kept: OrderedDict[str, tuple[float, list[MessageQueue]]] = OrderedDict()

    async def find(self, topic: str) -> list[MessageQueue] | None:
        """All readable queues of a topic, sorted; None if the topic has no route."""
        kept = self._kept.get(topic)
        if kept is not None and self._clock.monotonic() - kept[0] < _KEPT_SECONDS:
            return kept[1]
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.ensure_future(self._ask(topic))
            asking.add_done_callback(lambda _: self._asking.pop(topic, None))
        queues = await asyncio.shield(asking)
        if queues is not None:
            return queues
        return kept[1] if kept is not None else self._own(topic)

    async def _ask(self, topic: str) -> list[MessageQueue] | None:
        """What the first name server that knows the topic says."""
        for address in self._name_servers:
            try:
                reply = await self._client.request(
                    address,
                    RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}),
                    _TIMEOUT_SECONDS,
                )
                if reply.code == ResponseCode.TOPIC_NOT_EXIST:
                    continue
                if reply.code == ResponseCode.SUCCESS:
                    queues = self._readable(topic, TopicRouteData.from_json(reply.body_bytes))
                    self._keep(topic, queues)
                    return queues
                _log.warning("name server %s answers %d for the route of %s", address, reply.code, topic)
            except FlareMQError as error:
                _log.warning("name server %s does not tell the route of %s: %s", address, topic, error)
        return None

    def _keep(self, topic: str, queues: list[MessageQueue]) -> None:
        self._kept[topic] = (self._clock.monotonic(), queues)
        self._kept.move_to_end(topic)
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)

    def _own(self, topic: str) -> list[MessageQueue] | None:
        config = self._topics.find(topic)
        if config is None or not config.is_readable:
            return None
        return [MessageQueue(topic, self._options.broker_name, number) for number in range(config.read_queue_nums)]

    def _readable(self, topic: str, route: TopicRouteData) -> list[MessageQueue]:
        most = self._options.queues_per_topic_max
        sizes = [
            (data.broker_name, min(data.read_queue_nums, most)) for data in route.queue_datas if data.perm & PERM_READ
        ]
        check_queue_count(topic, (size for _, size in sizes))
        return sorted(MessageQueue(topic, name, number) for name, size in sizes for number in range(size))

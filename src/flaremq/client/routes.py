"""Where topics live: routes as name servers tell them, kept until they change.

A topic that does not exist yet borrows the route of the topic it will be made from (``TBW102``), so that the first
send can create it; the borrowed route is replaced as soon as the name server knows the topic itself.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Final

from flaremq.client.arguments import check_text
from flaremq.client.transport import Transport
from flaremq.errors import InvalidArgumentError, NotFoundError, RemoteProtocolError, UnavailableError
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.route import QueueData, TopicRouteData, check_queue_count
from flaremq.protocol.codes import RequestCode, ResponseCode

MASTER_ID: Final = 0
_PERM_READ: Final = 4
_PERM_WRITE: Final = 2
_ORDER_COUNT: Final = re.compile("[0-9]{1,9}")
_log = logging.getLogger(__name__)


class TopicRoute:
    """One topic's queues: those that can be written to, those that can be read from, and their brokers."""

    __slots__ = ("data", "is_borrowed", "read_queues", "topic", "write_queues")

    def __init__(self, topic: str, data: TopicRouteData, *, queues_max: int | None = None) -> None:
        self.topic = topic
        self.data = data
        self.is_borrowed = queues_max is not None
        self.write_queues = _write_queues(topic, data, queues_max)
        self.read_queues = _queues(
            topic, [(entry.broker_name, entry.read_queue_nums) for entry in _sorted(data) if entry.perm & _PERM_READ]
        )

    @property
    def lacks_masters(self) -> bool:
        """Whether messages could be sent if the master of some broker were not away."""
        return any(
            entry.perm & _PERM_WRITE and MASTER_ID not in self.addresses.get(entry.broker_name, {})
            for entry in self.data.queue_datas
        )

    @property
    def addresses(self) -> dict[str, dict[int, str]]:
        """Addresses by broker id, by broker name."""
        return {broker.broker_name: dict(broker.broker_addrs) for broker in self.data.broker_datas}


def _sorted(data: TopicRouteData) -> list[QueueData]:
    return sorted(data.queue_datas, key=lambda entry: entry.broker_name)


def _write_queues(topic: str, data: TopicRouteData, queues_max: int | None) -> list[MessageQueue]:
    """In the order of Java's clients, broker by broker: ordering keys are hashed over this list."""
    masters = {broker.broker_name for broker in data.broker_datas if MASTER_ID in broker.broker_addrs}
    if data.order_topic_conf:
        # A globally ordered topic says itself how many queues each broker has: "broker-a:4;broker-b:4".
        counts = dict(part.rpartition(":")[::2] for part in data.order_topic_conf.split(";") if ":" in part)
        sizes = [(name, int(count)) for name, count in counts.items() if _ORDER_COUNT.fullmatch(count)]
    else:
        sizes = [
            (
                entry.broker_name,
                entry.write_queue_nums if queues_max is None else min(queues_max, entry.read_queue_nums),
            )
            for entry in _sorted(data)
            if entry.perm & _PERM_WRITE
        ]
    return _queues(topic, [(name, size) for name, size in sizes if name in masters])


def _queues(topic: str, sizes: list[tuple[str, int]]) -> list[MessageQueue]:
    check_queue_count(topic, (size for _, size in sizes))
    return [
        MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)
        for name, size in sizes
        for queue_id in range(size)
    ]


class RouteTable:
    """The routes a client uses. Event loop thread only."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._lookups: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self.on_change: list[Callable[[str], None]] = []

    def known(self, topic: str) -> TopicRoute | None:
        """The route as far as it is known here."""
        return self._routes.get(topic)

    async def find(self, topic: str) -> TopicRoute:
        """The route of a topic; NotFoundError if no name server knows it."""
        check_text(topic, "a topic")
        route = self._routes.get(topic)
        if route is None or route.is_borrowed:
            route = await self.refresh(topic)
        if route is None:
            raise NotFoundError(
                f"topic {topic!r} is unknown to the name servers {', '.join(self._transport.name_servers)}: send a "
                f"message to it first, or create it (`flaremq topic create {topic}`, `Admin.create_topic`)"
            )
        return route

    async def find_for_send(self, topic: str, *, template: str, queues_max: int) -> TopicRoute:
        """The route of a topic, or the one it will have once a send has created it from ``template``."""
        route = self._routes.get(topic)
        if route is None:
            route = await self.refresh(topic)
        if route is None:
            borrowed = await self._ask(template)
            if borrowed is None:
                raise NotFoundError(
                    f"topic {topic!r} is unknown to the name servers {', '.join(self._transport.name_servers)}, "
                    f"and there is no {template} to create it from: create it first"
                )
            route = TopicRoute(topic, borrowed, queues_max=queues_max)
            self._keep(route)
        return route

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Ask again; None if the topic is unknown. Callers that ask at the same time share one request."""
        task = self._lookups.get(topic)
        if task is None:
            task = asyncio.create_task(self._look_up(topic))
            self._lookups[topic] = task
            task.add_done_callback(lambda done: self._looked_up(topic, done))
        return await asyncio.shield(task)

    def _looked_up(self, topic: str, task: asyncio.Task[TopicRoute | None]) -> None:
        self._lookups.pop(topic, None)
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio logs it when all callers were cancelled

    async def refresh_all(self) -> None:
        """Ask again for every topic in use; what cannot be found out stays as it is."""
        for topic in list(self._routes):
            try:
                await self.refresh(topic)
            except UnavailableError:
                return
            except RemoteProtocolError as error:
                _log.warning("the route of %r stays as it is: %s", topic, error)
        named = {name: ids for route in self._routes.values() for name, ids in route.addresses.items()}
        self._brokers = named  # those that no route names any more are forgotten

    def forget(self, topic: str) -> None:
        self._routes.pop(topic, None)

    def master(self, broker_name: str) -> str:
        """Address of a broker's master."""
        address = self._brokers.get(broker_name, {}).get(MASTER_ID)
        if address is None:
            raise UnavailableError(f"broker {broker_name} has no master at the moment")
        return address

    def reader(self, broker_name: str, broker_id: int) -> str:
        """Address to read from: the broker with this id if there is one, else any of that name."""
        addresses = self._brokers.get(broker_name) or {}
        if broker_id in addresses:
            return addresses[broker_id]
        if not addresses:
            raise UnavailableError(f"broker {broker_name} has no address at the moment")
        return addresses[min(addresses)]

    def keeper(self, broker_name: str) -> str:
        """Address of whoever keeps what consumers tell a broker: its master, a slave while there is none."""
        return self.reader(broker_name, MASTER_ID)

    def has_master(self, broker_name: str) -> bool:
        return MASTER_ID in self._brokers.get(broker_name, {})

    def master_addresses(self) -> list[str]:
        return [addresses[MASTER_ID] for addresses in self._brokers.values() if MASTER_ID in addresses]

    def all_addresses(self) -> list[str]:
        return [address for addresses in self._brokers.values() for address in addresses.values()]

    async def _look_up(self, topic: str) -> TopicRoute | None:
        data = await self._ask(topic)
        if data is None:
            known = self._routes.get(topic)
            return known if known is not None and known.is_borrowed else None
        route = TopicRoute(topic, data)
        self._keep(route)
        return route

    async def _ask(self, topic: str) -> TopicRouteData | None:
        reply = await self._transport.ask_name_server(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": topic, "acceptStandardJsonOnly": "true"},
            accept=(ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            what=f"the route of topic {topic!r}",
        )
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            asked = ";".join(self._transport.name_servers)
            raise InvalidArgumentError(f"{asked} is no name server, it knows no routes: is this a broker's address?")
        return None if reply.code == ResponseCode.TOPIC_NOT_EXIST else TopicRouteData.from_json(reply.body_bytes)

    def _keep(self, route: TopicRoute) -> None:
        before = self._routes.get(route.topic)
        self._routes[route.topic] = route
        self._brokers.update(route.addresses)
        if before is not None and before.data != route.data:
            for callback in self.on_change:
                callback(route.topic)

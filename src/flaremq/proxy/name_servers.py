"""NameServers: what the name servers of a cluster say, for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Generic, TypeVar

from flaremq.errors import NotFoundError, UnavailableError
from flaremq.protocol.bodies.route import BrokerData, ClusterInfo, TopicRouteData
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import ExtValue, RemotingCommand, RequestError
from flaremq.remoting.client import RemotingClient

_MASTER_ID: Final = 0
_TIMEOUT: Final = 3.0
_KEPT_MAX: Final = 65_536
T = TypeVar("T")


class Remembered(Generic[T]):
    """Answers that are good for a while. Those who ask for the same thing at the same time share the question."""

    def __init__(self, ask: Callable[[str], Awaitable[T]], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._known: dict[str, tuple[float, T]] = {}
        self._under_way: dict[str, asyncio.Future[T]] = {}

    async def get(self, name: str) -> T:
        """What is known, or found out; an old answer if nobody can be asked."""
        known = self._known.get(name)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        task = self._under_way.get(name)
        if task is None:
            task = self._under_way[name] = asyncio.ensure_future(self._ask(name))
            task.add_done_callback(lambda done: self._done(name, done))
        try:
            return await asyncio.shield(task)
        except UnavailableError:
            if known is None:
                raise
            return known[1]

    def doubt(self) -> None:
        """Ask again about everything before it is believed once more."""
        self._known = {name: (0.0, value) for name, (_, value) in self._known.items()}

    def _done(self, name: str, task: asyncio.Future[T]) -> None:
        self._under_way.pop(name, None)
        if task.cancelled() or task.exception() is not None:
            return
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
        self._known[name] = (time.monotonic() + self._seconds, task.result())


class NameServers:
    """Where topics and brokers are. Event loop only."""

    def __init__(self, client: RemotingClient, addresses: list[str], *, seconds: float) -> None:
        self._client = client
        self._addresses = addresses
        self._current = 0  # the one that answered last
        self._routes = Remembered(self._look_up, seconds)
        self._cluster = Remembered(self._look_around, seconds)
        self._masters: dict[str, str] = {}

    async def route(self, topic: str) -> TopicRouteData | None:
        """The route of a topic; None if no broker has it."""
        return await self._routes.get(topic)

    async def masters(self) -> dict[str, str]:
        """The addresses of all masters, by the names of their brokers."""
        return await self._cluster.get("")

    async def master(self, broker: str) -> str:
        """NotFoundError if there is no such broker, UnavailableError if its master is away."""
        address = self._masters.get(broker)
        if address is not None:
            return address
        address = (await self.masters()).get(broker)
        if address is None:
            raise NotFoundError(f"there is no broker {broker[:128]!r} in this cluster, or it has no master now")
        return address

    def doubt(self) -> None:
        """A broker was not where it was said to be."""
        self._masters.clear()
        self._routes.doubt()
        self._cluster.doubt()

    async def _look_up(self, topic: str) -> TopicRouteData | None:
        reply = await self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"})
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        route = TopicRouteData.from_json(reply.body_bytes)
        self._masters.update(_masters_of(route.broker_datas))
        return route

    async def _look_around(self, _: str) -> dict[str, str]:
        reply = await self._ask(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        masters = _masters_of(ClusterInfo.from_json(reply.body_bytes).broker_addr_table.values())
        self._masters = dict(masters)
        return masters

    async def _ask(self, code: RequestCode, ext: dict[str, ExtValue]) -> RemotingCommand:
        """The answer of the first name server that can be reached, beginning with the one that answered last."""
        failures = []
        for step in range(len(self._addresses)):
            at = (self._current + step) % len(self._addresses)
            try:
                reply = await self._client.request(self._addresses[at], RemotingCommand.request(code, ext), _TIMEOUT)
            except UnavailableError as error:
                failures.append(f"{self._addresses[at]}: {error}")
                continue
            self._current = at
            if reply.code not in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
                raise RequestError(reply.code, reply.remark or f"{code.name} was answered with code {reply.code}")
            return reply
        raise UnavailableError("no name server can be reached: " + "; ".join(failures))


def _masters_of(brokers: Iterable[BrokerData]) -> dict[str, str]:
    found: dict[str, str] = {}
    for broker in brokers:
        if _MASTER_ID in broker.broker_addrs:
            found[broker.broker_name] = broker.broker_addrs[_MASTER_ID]
    return found

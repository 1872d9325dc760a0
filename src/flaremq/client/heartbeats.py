"""Heartbeats: how brokers know which groups live in a client, and on which connection to reach them.

A broker forgets a client when their connection closes, so a new connection begins with a heartbeat: whoever depends on
being known (pulls, transactions, request-reply) calls :meth:`Heartbeats.ensure` first, which costs a set look-up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from flaremq.client.routes import RouteTable
from flaremq.client.transport import Transport
from flaremq.errors import AccessDeniedError, FlareMQError
from flaremq.protocol.bodies.client import ConsumerData, HeartbeatData, ProducerData
from flaremq.protocol.codes import RequestCode

_log = logging.getLogger(__name__)


class Heartbeats:
    """What one client says about itself. Event loop thread only."""

    def __init__(self, transport: Transport, routes: RouteTable) -> None:
        self._transport = transport
        self._routes = routes
        self._known_at: set[str] = set()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self.client_id = ""
        self.producer_groups: set[str] = set()
        self.consumers: dict[str, Callable[[], ConsumerData]] = {}
        transport.on_close.append(self._known_at.discard)

    def is_known_at(self, address: str) -> bool:
        """Whether a broker has heard of this client on the present connection."""
        return address in self._known_at

    async def ensure(self, address: str) -> None:
        """Be known at a broker, if there is anything to be known for."""
        if address not in self._known_at and (self.consumers or self.producer_groups):
            await self.send(address)

    async def send(self, address: str) -> None:
        """One heartbeat to one broker; those who ask at the same time share it."""
        await asyncio.shield(self._begin(address))

    def send_soon(self, address: str) -> None:
        """Send a heartbeat in the background; one that fails is left to the next regular one."""
        if address not in self._known_at and address not in self._under_way:
            self._begin(address)

    def _begin(self, address: str) -> asyncio.Task[None]:
        task = self._under_way.get(address)
        if task is None:
            task = asyncio.create_task(self._send(address))
            self._under_way[address] = task
            task.add_done_callback(lambda done: self._sent(address, done))
        return task

    def _sent(self, address: str, task: asyncio.Task[None]) -> None:
        self._under_way.pop(address, None)
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio logs it when all callers were cancelled

    async def send_all(self) -> AccessDeniedError | None:
        """A heartbeat to every broker that needs one; those that cannot be reached get the next.

        Returns a refusal because of who this is, if no broker took the heartbeat.
        """
        refusal: AccessDeniedError | None = None
        is_taken = False
        if self.consumers:
            addresses = self._routes.all_addresses()  # slaves too: consumers may read from them
        else:
            addresses = self._routes.master_addresses()
        for address in addresses:
            try:
                await self._send(address)
                is_taken = True
            except FlareMQError as error:
                _log.info("no heartbeat to %s: %s", address, error)
                if isinstance(error, AccessDeniedError):
                    refusal = error
        return None if is_taken else refusal

    async def _send(self, address: str) -> None:
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=tuple(ProducerData(group_name=group) for group in sorted(self.producer_groups)),
            consumer_data_set=tuple(describe() for describe in self.consumers.values()),
        )
        await self._transport.call(address, RequestCode.HEART_BEAT, body=data.to_json(), what="the heartbeat")
        if self._transport.connected(address) is not None:
            self._known_at.add(address)

    async def say_goodbye(self) -> None:
        """Tell the brokers that this client's groups are gone."""
        for task in list(self._under_way.values()):
            task.cancel()
        for address in list(self._known_at):
            for name, groups in (("producerGroup", self.producer_groups), ("consumerGroup", self.consumers.keys())):
                for group in groups:
                    try:
                        await self._transport.call(
                            address, RequestCode.UNREGISTER_CLIENT, {"clientID": self.client_id, name: group}
                        )
                    except FlareMQError as error:
                        _log.info("could not unregister at %s: %s", address, error)
                        break
        self._known_at.clear()

"""ClientInstance: what every client has, whatever it is used for.

The wire, the routes, the heartbeats and the work that goes on in the background. A producer, consumer or admin client
owns one each, so two consumers of one process are two clients to a broker and share queues as they should.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from flaremq.client.client_id import local_address, make_client_id, unique_keys
from flaremq.client.heartbeats import Heartbeats
from flaremq.client.options import ClientOptions
from flaremq.client.routes import RouteTable
from flaremq.client.transport import Transport
from flaremq.client.unique_keys import UniqueKeys
from flaremq.clock import Clock, SystemClock
from flaremq.errors import FlareMQError, InvalidArgumentError
from flaremq.remoting.handlers import HandlerTable

_log = logging.getLogger(__name__)


class ClientInstance:
    """Started and stopped by its owner. Event loop thread only."""

    def __init__(
        self,
        name_servers: str | Sequence[str],
        options: ClientOptions,
        *,
        clock: Clock | None = None,
        entered_by: str = "async with",
    ) -> None:
        self.options = options
        self._entered_by = entered_by
        self.clock: Clock = clock or SystemClock()
        self.handlers = HandlerTable()  # for what brokers ask of clients
        self.transport = Transport(name_servers, options, self.handlers)
        self.routes = RouteTable(self.transport)
        self.heartbeats = Heartbeats(self.transport, self.routes)
        self.client_id = ""
        self._unique_keys: UniqueKeys | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_running = False

    @property
    def is_running(self) -> bool:
        return self._is_running

    def check_running(self) -> None:
        if not self._is_running:
            raise InvalidArgumentError(f"this client is not started, or closed: use it inside `{self._entered_by}`")

    @property
    def unique_keys(self) -> UniqueKeys:
        """Makes the ids of new messages."""
        keys = self._unique_keys
        if keys is None:
            self.check_running()
            raise AssertionError("a running client makes keys")
        return keys

    def make_unique_key(self) -> str:
        """The id of a new message."""
        return self.unique_keys.make()

    async def start(self) -> None:
        """Begin background work. Nothing is asked of any server yet."""
        if self._is_running:
            raise InvalidArgumentError("this client is started already")
        # A name server may be given by a name, and names are resolved by blocking calls.
        address = await asyncio.to_thread(local_address, self.transport.name_servers[0])
        self.client_id = self.heartbeats.client_id = make_client_id(address, self.options.instance_name)
        self._unique_keys = unique_keys(address, self.clock)
        self._is_running = True
        self.every(self.options.poll_name_server_interval, self.routes.refresh_all)
        self.every(self.options.heartbeat_broker_interval, self.heartbeats.send_all)

    async def stop(self) -> None:
        """End background work, take leave of the brokers, close the connections."""
        if not self._is_running:
            return
        self._is_running = False
        self._unique_keys = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.heartbeats.say_goodbye()
        await self.transport.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something in the background; it is cancelled when the client stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def every(self, milliseconds: int, step: Callable[[], Awaitable[object]]) -> None:
        """Repeat a step; one that fails is logged and comes again."""
        self.spawn(self._repeat(milliseconds / 1000, step))

    async def _repeat(self, seconds: float, step: Callable[[], Awaitable[object]]) -> None:
        name = getattr(step, "__qualname__", str(step))
        told = ""  # the failure of the last time: one that stays is told once
        while True:
            await asyncio.sleep(seconds)
            try:
                await step()
                told = ""
            except FlareMQError as error:
                if str(error) != told:
                    told = str(error)
                    _log.warning("%s failed: %s", name, told)
            except Exception:
                _log.exception("%s failed", name)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("background work failed", exc_info=task.exception())

"""HAServer: the HA port of a broker. Every broker has one, a slave too: a slave of a slave works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

from flaremq.broker.replication.door import Door
from flaremq.broker.replication.ha_connection import HAConnection, HAConnectionFacts, Stream
from flaremq.broker.replication.listener import Listener
from flaremq.broker.replication.sendable_log import SendableLog
from flaremq.replication.epochs import EpochTable
from flaremq.replication.replicas import Replicas
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.options import StoreOptions

_TICK_SECONDS: Final = 0.5


class HAServer:
    """Sends the log to slaves and takes their reports. Make and use it on the loop."""

    def __init__(
        self,
        driver: StoreDriver,
        replicas: Replicas,
        options: StoreOptions,
        door: Door,
        *,
        epochs: Callable[[], EpochTable | None] | None = None,
        confirm_offset: Callable[[], int] | None = None,
    ) -> None:
        """``epochs`` makes it speak the controller dialect (None: no master); slaves are told ``confirm_offset``."""
        self._options = options
        self.on_acknowledged: list[Callable[[], None]] = []  # slaves came, went or acknowledged
        log = SendableLog(driver, has_epochs=epochs is not None)
        self._listener = Listener(door, self._make)
        self._stream = Stream(
            log=log,
            replicas=replicas,
            options=options,
            door=door,
            epochs=epochs,
            confirm_offset=confirm_offset or (lambda: log.own_end),
            acknowledged=self._acknowledged,
            changed=self._listener.changed,
        )
        self._ticker: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, ``port`` then says which. UnavailableError if that is taken."""
        await self._listener.start(host, port)
        self._tick()

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._ticker is not None:
            self._ticker.cancel()
        await self._listener.stop()

    @property
    def port(self) -> int:
        return self._listener.port

    def appended(self) -> None:
        """The log grew, or more of it may be sent: write it to those that wait for it. Once a turn of the loop."""
        for connection in self._listener.connections:
            connection.pump()

    def drop_connections(self, reason: str) -> None:
        """Close all connections; slaves come back by themselves. After a change of the epochs or of the role."""
        for connection in list(self._listener.connections):
            connection.close(reason)

    @property
    def slaves(self) -> list[HAConnectionFacts]:
        """The slaves that are connected and have reported, the oldest connection first."""
        return [connection.facts for connection in self._listener.connections if connection.is_admitted]

    def _make(self) -> HAConnection:
        return HAConnection(self._stream)

    def _acknowledged(self) -> None:
        for callback in self.on_acknowledged:
            callback()

    def _tick(self) -> None:
        interval = min(_TICK_SECONDS, self._options.ha_send_heartbeat_interval / 4000)
        self._ticker = asyncio.get_running_loop().call_later(max(interval, 0.01), self._tick)
        now = monotonic()
        for connection in list(self._listener.connections):
            connection.tick(now)

"""HAClient: a slave's end of replication: connects to the master, again and again, and says how that goes.

A connection that broke is made anew at once, then more and more slowly. What would happen again with the next
connection (the master does not have our last bytes, a record is damaged, nobody lets us in) waits five seconds each
time, and after three times in a row is an alarm: one line at level ERROR, and ``facts`` say so until bytes flow again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from flaremq.broker.replication.door import Door
from flaremq.broker.replication.master_link import MasterLink
from flaremq.broker.replication.replica_log import ReplicaLog
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import Clock
from flaremq.errors import UnavailableError
from flaremq.remoting.address import parse_address
from flaremq.replication.epochs import EpochTable
from flaremq.replication.follower import Follower, FollowerSettings
from flaremq.storage.options import StoreOptions

_log = logging.getLogger(__name__)
_CONNECT_SECONDS: Final = 5.0
_PAUSE_MIN: Final = 0.1
_PAUSE_MAX: Final = 5.0
_ALARM_AFTER: Final = 3
_TICK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class HAClientFacts:
    """How a slave's replication goes, for request 907 and ``cluster status``."""

    master_address: str | None
    is_connected: bool
    max_offset: int
    master_end: int  # as far as the master has told, -1 if it has not
    last_read_ms: int  # wall clock, 0 for never
    last_write_ms: int
    transferred_bytes_per_second: int
    failure: str  # what ended the last connection, empty while bytes flow
    is_alarm: bool  # it will not go away by itself


@dataclass(frozen=True, slots=True)
class _End:
    """What ended a connection. A refusal would happen again with the next one."""

    reason: str
    is_refusal: bool
    had_data: bool = False


class HAClient:
    """The HA client of one slave. Make and use it on the loop."""

    def __init__(
        self,
        store_loop: StoreLoop,
        options: StoreOptions,
        door: Door,
        clock: Clock,
        *,
        broker_id: int = 0,
        epochs: Callable[[], EpochTable] | None = None,
    ) -> None:
        """``epochs`` makes it speak the controller dialect."""
        self.log = ReplicaLog(store_loop)
        self._options = options
        self._door = door
        self._clock = clock
        self._epochs = epochs
        self.broker_id = broker_id  # as told to the master
        self.master_epoch_min = 0  # as the controller named it: a master of an older epoch was deposed
        self.pause_max = _PAUSE_MAX
        self._address: str | None = None
        self._has_news = asyncio.Event()  # another address, or the end
        self._task: asyncio.Task[None] | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._link: MasterLink | None = None
        self._follower: Follower | None = None
        self._failure = ""
        self._refusals = 0  # in a row
        self._last_read_ms = self._last_write_ms = 0

    def set_master(self, ha_address: str | None) -> None:
        """Follow the master at this address from now on; None: follow nobody. The same address changes nothing."""
        if ha_address == self._address:
            return
        if ha_address is not None:
            parse_address(ha_address)
        _log.info("the log is fetched from %s now, not %s", ha_address or "nobody", self._address or "nobody")
        self._address = ha_address
        self._refusals = 0
        self._failure = ""
        self._has_news.set()
        if self._link is not None:
            self._link.end(UnavailableError("another master is to be followed"))

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._tick()

    async def stop(self) -> None:
        """Close the connection; nothing is appended any more when it returns."""
        if self._ticker is not None:
            self._ticker.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def progressed(self) -> None:
        """The log grew or became durable: report it. At the end of a turn of the loop."""
        if self._link is not None:
            self._link.progressed()

    @property
    def facts(self) -> HAClientFacts:
        link, follower = self._link, self._follower
        return HAClientFacts(
            master_address=self._address,
            is_connected=link is not None and link.has_received,
            max_offset=self.log.end,
            master_end=-1 if follower is None else follower.master_end,
            last_read_ms=self._last_read_ms,
            last_write_ms=self._last_write_ms,
            transferred_bytes_per_second=0 if link is None else link.meter.per_second(monotonic()),
            failure=self._failure,
            is_alarm=self._refusals >= _ALARM_AFTER,
        )

    async def _run(self) -> None:
        pause = _PAUSE_MIN
        while True:
            self._has_news.clear()
            address = self._address
            if address is None:
                await self._has_news.wait()
                continue
            try:
                end = await self._follow(address)
            except Exception as error:  # a slave must not stop following because of one connection
                _log.exception("while following the master at %s", address)
                end = _End(str(error), is_refusal=True)
            if self._has_news.is_set():
                pause = _PAUSE_MIN
                continue
            self._note(address, end)
            if end.is_refusal:
                pause = self.pause_max
            elif end.had_data:
                pause = _PAUSE_MIN
            try:
                async with asyncio.timeout(pause):
                    await self._has_news.wait()
            except TimeoutError:
                pass
            pause = min(2 * pause, self.pause_max)

    async def _follow(self, address: str) -> _End:
        """One connection, to its end."""
        log = self.log
        if log.held < log.end:
            await log.sync()  # what is not durable is not promised, and what is not promised would be sent again
            if self._address != address:
                return _End("another master is to be followed", is_refusal=False)
        follower = self._follower = self._make_follower()
        link = MasterLink(log, follower, self._door, self.broker_id)
        link.on_read, link.on_write = self._read, self._wrote
        self._link = link  # from now on: who is left while the connection is made must not be followed after it
        try:
            failure = await self._connect(link, address)
            if failure is not None:
                return failure
            error = await link.ended
        finally:
            link.end(UnavailableError("replication stops here"))
            self._link = None
            await link.settle()
        had_data = link.meter.total > 0
        if not isinstance(error, UnavailableError):
            return _End(str(error), is_refusal=True, had_data=had_data)
        if link.has_received:
            return _End(str(error), is_refusal=False, had_data=had_data)
        advice = f"it may not let this broker in, or not have the end of our log, {log.end}: its own log tells"
        return _End(f"{error} before it sent anything; {advice}", is_refusal=True)

    async def _connect(self, link: MasterLink, address: str) -> _End | None:
        """None if the connection stands."""
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                tls = None if self._door.client_tls is None else await self._door.client_tls.fresh()
                await loop.create_connection(lambda: link, host, port, ssl=tls)
        except TimeoutError:
            return _End("cannot connect: no answer in time", is_refusal=False)
        except OSError as failure:
            is_refusal = self._door.client_tls is not None and not isinstance(failure, ConnectionRefusedError)
            hint = " (is there TLS at the other end, and are the certificates known?)" if is_refusal else ""
            return _End(f"cannot connect: {failure}{hint}", is_refusal=is_refusal)
        return None

    def _make_follower(self) -> Follower:
        log, options = self.log, self._options
        settings = FollowerSettings(
            file_size=log.file_size,
            heartbeat_s=options.ha_send_heartbeat_interval / 1000,
            silence_max_s=options.ha_housekeeping_interval / 1000,
            master_epoch_min=self.master_epoch_min,
            last_file_only=options.sync_from_last_file,
            is_learner=options.async_learner,
        )
        epochs = None if self._epochs is None else self._epochs()
        return Follower(
            settings,
            log_end=log.end,
            is_empty=log.is_empty,
            now=monotonic(),
            epochs=epochs,
            broker_id=self.broker_id,
            tail=log.tail(),
        )

    def _note(self, address: str, end: _End) -> None:
        """Write down what ended a connection, and whether the next one is likely to end the same way."""
        before, self._failure = self._failure, end.reason
        self._refusals = self._refusals + 1 if end.is_refusal else 0
        if self._refusals == _ALARM_AFTER:
            _log.error("replication from %s stands still after %d tries: %s", address, self._refusals, end.reason)
        elif self._refusals < _ALARM_AFTER and end.reason != before:  # a master that is down is tried for hours
            _log.warning("not following %s any more: %s", address, end.reason)

    def _read(self, size: int) -> None:
        self._last_read_ms = self._clock.now_ms()
        if self._failure and self._link is not None and self._link.meter.total:
            self._failure = ""
            self._refusals = 0

    def _wrote(self) -> None:
        self._last_write_ms = self._clock.now_ms()

    def _tick(self) -> None:
        interval = min(_TICK_SECONDS, self._options.ha_send_heartbeat_interval / 4000)
        self._ticker = asyncio.get_running_loop().call_later(max(interval, 0.01), self._tick)
        if self._link is not None:
            self._link.tick(monotonic())

"""POP: messages are handed out without giving anybody a queue; each comes back unless it is acknowledged in time.

A pop leaves a check point for what it took (``taking``, ``table``). If that is not acknowledged soon
(``settling``), the check point goes to the log (``revive_log``), so that the group's offset can move on; if not
in time, the messages are given again (``revive``). Ordered pops keep no check points: their queue stays shut
until they are acknowledged (``order_info``).
"""

from __future__ import annotations

import logging
import random
from time import monotonic
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.groups import REVIVE_GROUP
from flaremq.broker.delay.clock_steps import ClockSteps
from flaremq.broker.pop.check_point import QueueKey
from flaremq.broker.pop.handed_out import HandedOut
from flaremq.broker.pop.order_info import ConsumerOrderInfo
from flaremq.broker.pop.revive import PopRevive
from flaremq.broker.pop.revive_log import ReviveLog
from flaremq.broker.pop.settling import PopSettling
from flaremq.broker.pop.table import PopTable
from flaremq.broker.pop.taking import PopTaking

if TYPE_CHECKING:
    from flaremq.broker.catalog.catalog import Catalog
    from flaremq.broker.options import BrokerOptions
    from flaremq.broker.statistics.counters import BrokerStatistics
    from flaremq.broker.statistics.traffic import MessageTraffic
    from flaremq.broker.store_loop.store_loop import StoreLoop
    from flaremq.clock import Clock

_log = logging.getLogger(__name__)

_STAY_IN_MEMORY_SECONDS: Final = 10.0  # as popCkStayBufferTime: time for acknowledgements before a record is written
_STORE_AT_A_TIME: Final = 256
_FORGET_INTERVAL_MS: Final = 60_000


class PopService:
    """POP consumption of one broker. ``start`` it before the first request; event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreLoop,
        catalog: Catalog,
        statistics: BrokerStatistics,
        *,
        order_info: ConsumerOrderInfo | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._store_loop = store_loop
        self._clock = clock
        self._steps = ClockSteps(clock)
        self._catalog = catalog
        self._is_running = False
        self._next_forget = 0
        self.order_info = order_info or ConsumerOrderInfo()
        self.table = PopTable(catalog.offsets, lambda: store_loop.store.lasting_offset)
        self.log = ReviveLog(options, clock, store_loop, catalog.offsets, self.table)
        self.handed_out = handed_out = HandedOut(self.table, self.log, self.order_info)
        chance = chance or random.Random()
        self.taking = PopTaking(options, clock, store_loop, catalog, statistics, handed_out, chance)
        self.settling = PopSettling(clock, catalog.offsets, statistics, handed_out)
        self.revive = PopRevive(options, clock, store_loop, catalog, statistics, handed_out)

    def tell_traffic(self, traffic: MessageTraffic) -> None:
        """Count there what is read from the revive topic."""
        self.log.on_read = lambda message: traffic.note_out(self.log.topic, REVIVE_GROUP, None, 1, message.size)

    # Life

    async def start(self) -> None:
        """Learn from the log what is handed out."""
        waiting = await self.log.recover()
        if waiting:
            _log.info("%d pops are not acknowledged yet", waiting)
        self._store_loop.dispatching.on_arrival.append(self._arrived)

    async def run_due(self) -> None:
        """Do what is due: store check points, give messages again, move offsets. Call it several times a second."""
        if self._is_running:
            return
        self._is_running = True
        began = monotonic()
        try:
            now = self._clock.now_ms()
            back_ms = self._steps.back_ms()
            if back_ms:
                self.table.set_back(back_ms)
                self.order_info.set_back(back_ms)
                self._next_forget -= back_ms
            for key in self.order_info.take_free(now):
                self.handed_out.wake(key)
            await self.log.follow()
            await self._store_older_than(self._clock.monotonic() - _STAY_IN_MEMORY_SECONDS)
            await self.revive.run_due()
            await self.log.commit()
            if now >= self._next_forget:
                self._next_forget = now + _FORGET_INTERVAL_MS
                self.order_info.forget(now, self._is_known)
        finally:
            self._is_running = False
            self.log.figures.scan_ms.observe(int((monotonic() - began) * 1000))

    async def stop(self) -> None:
        """Store everything that is handed out, so that the next start knows it."""
        await self._store_older_than(self._clock.monotonic())
        await self.log.commit()
        self._store_loop.dispatching.on_arrival.remove(self._arrived)

    async def _store_older_than(self, popped_before: float) -> None:
        while points := self.table.take_fresh(popped_before, _STORE_AT_A_TIME):
            if not await self.log.store_all(points):
                return

    def _arrived(self, queues: set[tuple[str, int]]) -> None:
        for topic, queue_id in queues:
            if topic == self.log.topic:
                self.log.arrived(queue_id)

    def _is_known(self, key: QueueKey) -> bool:
        config = self._catalog.topics.find(key[0])
        return config is not None and key[1] in self._catalog.groups and key[2] < config.read_queue_nums

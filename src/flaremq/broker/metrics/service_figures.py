"""Timers, POP and transactions, for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flaremq.broker.metrics import catalogue as told
from flaremq.message.topics import TIMER_TOPIC

if TYPE_CHECKING:
    from flaremq.broker.parts import BrokerState
    from flaremq.metrics.samples import Samples

_TIMER_BOUNDS_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)


async def tell_services(state: BrokerState, samples: Samples) -> None:
    """All of them; what only a master does stands still on a slave."""
    await _tell_timer(state, samples)
    await _tell_pop(state, samples)
    await _tell_transactions(state, samples)


async def _tell_timer(state: BrokerState, samples: Samples) -> None:
    timer, figures = state.timer, state.timer.figures
    await samples.add_table(figures.waiting, _one, {told.TIMING_MESSAGES: lambda count: count.value})
    await samples.add_table(figures.enqueued, _one, {told.TIMER_ENQUEUE: lambda count: count.value})
    await samples.add_table(figures.dequeued, _one, {told.TIMER_DEQUEUE: lambda count: count.value})
    await samples.add_table(figures.delays, _one, {told.DELAY_LATENCY: lambda histogram: histogram})
    unread = timer.unread
    samples.add(told.TIMER_ENQUEUE_LAG, unread)
    if samples.wants(told.TIMER_ENQUEUE_LATENCY):
        stored_ms = None
        if unread:
            store = state.store_loop.store
            stored_ms = await state.store_loop.run(store.inspector.store_time, TIMER_TOPIC, 0, timer.cursor)
        now_ms = state.clock.now_ms()
        samples.add(told.TIMER_ENQUEUE_LATENCY, 0 if stored_ms is None else max(0, now_ms - stored_ms))
    samples.add(told.TIMER_DEQUEUE_LAG, timer.waiting_count)
    samples.add(told.TIMER_DEQUEUE_LATENCY, timer.late_ms)
    if samples.wants(told.TIMER_SNAPSHOT):
        now_ms, before = state.clock.now_ms(), 0
        counts = await timer.waiting_within([now_ms + bound * 1000 for bound in _TIMER_BOUNDS_S])
        for bound, count in zip(_TIMER_BOUNDS_S, counts, strict=True):
            samples.add(told.TIMER_SNAPSHOT, count - before, str(bound))
            before = count


async def _tell_pop(state: BrokerState, samples: Samples) -> None:
    pop, figures = state.pop, state.pop.log.figures
    samples.add(told.POP_SCAN_TIME, figures.scan_ms)
    samples.add(told.POP_OFFSET_BUFFER, pop.table.waiting_count)
    samples.add(told.POP_CHECKPOINT_BUFFER, len(pop.table))
    for queue_id, (behind, late_ms) in enumerate(pop.log.behind()):
        samples.add(told.POP_REVIVE_LAG, behind, str(queue_id))
        samples.add(told.POP_REVIVE_LATENCY, late_ms, str(queue_id))
    await samples.add_table(
        figures.written,
        lambda key: (key[0], key[3], key[2], key[1]),
        {told.POP_REVIVE_IN: lambda count: count.value},
    )
    await samples.add_table(
        figures.read,
        lambda key: (key[0], str(key[2]), key[3], key[1]),
        {told.POP_REVIVE_OUT: lambda count: count.value},
    )
    await samples.add_table(
        figures.given_again,
        lambda key: (key[0], key[2], key[1]),
        {told.POP_REVIVE_RETRY: lambda count: count.value},
    )


async def _tell_transactions(state: BrokerState, samples: Samples) -> None:
    figures = state.transactions.open_by_topic()
    await samples.add_table(figures.committed, _one, {told.COMMIT_MESSAGES: lambda count: count.value})
    await samples.add_table(figures.rolled_back, _one, {told.ROLLBACK_MESSAGES: lambda count: count.value})
    await samples.add_table(figures.open, _one, {told.HALF_MESSAGES: lambda count: count.value})
    await samples.add_table(
        figures.finish_seconds,
        _one,
        {told.FINISH_LATENCY: lambda histogram: histogram, told.FINISH_LATENCY_SECONDS: lambda histogram: histogram},
    )


def _one(topic: str) -> tuple[str]:
    return (topic,)

"""When a service takes its next step, as its tables say."""

from __future__ import annotations

from flaremq.broker.delay.levels import ScheduleService
from flaremq.broker.delay.timer import TimerService


def next_level_due(service: ScheduleService) -> int | None:
    """The wall-clock time of the next step worth taking; None if nothing waits."""
    now_ms, steady_ms = service._now()
    waits = []
    for level in service._levels.values():
        if service._end(level) <= level.cursor:
            continue
        remaining = 0
        if level.head_due is not None:
            remaining = level.marks.remaining_ms(level.cursor, level.head_due, now_ms=now_ms, steady_ms=steady_ms)
        waits.append(max(remaining, level.retry_at_ms - steady_ms, 0))
    return now_ms + min(waits) if waits else None


def next_timer_due(service: TimerService) -> int | None:
    """The same of timers."""
    now_ms = service._clock.now_ms()
    due_ms = now_ms if service.unread else service._index.next_due_ms()
    if due_ms is None:
        return None
    pause_ms = int((service._retry_at - service._clock.monotonic()) * 1000)
    return max(due_ms, now_ms + max(pause_ms, 0))

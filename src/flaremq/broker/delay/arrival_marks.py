"""When a message of a delay level is due, also if somebody sets the clock.

A queue unit says by the wall clock when its message is due. That is right as long as the wall clock runs evenly. If it
was set since the message came, forwards or back, the time that has really passed decides: a delay is never shortened,
nor lengthened by more than the distance between two marks.

To know that, marks are kept: at this moment of the steady clock the queue ended at this offset. A message below the
end of a mark came before it, one at or above it came after. Marks are so far apart that a level has some dozens of
them, whatever its delay and traffic. Nothing of this survives a restart: messages found then are due by the wall clock,
but at the latest when their whole delay has passed once more.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from flaremq.broker.delay.clock_steps import STEP_MS

_MARKS_PER_DELAY: Final = 64
_MARKS_MAX: Final = 512


class ArrivalMark(NamedTuple):
    end_offset: int
    steady_ms: int
    distance_ms: int  # of the wall clock from the steady one


class DueTime(NamedTuple):
    """When a message is due by the wall clock, and how long it has waited then."""

    due_ms: int
    delay_ms: int


class ArrivalMarks:
    """The marks of one queue whose messages have about the same delay."""

    __slots__ = ("_marks", "_resolution_ms")

    def __init__(self, delay_ms: int) -> None:
        self._resolution_ms = max(delay_ms // _MARKS_PER_DELAY, 10)
        self._marks: deque[ArrivalMark] = deque()

    def __len__(self) -> int:
        return len(self._marks)

    def note(self, end_offset: int, *, now_ms: int, steady_ms: int) -> None:
        """The queue ends here now. Called in every step, before anything is asked."""
        mark = ArrivalMark(end_offset, steady_ms, now_ms - steady_ms)
        marks = self._marks
        if marks:
            last = marks[-1]
            stepped = abs(mark.distance_ms - last.distance_ms) > STEP_MS
            grown = end_offset > last.end_offset and steady_ms >= last.steady_ms + self._resolution_ms
            if not stepped and not grown:
                return
        marks.append(mark)
        if len(marks) > _MARKS_MAX:  # a level that cannot deliver: coarser marks only make it later
            self._marks = deque([marks[0], *list(marks)[1::2]])

    def passed(self, offset: int) -> None:
        """Messages below ``offset`` are delivered; their marks are not needed any more."""
        marks = self._marks
        while len(marks) > 1 and marks[1].end_offset <= offset:
            marks.popleft()

    def remaining_ms(self, offset: int, due: DueTime, *, now_ms: int, steady_ms: int) -> int:
        """Milliseconds until the message at ``offset`` is due; 0 or less: now."""
        before: ArrivalMark | None = None
        after: ArrivalMark | None = None
        for mark in self._marks:
            if mark.end_offset > offset:
                after = mark
                break
            before = mark
        if before is None:
            before = after
        remaining = due.due_ms - now_ms
        distance_ms = now_ms - steady_ms
        is_even = before is None or abs(distance_ms - before.distance_ms) <= STEP_MS
        if is_even and remaining <= due.delay_ms:
            return remaining
        seen_ms = steady_ms if after is None else after.steady_ms
        return seen_ms + due.delay_ms - steady_ms

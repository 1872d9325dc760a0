"""Line: messages that wait for the wire, with the futures of those who sent them. Compiled, as all that is done for
every single message."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from asyncio import Future

    from flaremq.client.producer.send_result import SendResult

if not cython.compiled:
    from flaremq.client.producer.outgoing import Outgoing


class Line:
    """First come, first served."""

    __slots__ = ("_at", "_futures", "_make_future", "_messages")

    def __init__(self, make_future: Callable[[], Future[SendResult]]) -> None:
        self._make_future = make_future
        self._messages: list[Outgoing] = []
        self._futures: list[Future[SendResult]] = []
        self._at = 0  # the first that still waits

    def __len__(self) -> int:
        return len(self._messages) - self._at

    def put(self, message: Outgoing) -> Future[SendResult]:
        """Line a message up."""
        future = self._make_future()
        self._messages.append(message)
        self._futures.append(future)
        return future

    @property
    def first(self) -> Outgoing:
        """The message whose turn it is; there must be one."""
        return self._messages[self._at]

    def take(self, bytes_max: int, count_max: int) -> tuple[list[Outgoing], list[Future[SendResult]]]:
        """The next messages that may travel together: at least one, so many at most, with so many bytes."""
        start = self._at
        end = start + 1
        messages = self._messages
        message = messages[start]
        if not message.is_alone:
            stop = min(len(messages), start + count_max)
            room = bytes_max - len(message.body)
            while end < stop:
                message = messages[end]
                room -= len(message.body) + len(message.properties)
                if message.is_alone or room < 0:
                    break
                end += 1
        taken = messages[start:end], self._futures[start:end]
        # What is gone is given back at times, so that taking costs the same however many wait.
        if 2 * end >= len(messages):
            del messages[:end]
            del self._futures[:end]
            end = 0
        else:
            for number in range(start, end):
                self._futures[number] = None  # type: ignore[call-overload]  # it is not looked at any more
        self._at = end
        return taken

    def clear(self) -> list[Future[SendResult]]:
        """Forget all messages; the futures of those who wait."""
        futures = self._futures[self._at :]
        self._messages.clear()
        self._futures.clear()
        self._at = 0
        return futures


def tell(futures: list[Future[SendResult]], results: list[SendResult]) -> None:
    """Give each its result, unless it was cancelled meanwhile."""
    for number in range(len(futures)):
        future = futures[number]
        if not future.done():
            future.set_result(results[number])


def tell_failure(futures: list[Future[SendResult]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)

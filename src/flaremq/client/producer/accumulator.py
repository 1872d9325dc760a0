"""Accumulators: sends that wait at the same moment travel together (RocketMQ: ProduceAccumulator).

One holds the messages of one topic (or of one queue, for ordered sends) that are not on the wire yet. An idle one
passes a message on at once, so a lone send is never delayed. A busy one collects: what has gathered by the end of this
turn of the event loop, or by the time a reply makes room, goes out as one request of up to ``batch_max_bytes``. So the
slower the broker, the larger the requests, and memory on the wire stays bounded by the window.

Order within an accumulator is kept. One with a window of 1 keeps it on the broker too: nothing leaves before what went
ahead of it is answered, retries included.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from flaremq.client.options import ProducerOptions
from flaremq.client.producer.outgoing import Outgoing
from flaremq.client.producer.send_result import SendResult
from flaremq.client.producer.sender import Sender
from flaremq.errors import FlareMQError, InvalidArgumentError, UnavailableError
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError

_ALONE_WINDOW: Final = 256  # requests on their way at a time for messages that cannot travel together
_BATCH_COUNT_MAX: Final = 1024


class Accumulator:
    """One queue of messages to be sent. Event loop thread only."""

    def __init__(self, sender: Sender, options: ProducerOptions, *, queue: MessageQueue | None = None) -> None:
        self._sender = sender
        self._options = options
        self._queue = queue  # all messages go there, one request at a time
        self._window = 1 if queue is not None else options.send_window
        self._alone_window = 1 if queue is not None else _ALONE_WINDOW
        self._pending: deque[Outgoing] = deque()
        self._in_flight = 0
        self._is_scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    @property
    def is_idle(self) -> bool:
        return not self._in_flight and not self._pending

    async def send(self, message: Outgoing) -> SendResult:
        """Send a message and wait for its result, at once if nothing is ahead of it."""
        if self._in_flight or self._pending:
            return await self.put(message)
        self._in_flight += 1
        try:
            return (await self._sender.transmit((message,), queue=self._queue, timeout=message.timeout))[0]
        finally:
            self._in_flight -= 1
            self._drain()

    def put(self, message: Outgoing) -> asyncio.Future[SendResult]:
        """Line a message up."""
        future = self._loop.create_future()
        message.future = future
        self._pending.append(message)
        if not self._is_scheduled and self._in_flight < self._alone_window:
            self._is_scheduled = True
            self._loop.call_soon(self._scheduled)
        return future

    def _scheduled(self) -> None:
        self._is_scheduled = False
        self._drain()

    def _drain(self) -> None:
        """Put on the wire what the window allows."""
        pending = self._pending
        while pending:
            alone = pending[0].is_alone or not self._options.auto_batch
            if self._in_flight >= (self._alone_window if alone else self._window):
                return
            self._in_flight += 1
            task = self._loop.create_task(self._carry(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[Outgoing]:
        """The messages of the next request."""
        pending = self._pending
        taken = [pending.popleft()]
        if taken[0].is_alone or not self._options.auto_batch:
            return taken
        room = self._options.batch_max_bytes - len(taken[0].body)
        while pending and len(taken) < _BATCH_COUNT_MAX:
            message = pending[0]
            room -= len(message.body) + len(message.properties)
            if message.is_alone or room < 0:
                break
            taken.append(pending.popleft())
        return taken

    async def _carry(self, messages: list[Outgoing]) -> None:
        try:
            await self._deliver(messages)
        except asyncio.CancelledError:
            _fail(messages, UnavailableError("the producer was closed before this message was sent"))
            raise
        except Exception as error:
            _fail(messages, error)
        finally:
            self._in_flight -= 1
            self._drain()

    async def _deliver(self, messages: list[Outgoing]) -> None:
        try:
            results = await self._sender.transmit(messages, queue=self._queue, timeout=messages[0].timeout)
        except (RequestError, InvalidArgumentError) as error:
            # The broker refused all of them because they came together, or because of one: find out.
            refused = not isinstance(error, RequestError) or error.code == ResponseCode.MESSAGE_ILLEGAL
            if len(messages) == 1 or not refused:
                raise
            for message in messages:
                try:
                    await self._deliver([message])
                except FlareMQError as single_error:
                    _fail([message], single_error)
            return
        for message, result in zip(messages, results, strict=True):
            future = message.future
            if future is not None and not future.done():
                future.set_result(result)

    async def finish(self) -> None:
        """Wait until everything is sent or has failed."""
        while self._tasks or self._pending:
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            else:
                await asyncio.sleep(0)

    def abandon(self) -> None:
        """Give up what is not answered."""
        pending, self._pending = list(self._pending), deque()
        _fail(pending, UnavailableError("the producer was closed before this message was sent"))
        for task in self._tasks:
            task.cancel()


def _fail(messages: list[Outgoing], error: Exception) -> None:
    for message in messages:
        future = message.future
        if future is not None and not future.done():
            future.set_exception(error)

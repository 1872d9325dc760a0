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
from typing import Final

from flaremq.client.options import ProducerOptions
from flaremq.client.producer.line import Line, tell, tell_failure
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
        self._in_flight = 0
        self._is_scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._pending = Line(self._loop.create_future)

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
        future = self._pending.put(message)
        if not self._is_scheduled and self._in_flight < self._alone_window:
            self._is_scheduled = True
            self._loop.call_soon(self._scheduled)
        return future

    def _scheduled(self) -> None:
        self._is_scheduled = False
        self._drain()

    def _drain(self) -> None:
        """Put on the wire what the window allows."""
        pending, options = self._pending, self._options
        while pending:
            alone = pending.first.is_alone or not options.auto_batch
            if self._in_flight >= (self._alone_window if alone else self._window):
                return
            self._in_flight += 1
            messages, futures = pending.take(options.batch_max_bytes, 1 if alone else _BATCH_COUNT_MAX)
            task = self._loop.create_task(self._carry(messages, futures))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, messages: list[Outgoing], futures: list[asyncio.Future[SendResult]]) -> None:
        try:
            await self._deliver(messages, futures)
        except asyncio.CancelledError:
            tell_failure(futures, UnavailableError("the producer was closed before this message was sent"))
            raise
        except Exception as error:
            tell_failure(futures, error)
        finally:
            self._in_flight -= 1
            self._drain()

    async def _deliver(self, messages: list[Outgoing], futures: list[asyncio.Future[SendResult]]) -> None:
        try:
            results = await self._sender.transmit(messages, queue=self._queue, timeout=messages[0].timeout)
        except (RequestError, InvalidArgumentError) as error:
            # The broker refused all of them because they came together, or because of one: find out.
            refused = not isinstance(error, RequestError) or error.code == ResponseCode.MESSAGE_ILLEGAL
            if len(messages) == 1 or not refused:
                raise
            for message, future in zip(messages, futures, strict=True):
                try:
                    await self._deliver([message], [future])
                except FlareMQError as single_error:
                    tell_failure([future], single_error)
            return
        tell(futures, results)

    async def finish(self) -> None:
        """Wait until everything is sent or has failed."""
        while self._tasks or self._pending:
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            else:
                await asyncio.sleep(0)

    def abandon(self) -> None:
        """Give up what is not answered."""
        tell_failure(self._pending.clear(), UnavailableError("the producer was closed before this message was sent"))
        for task in self._tasks:
            task.cancel()

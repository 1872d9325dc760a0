"""POP requests that take or look.

A pop that finds nothing waits for a message as long as its client asked it to (``pop.polling``) and is then tried
again. The two answers without messages tell the client what to do: POLLING_TIMEOUT, ask again at once;
POLLING_FULL, wait a little first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from flaremq.broker.catalog.groups import GroupTable, check_not_broker_group
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.long_polling.pull_request import EVERYTHING, checked_wanted
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pop.answer import PopAnswer, PopAsk
from flaremq.broker.pop.check_point import MESSAGES_MAX
from flaremq.broker.pop.polling import Poll, PopPolling
from flaremq.broker.pop.service import PopService
from flaremq.broker.requests.pop_ack import check_invisible_time
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import Clock
from flaremq.protocol.bodies.topic import PERM_READ, TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.pop import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageRequestHeader,
)
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, Lane, Outcome, error_response

_log = logging.getLogger(__name__)

_POLL_MAX_MS: Final = 120_000
_LATE_MS: Final = 500  # a client gives up about then
_CLOCKS_DIFFER_MS: Final = 600_000  # nothing takes that long: the client's clock is another one


class PopHandler:
    """Serves POP. Polls end by their own timer; ``run_due`` ends them where a clock is moved by hand."""

    def __init__(
        self,
        options: BrokerOptions,
        store_loop: StoreLoop,
        clock: Clock,
        topics: TopicTable,
        groups: GroupTable,
        service: PopService,
    ) -> None:
        self._options = options
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._service = service
        self._tasks: set[asyncio.Future[None]] = set()
        self._is_stopped = False
        self._filter_lane: Lane | None = None
        self.pops = PopPolling(store_loop.dispatching, clock)
        self.notifications = PopPolling(store_loop.dispatching, clock)
        for polls in (self.pops, self.notifications):
            store_loop.dispatching.on_arrival.append(polls.arrived)
            service.handed_out.on_available.append(polls.wake)

    def register(self, table: HandlerTable) -> None:
        self._filter_lane = table.lanes["filter"]
        table.register(RequestCode.POP_MESSAGE, self.pop, "pull")
        table.register(RequestCode.PEEK_MESSAGE, self.peek, "pull")
        table.register(RequestCode.NOTIFICATION, self.notification, "pull")
        table.register(RequestCode.POLLING_INFO, self.polling_info, "pull")

    def run_due(self) -> None:
        """Answer the polls that have waited long enough."""
        for polls in (self.pops, self.notifications):
            polls.expire()

    async def stop(self) -> None:
        """Answer all polls."""
        self._is_stopped = True
        self.pops.close()
        self.notifications.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Taking

    def pop(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """POP_MESSAGE."""
        arrived = self._clock.monotonic()
        header = PopMessageRequestHeader.decode(_with_born_time(request))
        hold_ms = self._hold_ms(header.born_time, header.poll_time)
        if hold_ms is None:
            remark = f"the broker[{self._options.broker_ip1}] pop message is timeout too much"
            answer = PopAnswer(self._clock.now_ms(), header.invisible_time, 0)
            ext = answer.header(order=False).encode()
            return RemotingCommand.response(ResponseCode.POLLING_TIMEOUT, remark, ext=ext)
        if not 1 <= header.max_msg_nums <= MESSAGES_MAX:
            raise _invalid(f"the broker[{self._options.broker_ip1}] pop message's num is not 1 to {MESSAGES_MAX}")
        self._check_group_and_topic(connection, header.consumer_group, header.topic, header.queue_id)
        kind, expression = header.expression_type, header.expression
        ask = PopAsk(
            group=header.consumer_group,
            topic=header.topic,
            queue_id=max(-1, header.queue_id),
            max_count=header.max_msg_nums,
            invisible_time=check_invisible_time(header.invisible_time),
            init_mode=header.init_mode,
            wanted=checked_wanted(self._options, kind, expression) if expression else EVERYTHING,
            order=bool(header.order),
            attempt_id=header.attempt_id,
        )
        work = self._pop(connection, request, ask, arrived + hold_ms / 1000)
        if ask.wanted.matches is None or self._filter_lane is None:
            return work
        self._filter_lane.enter(connection, request, work)
        return None

    async def _pop(
        self, connection: Connection, request: RemotingCommand, ask: PopAsk, deadline: float
    ) -> RemotingCommand | None:
        if not self._groups.is_saved:
            # After a crash an unknown group would be taken for deleted, and its messages would not be delivered again.
            await self._groups.save_changes()
        while True:
            if not connection.is_open:
                return None  # messages handed to it would be invisible to the others with no one to ack them
            answer = await self._service.taking.pop(ask)
            if answer.count or not answer.has_more or self._clock.monotonic() > deadline:
                break
            await asyncio.sleep(0)  # a long stretch that the filter does not want: others get their turn
        if answer.count:
            ext = answer.header(order=ask.order).encode()
            if answer.rest_count > 0:
                self.pops.wake_same(ask.topic, ask.group, ask.queue_id)
            return RemotingCommand.response(ResponseCode.SUCCESS, "FOUND", ext=ext, body=answer.records)
        code = ResponseCode.POLLING_FULL
        if not answer.is_full:
            poll = Poll(
                connection,
                request,
                topic=ask.topic,
                group=ask.group,
                queue_id=ask.queue_id,
                deadline=deadline,
                again=lambda poll: self._later(poll, self._pop(connection, request, ask, deadline)),
            )
            code = self._hold(self.pops, poll)
            if code == ResponseCode.SUCCESS:
                return None
        ext = answer.header(order=ask.order).encode()
        return RemotingCommand.response(code, "NO_MESSAGE_IN_QUEUE", ext=ext)

    def _hold(self, polls: PopPolling, poll: Poll) -> ResponseCode:
        """Let a request wait: SUCCESS if it does, else what to answer it."""
        if self._is_stopped or poll.deadline <= self._clock.monotonic():
            return ResponseCode.POLLING_TIMEOUT
        options = self._options
        held = polls.hold(poll, count_max=options.pop_polling_size, total_max=options.max_pop_polling_size)
        return ResponseCode.SUCCESS if held else ResponseCode.POLLING_FULL

    def _hold_ms(self, born_time: int, poll_time: int) -> int | None:
        """How long a request may wait from now on; None if its client has given up already."""
        poll_time = min(poll_time, _POLL_MAX_MS)
        late_ms = self._clock.now_ms() - born_time - max(0, poll_time)
        if _LATE_MS < late_ms < _CLOCKS_DIFFER_MS:
            return None
        if late_ms >= _CLOCKS_DIFFER_MS:
            return max(0, poll_time)
        return max(0, min(poll_time, -late_ms))

    def _later(self, poll: Poll, work: Awaitable[RemotingCommand | None]) -> None:
        """Answer a request that has waited."""
        task: asyncio.Future[None] = asyncio.ensure_future(_answer(poll, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Looking

    def peek(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """PEEK_MESSAGE."""
        header = PeekMessageRequestHeader.decode(request.ext)
        if not 1 <= header.max_msg_nums <= MESSAGES_MAX:
            raise _invalid(f"the broker[{self._options.broker_ip1}] peek message's num is not 1 to {MESSAGES_MAX}")
        self._check_group_and_topic(connection, header.consumer_group, header.topic, header.queue_id)
        return self._peek(header)

    async def _peek(self, header: PeekMessageRequestHeader) -> RemotingCommand:
        answer = await self._service.taking.peek(
            header.consumer_group, header.topic, header.queue_id, header.max_msg_nums, EVERYTHING
        )
        ext = answer.header(order=False).encode()
        if answer.count:
            return RemotingCommand.response(ResponseCode.SUCCESS, "FOUND", ext=ext, body=answer.records)
        return RemotingCommand.response(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", ext=ext)

    def notification(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """NOTIFICATION: answered when there is something to pop, or when its time is over."""
        header = NotificationRequestHeader.decode(_with_born_time(request))
        self._check_group_and_topic(connection, header.consumer_group, header.topic, header.queue_id)
        deadline = self._clock.monotonic() + (self._hold_ms(header.born_time, header.poll_time) or 0) / 1000
        return self._notify(connection, request, header, deadline)

    async def _notify(
        self, connection: Connection, request: RemotingCommand, header: NotificationRequestHeader, deadline: float
    ) -> RemotingCommand | None:
        group, topic, queue_id = header.consumer_group, header.topic, max(-1, header.queue_id)
        has_messages = await self._service.taking.has_messages(
            group, topic, queue_id, order=header.order, attempt_id=header.attempt_id
        )
        is_full = False
        if not has_messages:
            poll = Poll(
                connection,
                request,
                topic=topic,
                group=group,
                queue_id=queue_id,
                deadline=deadline,
                again=lambda poll: self._later(poll, self._notify(connection, request, header, deadline)),
            )
            code = self._hold(self.notifications, poll)
            if code == ResponseCode.SUCCESS:
                return None
            is_full = code == ResponseCode.POLLING_FULL
        response = NotificationResponseHeader(has_msg=has_messages, polling_full=is_full)
        return RemotingCommand.response(ResponseCode.SUCCESS, ext=response.encode())

    def polling_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """POLLING_INFO: how many pops wait."""
        header = PollingInfoRequestHeader.decode(request.ext)
        self._check_group_and_topic(connection, header.consumer_group, header.topic, header.queue_id)
        waiting = self.pops.count(header.topic, header.consumer_group, max(-1, header.queue_id))
        return RemotingCommand.response(ext=PollingInfoResponseHeader(polling_num=waiting).encode())

    # Who may ask for what

    def _check_group_and_topic(self, connection: Connection, group: str, topic: str, queue_id: int) -> None:
        if not self._options.broker_permission & PERM_READ:
            remark = f"the broker[{self._options.broker_ip1}] pop message is forbidden"
            raise RequestError(ResponseCode.NO_PERMISSION, remark)
        check_not_broker_group(group)
        config = self._find_topic(topic)
        if not config.perm & PERM_READ:
            raise RequestError(ResponseCode.NO_PERMISSION, f"the topic[{topic}] popping message is forbidden")
        if queue_id >= config.read_queue_nums:
            raise _invalid(_bad_queue(connection, topic, queue_id, config))
        group_config = self._groups.find(group)
        if group_config is None:
            remark = f"subscription group [{group[:256]}] does not exist"
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group_config.consume_enable:
            raise RequestError(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")

    def _find_topic(self, topic: str) -> TopicConfig:
        config = self._topics.find(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic[:256]}] not exist, apply first please!")
        return config


async def _answer(poll: Poll, work: Awaitable[RemotingCommand | None]) -> None:
    try:
        response = await work
    except Exception as error:
        response = error_response(error, poll.request)
    if response is not None:
        poll.connection.reply(poll.request, response)


def _with_born_time(request: RemotingCommand) -> dict[str, object]:
    """The ext fields; a client that does not say when it asked asks now."""
    ext: dict[str, object] = dict(request.ext or {})
    if ext.get("bornTime", "0") == "0":
        ext["bornTime"] = str(2**62)
    return ext


def _invalid(remark: str) -> RequestError:
    return RequestError(ResponseCode.INVALID_PARAMETER, remark)


def _bad_queue(connection: Connection, topic: str, queue_id: int, config: TopicConfig) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{config.read_queue_nums}] "
        f"consumer:[{connection.peer}]"
    )

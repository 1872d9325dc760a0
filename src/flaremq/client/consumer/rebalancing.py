"""Rebalancing: finding out which queues are this consumer's now, and taking them up or letting them go.

Nobody assigns queues. Every consumer of a group asks a broker who else there is and computes its own share, now and
then, and whenever a broker says that the group has changed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

from flaremq.client.consumer.consumption import Consumption
from flaremq.client.consumer.offset_store import NO_OFFSET, OffsetStore
from flaremq.client.consumer.queue_offset import queue_offset
from flaremq.client.errors import queue_name
from flaremq.client.instance import ClientInstance
from flaremq.client.options import ConsumerOptions
from flaremq.client.routes import TopicRoute
from flaremq.errors import FlareMQError, NotFoundError
from flaremq.message.topics import is_retry_topic
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.group import GetConsumerListByGroupResponseBody
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.queue_allocation import STRATEGIES

_log = logging.getLogger(__name__)

FIRST: Final = "first"
LAST: Final = "last"
_AGAIN_SOON: Final = 1.0  # seconds, while something is not as it should be


class Rebalancer:
    """Keeps the queues of one consumer what they should be. Event loop thread only."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        options: ConsumerOptions,
        consumption: Consumption,
        offsets: OffsetStore,
        subscriptions: dict[str, SubscriptionData],
        start_from: str | int,
    ) -> None:
        self._instance = instance
        self._group = group
        self._interval = options.rebalance_interval / 1000
        self._strategy = STRATEGIES[options.allocate_message_queue_strategy]
        self._consumption = consumption
        self._offsets = offsets
        self._subscriptions = subscriptions
        self._start_from = start_from
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()  # one rebalance at a time
        self._is_stopped = False
        self._told: dict[str, str] = {}  # failures by topic: one that stays is told once

    def soon(self) -> None:
        """Look again at once."""
        self._wanted.set()

    async def run(self) -> None:
        """Rebalance from time to time and when asked to."""
        pause = self._interval
        while not self._is_stopped:
            try:
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                is_settled = await self.rebalance()
            except Exception:
                _log.exception("rebalancing of group %s failed", self._group)
                is_settled = False
            pause = self._interval if is_settled else _AGAIN_SOON

    async def stop(self) -> None:
        """Leave the queues as they are from now on."""
        self._is_stopped = True
        async with self._turn:
            pass

    async def rebalance(self) -> bool:
        """Bring the queues of every topic up to date; False if something has to be tried again soon."""
        async with self._turn:
            is_settled = True
            for topic, subscription in list(self._subscriptions.items()):
                if self._is_stopped:
                    return True
                try:
                    if not await self._rebalance_topic(topic, subscription):
                        is_settled = False
                    self._told.pop(topic, None)
                except FlareMQError as error:
                    is_settled = False
                    # A retry topic is made by the first heartbeat, and known a moment later.
                    if not (isinstance(error, NotFoundError) and is_retry_topic(topic)):
                        self._tell(topic, str(error))
            return is_settled

    def _tell(self, topic: str, failure: str) -> None:
        if self._told.get(topic) != failure:
            self._told[topic] = failure
            _log.warning("the queues of topic %s could not be shared out: %s", topic, failure)

    async def _rebalance_topic(self, topic: str, subscription: SubscriptionData) -> bool:
        route = await self._instance.routes.find(topic)
        queues = sorted(route.read_queues)
        if not self._consumption.is_broadcasting:
            client_ids = await self._client_ids(route)
            client_id = self._instance.client_id
            if client_id not in client_ids:
                return False  # the broker has not taken note of us yet: keep what we have
            queues = self._strategy(client_id, client_ids, queues)
        held = {queue for queue in self._consumption.queues if queue.topic == topic}
        wanted = set(queues)
        await self._consumption.let_go(held - wanted)
        return await self._take_up([queue for queue in queues if queue not in held], subscription)

    async def _take_up(self, queues: list[MessageQueue], subscription: SubscriptionData) -> bool:
        is_complete = True
        if any(map(self._consumption.is_leaving, queues)):
            is_complete = False
            queues = [queue for queue in queues if not self._consumption.is_leaving(queue)]
        if self._consumption.is_orderly and queues:
            locked = await self._consumption.locks.lock(queues)
            is_complete = is_complete and locked.issuperset(
                queues
            )  # others may still be busy with a queue that will be ours
            queues = [queue for queue in queues if queue in locked]
        for queue in queues:
            try:
                offset = await self.start_offset(queue)
            except FlareMQError as error:
                _log.warning("the offset of %s is not known: %s", queue_name(queue), error)
                is_complete = False
                continue
            self._consumption.take_up(queue, subscription, offset)
        return is_complete

    async def _client_ids(self, route: TopicRoute) -> list[str]:
        """Everybody of the group, sorted; any broker of the topic knows them."""
        addresses = [by_id[min(by_id)] for by_id in route.addresses.values() if by_id]
        if not addresses:
            return []
        address = random.choice(addresses)
        await self._instance.heartbeats.ensure(address)
        reply = await self._instance.transport.call(
            address,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            {"consumerGroup": self._group},
            accept=(ResponseCode.SYSTEM_ERROR,),  # the group has no members
        )
        if reply.code != ResponseCode.SUCCESS:
            return []
        return sorted(GetConsumerListByGroupResponseBody.from_json(reply.body_bytes).consumer_id_list)

    async def start_offset(self, queue: MessageQueue) -> int:
        """Where to go on in a queue, or to begin in one that the group never read."""
        offset = await self._offsets.load(queue)
        if offset != NO_OFFSET:
            return offset
        is_retry = is_retry_topic(queue.topic)
        if self._start_from == FIRST or (self._start_from == LAST and is_retry):
            return 0
        if self._start_from == LAST or is_retry:
            return await queue_offset(self._instance, RequestCode.GET_MAX_OFFSET, queue)
        return await queue_offset(
            self._instance, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, {"timestamp": str(self._start_from)}
        )

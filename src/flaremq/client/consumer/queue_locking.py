"""Locks on queues: orderly consumption needs a queue for itself, and brokers say who has it.

A lock must be renewed; a consumer that did not manage to counts it as lost after 30 seconds, the broker after 60, so
there is never a moment in which two consumers both believe that a queue is theirs.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from flaremq.client.consumer.process_queue import ProcessQueue
from flaremq.client.instance import ClientInstance
from flaremq.errors import FlareMQError
from flaremq.protocol.bodies.queue import LockBatchRequestBody, LockBatchResponseBody, MessageQueue
from flaremq.protocol.codes import RequestCode

_log = logging.getLogger(__name__)

RENEW_MS: Final = 20_000
LOST_AFTER: Final = 30.0  # seconds


class QueueLocking:
    """Asks brokers for queues. Event loop thread only."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Those of the queues that are this consumer's now."""
        locked: set[MessageQueue] = set()
        for broker_name, some in _by_broker(queues).items():
            try:
                reply = await self._instance.transport.call(
                    self._instance.routes.master(broker_name),
                    RequestCode.LOCK_BATCH_MQ,
                    body=self._body(some),
                    what="locking queues",
                )
                locked.update(LockBatchResponseBody.from_json(reply.body_bytes).lock_ok_mq_set)
            except FlareMQError as error:
                _log.warning("queues of %s could not be locked: %s", broker_name, error)
        return locked

    async def renew(self, queues: Iterable[ProcessQueue]) -> None:
        """Keep the locks of these queues."""
        held = list(queues)
        now = self._instance.clock.monotonic()
        locked = await self.lock(entry.queue for entry in held)
        for entry in held:
            if entry.queue in locked:
                entry.locked_until = now + LOST_AFTER

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Let others have these queues."""
        for broker_name, some in _by_broker(queues).items():
            try:
                await self._instance.transport.oneway(
                    self._instance.routes.master(broker_name), RequestCode.UNLOCK_BATCH_MQ, body=self._body(some)
                )
            except FlareMQError as error:
                _log.info("queues of %s were not unlocked, the locks will expire: %s", broker_name, error)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return LockBatchRequestBody(
            consumer_group=self._group, client_id=self._instance.client_id, mq_set=tuple(queues)
        ).to_json()


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    grouped: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        grouped[queue.broker_name].append(queue)
    return grouped

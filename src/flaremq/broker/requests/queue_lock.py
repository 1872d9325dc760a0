"""Locks of queues for orderly consumption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flaremq.broker.catalog.groups import check_not_broker_group
from flaremq.broker.catalog.names import check_client_id, check_group
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.members.queue_locks import QueueLocks
from flaremq.protocol.bodies.queue import LockBatchRequestBody, LockBatchResponseBody, MessageQueue
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome


class QueueLockHandler:
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    def __init__(self, topics: TopicTable, locks: QueueLocks) -> None:
        self._topics = topics
        self._locks = locks

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.LOCK_BATCH_MQ, self.lock)
        table.register(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def lock(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """Grant what is free; what does not exist is not granted, so nobody fills our memory with inventions."""
        body = LockBatchRequestBody.from_json(request.body_bytes)
        queues = [queue for queue in body.mq_set if self._exists(queue)]
        group = check_not_broker_group(check_group(body.consumer_group))
        granted = self._locks.lock(group, check_client_id(body.client_id), queues)
        return RemotingCommand.response(body=LockBatchResponseBody(lock_ok_mq_set=tuple(granted)).to_json())

    def unlock(self, connection: Connection, request: RemotingCommand) -> Outcome:
        body = LockBatchRequestBody.from_json(request.body_bytes)
        self._locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        return RemotingCommand.response()

    def _exists(self, queue: MessageQueue) -> bool:
        config = self._topics.find(queue.topic)
        return config is not None and 0 <= queue.queue_id < max(config.read_queue_nums, config.write_queue_nums)

"""SEND_BATCH_MESSAGE: several messages of one queue in one body, appended as they came off the wire, all or none."""

from __future__ import annotations

from functools import partial
from typing import Any

from flaremq.broker.ingest.admission import SendAdmission, queue_of
from flaremq.broker.ingest.plain import DELAY_PROPERTY
from flaremq.broker.ingest.replies import UNACKNOWLEDGED_MAX, SendReplies, busy
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.traffic import message_type
from flaremq.broker.store_loop.put_status import not_enough_replicas
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.message.stored_form import delay_level_of
from flaremq.message.topics import RETRY_PREFIX
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.send import SendMessageRequestHeader
from flaremq.remoting.connection import Connection
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus


class BatchSends:
    """Stores batches: like a plain send at once where nothing is to be decided, else in a coroutine."""

    def __init__(
        self, store_loop: StoreLoop, statistics: BrokerStatistics, admission: SendAdmission, replies: SendReplies
    ) -> None:
        self._store_loop = store_loop
        self._statistics = statistics
        self._admission = admission
        self._replies = replies

    def send(self, connection: Connection, request: RemotingCommand, header: SendMessageRequestHeader) -> Any:
        queues = self._admission.plain_queues.get(header.topic)
        if queues is None or not 0 <= header.queue_id < queues or DELAY_PROPERTY in (header.properties or ""):
            return self._send(connection, request, header)
        durability, dispatching = self._store_loop.durability, self._store_loop.dispatching
        if durability.unacknowledged >= UNACKNOWLEDGED_MAX:
            return busy(durability.unacknowledged)
        if durability.refuses():
            return self._replies.refused(not_enough_replicas())
        result = self._store_loop.driver.append_batch_body(
            header.topic,
            header.queue_id,
            request.body_bytes,
            born_timestamp=header.born_timestamp,
            born_host=connection.peer_host,
            sys_flag=header.sys_flag,
        )
        if result.physical_offset < 0:
            return self._replies.refused(result)
        self._note(header, result)
        end = result.physical_offset + result.size
        dispatching.note_awaited(header.topic, end)
        if durability.acknowledges_later:
            connection.begin(request)
            durability.when_durable(end, partial(self._confirm, connection, request, header, result))
            return None
        durability.appended()
        self._acknowledge(connection, request, header, result, PutMessageStatus.PUT_OK)
        return None

    def _confirm(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        result: PutResult,
        status: PutMessageStatus,
    ) -> None:
        connection.finish(request)
        self._acknowledge(connection, request, header, result, status)

    def _acknowledge(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageRequestHeader,
        result: PutResult,
        status: PutMessageStatus,
    ) -> None:
        if status is not PutMessageStatus.PUT_OK or "UNIQ_KEY" in (header.properties or ""):
            connection.reply(request, self._stored(status, header, header.queue_id, result))
            return
        connection.answered(request)
        if not request.is_oneway and connection.is_open:
            connection.write(
                [self._replies.acknowledgement(request, header.queue_id, result.queue_offset, result.message_id)]
            )

    def _note(self, header: SendMessageRequestHeader, result: PutResult) -> None:
        self._statistics.note_put(header.topic, result.count, result.size)
        kind = message_type((header.properties or "").encode("utf-8", "replace"))
        self._statistics.traffic.plain(header.topic, kind, result.size, result.count)

    def _stored(
        self, status: PutMessageStatus, header: SendMessageRequestHeader, queue_id: int, result: PutResult
    ) -> RemotingCommand:
        return self._replies.stored(status, queue_id, result, (header.properties or "").encode("utf-8", "replace"))

    async def _send(
        self, connection: Connection, request: RemotingCommand, header: SendMessageRequestHeader
    ) -> RemotingCommand:
        try:
            if header.topic.startswith(RETRY_PREFIX):
                raise RequestError(
                    ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}"
                )
            config = await self._admission.check(header)
            if delay_level_of((header.properties or "").encode("utf-8", "replace")) > 0:
                raise RequestError(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        except RequestError as error:
            return RemotingCommand.response(error.code, error.remark, ext=self._replies.traits)
        queue_id = queue_of(header, config)
        result = await self._store_loop.put_batch_body(
            header.topic,
            queue_id,
            request.body_bytes,
            born_timestamp=header.born_timestamp,
            born_host=connection.peer_host,
            sys_flag=header.sys_flag,
        )
        if result.physical_offset < 0:
            return self._replies.refused(result)
        self._note(header, result)
        return self._stored(result.status, header, queue_id, result)

"""Sends of write streams: each message once, in order, from one writer (``broker/streams/ledger.py``).

OPEN_WRITE_STREAM is a request of our own; RocketMQ's brokers answer it with "not supported", by which a writer knows
that it must find out by queries what is stored. Stamped sends are RocketMQ's own with one more field, which RocketMQ
ignores. They take the long way through a coroutine: there are few of them, with hundreds of messages each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flaremq.broker.delay.message_rules import MessageKind
from flaremq.broker.ingest.admission import SendAdmission
from flaremq.broker.ingest.replies import SendReplies
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.put_status import code_of, not_enough_replicas
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.broker.streams.ledger import STAMP, Refused, SinkLedger, Stamp
from flaremq.errors import CorruptionError
from flaremq.message.batch import item_start
from flaremq.message.topics import RETRY_PREFIX, SCHEDULE_TOPIC
from flaremq.message.write_stream import chain_text, is_stem
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import ExtValue, RemotingCommand, RequestError
from flaremq.protocol.headers.send import OpenWriteStreamRequestHeader, SendMessageRequestHeader, decode_send_header
from flaremq.storage.put.put_result import PutResult

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_TOKEN_LENGTH: Final = 16


class StreamSends:
    """Opens write streams and takes their messages."""

    def __init__(
        self, store_loop: StoreLoop, statistics: BrokerStatistics, admission: SendAdmission, replies: SendReplies
    ) -> None:
        self._admission = admission
        self._replies = replies
        self._store_loop = store_loop
        self._statistics = statistics
        self.ledger = SinkLedger(store_loop)

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.OPEN_WRITE_STREAM, self.open, "query")

    async def open(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Make somebody the writer of a stream, and say how much of it is stored."""
        header = OpenWriteStreamRequestHeader.decode(request.ext)
        stream, stem = header.stream, header.stem
        if not is_stem(stream) or not is_stem(stem) or len(header.token) != _TOKEN_LENGTH:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"stream {stream[:64]!r}, stem {stem[:64]!r} or token is malformed"
            )
        try:
            state = await self.ledger.open(
                header.topic, stream, header.token, stem, is_delayed=header.delayed, at_least=header.at_least or 0
            )
        except Refused as error:
            return error.reply()
        ext: dict[str, ExtValue] = {"count": state.count, "chain": chain_text(state.chain)}
        return RemotingCommand.response(ext=ext | {"beyond": state.beyond, "logStart": state.log_start_ms})

    async def send_batch(
        self, connection: Connection, request: RemotingCommand, header: SendMessageRequestHeader
    ) -> RemotingCommand:
        """Messages of a stream in one body: those that are not stored yet are appended, all or none."""
        store_loop = self._store_loop
        try:
            stamp = Stamp.parse((request.ext or {})[STAMP])
            entry = self.ledger.find(header.topic, stamp)
            async with entry.lock:
                stored = entry.stored_of(stamp)
                if stored < stamp.count:
                    if header.topic.startswith(RETRY_PREFIX):
                        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"{header.topic} takes no batches")
                    body = _after(request.body_bytes, stored)
                    await self._admission.check(header)
                    entry.stored_of(stamp)  # a new writer does not wait for the lock to fence this one
                    if store_loop.durability.refuses():
                        return self._replies.refused(not_enough_replicas())
                    result = store_loop.driver.append_batch_body(
                        header.topic,
                        max(0, header.queue_id),
                        body,
                        born_timestamp=header.born_timestamp,
                        born_host=connection.peer_host,
                        sys_flag=header.sys_flag,
                    )
                    if result.physical_offset < 0:
                        return self._replies.refused(result)
                    self._appended(header.topic, result)
                    self._statistics.traffic.plain(header.topic, "normal", result.size, result.count)
                    entry.appended(result.count, result.physical_offset + result.size)
        except Refused as error:
            return error.reply()
        return await self._acknowledge(entry.end_offset, header)

    async def send(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """One message of a stream: what cannot travel in a batch, because it is delayed."""
        header = decode_send_header(request.code, request.ext)
        store_loop = self._store_loop
        try:
            stamp = Stamp.parse((request.ext or {})[STAMP])
            if stamp.count != 1:
                raise RequestError(ResponseCode.INVALID_PARAMETER, f"one message is not {stamp.count}")
            entry = self.ledger.find(header.topic, stamp)
            async with entry.lock:
                if not entry.stored_of(stamp):
                    config = await self._admission.check(header)
                    kind, form = self._admission.routed(self._admission.form(connection, request, header, config))
                    if kind not in (MessageKind.PLAIN, MessageKind.DELAYED):
                        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"a stream takes no {kind.value} messages")
                    entry.stored_of(stamp)
                    if store_loop.durability.refuses():
                        return self._replies.refused(not_enough_replicas())
                    result = store_loop.driver.append_form(form)
                    if result.physical_offset < 0:
                        return self._replies.refused(result)
                    self._appended(header.topic, result)
                    stored_in = SCHEDULE_TOPIC if kind is MessageKind.DELAYED else form.topic
                    self._statistics.traffic.note_sent(header.topic, stored_in, form.properties, result.size)
                    entry.appended(1, result.physical_offset + result.size)
        except Refused as error:
            return error.reply()
        return await self._acknowledge(entry.end_offset, header)

    def _appended(self, topic: str, result: PutResult) -> None:
        self._statistics.note_put(topic, result.count, result.size)
        self._store_loop.dispatching.note_awaited(topic, result.physical_offset + result.size)
        self._store_loop.durability.appended()

    async def _acknowledge(self, end_offset: int, header: SendMessageRequestHeader) -> RemotingCommand:
        """The reply once everything up to ``end_offset`` is as durable as the store promises.

        Without message ids: hundreds of them would be a reply larger than many a request, and the writer knows them.
        """
        code = ResponseCode.SUCCESS
        if self._store_loop.durability.acknowledges_later:
            code = code_of(await self._store_loop.durability.until_durable(end_offset))
        ext: dict[str, ExtValue] = {"queueId": max(0, header.queue_id), "msgId": "", "queueOffset": -1}
        return RemotingCommand.response(code, None, ext=ext)


def _after(body: bytes, count: int) -> bytes:
    """A batch body without its first messages."""
    try:
        at = item_start(body, count)
    except CorruptionError as error:
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    if count and at == len(body):
        raise RequestError(ResponseCode.INVALID_PARAMETER, f"a batch of fewer messages than its {STAMP} says")
    return body[at:]

"""Sends: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE.

Nearly every send is a plain message to a topic that exists: ``ingest.plain`` answers those. Everything else (new
topics, delays, transactions, retries, errors) takes the long way here, which decides in RocketMQ's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flaremq.broker.delay.message_rules import MessageKind, recall_handle
from flaremq.broker.ingest.admission import SendAdmission
from flaremq.broker.ingest.plain import LETTER_FIELDS, NAMED_FIELDS, NOT_PLAIN, PlainSends
from flaremq.broker.ingest.replies import SendReplies
from flaremq.broker.options import BrokerOptions
from flaremq.broker.requests.batch_sends import BatchSends
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.broker.streams.ledger import STAMP
from flaremq.broker.streams.sends import StreamSends
from flaremq.broker.transactions.service import TransactionService
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.send import decode_send_header
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable


class SendHandler:
    """Takes messages from producers."""

    def __init__(
        self,
        options: BrokerOptions,
        store_loop: StoreLoop,
        statistics: BrokerStatistics,
        admission: SendAdmission,
        replies: SendReplies,
        transactions: TransactionService,
    ) -> None:
        self._options = options
        self._store_loop = store_loop
        self._statistics = statistics
        self._admission = admission
        self._replies = replies
        self._transactions = transactions
        self._plain = PlainSends(store_loop, statistics, admission, replies)
        self._batches = BatchSends(store_loop, statistics, admission, replies)
        self._streams = StreamSends(store_loop, statistics, admission, replies)

    def options_changed(self, _: Mapping[str, str]) -> None:
        """Options may change while the broker runs: what was derived from them is derived again."""
        self._plain.options_changed()

    def register(self, table: HandlerTable) -> None:
        self._plain.register(table)
        self._streams.register(table)
        table.register(RequestCode.SEND_MESSAGE_V2, self.send_v2, "send")
        table.register(RequestCode.SEND_MESSAGE, self.send, "send")
        table.register(RequestCode.SEND_BATCH_MESSAGE, self.send_batch, "send")

    def send_v2(self, connection: Connection, request: RemotingCommand) -> Any:
        """A send whose fields are letters."""
        ext: Any = request.ext
        if not ext:
            return self._send(connection, request)
        if ext.get("m") == "true":
            return self.send_batch(connection, request)
        outcome = self._plain.send(connection, request, ext, LETTER_FIELDS)
        return self._send(connection, request) if outcome is NOT_PLAIN else outcome

    def send(self, connection: Connection, request: RemotingCommand) -> Any:
        """A send whose fields have their long names."""
        ext: Any = request.ext
        if not ext:
            return self._send(connection, request)
        if STAMP in ext:
            return self._streams.send(connection, request)
        if ext.get("batch") == "true":
            return self.send_batch(connection, request)
        outcome = self._plain.send(connection, request, ext, NAMED_FIELDS)
        return self._send(connection, request) if outcome is NOT_PLAIN else outcome

    def send_batch(self, connection: Connection, request: RemotingCommand) -> Any:
        header = decode_send_header(request.code, request.ext)
        if request.ext is not None and STAMP in request.ext:
            return self._streams.send_batch(connection, request, header)
        return self._batches.send(connection, request, header)

    async def _send(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        admission = self._admission
        try:
            header = decode_send_header(request.code, request.ext)
            config = await admission.check(header)
            form = admission.form(connection, request, header, config)
            form = await admission.redirect(form, header, request)
            kind, routed = admission.routed(form)
            if kind is MessageKind.HALF:
                if self._options.reject_transaction_message:
                    raise RequestError(
                        ResponseCode.NO_PERMISSION,
                        f"the broker[{self._options.broker_ip1}] sending transaction message is forbidden",
                    )
                self._transactions.check_room()
            result = await self._store_loop.put(routed)
        except RequestError as error:
            return RemotingCommand.response(error.code, error.remark, ext=self._replies.traits)
        if result.physical_offset < 0:
            return self._replies.refused(result)
        self._statistics.note_put(header.topic, 1, result.size)
        stored_in = SCHEDULE_TOPIC if kind is MessageKind.DELAYED else routed.topic
        self._statistics.traffic.note_sent(form.topic, stored_in, form.properties, result.size)
        if kind is MessageKind.HALF:
            self._transactions.figures.began(form.topic)
        response = self._replies.stored(result.status, form.queue_id, result, form.properties)
        if kind is MessageKind.TIMED and (handle := recall_handle(routed, self._options.broker_name)) is not None:
            response.ext = {**(response.ext or {}), "recallHandle": handle}
        return response

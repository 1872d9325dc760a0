"""Ingest: plain sends and batches of one read, from the socket to the log and back, by three calls of compiled code.

It takes what it is sure of and leaves the rest of the read to the frame decoder; ``ingest/plain.py`` does the same for
one send, ``requests/batch_sends.py`` for one batch, and they give the same bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from itertools import accumulate
from time import monotonic
from typing import Any

from flaremq.broker.ingest import columns, kernels
from flaremq.broker.ingest.replies import UNACKNOWLEDGED_MAX, SendReplies
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.traffic import SIZE_BOUNDS
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.protocol.codes import VERSION, RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import REPLY_HEADER_SIZE_MAX, FrameDecoder
from flaremq.protocol.signing import MARK
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, error_response
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.log.append import TopicEntry
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.status import PutMessageStatus

_CODE, _BATCH_CODE = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
_JSON_BEGINS = frozenset(b'{"code":%d' % code for code in (_CODE, _BATCH_CODE))
_COMPACT_BEGINS = frozenset(code.to_bytes(2, "big") for code in (_CODE, _BATCH_CODE))
_ROWS = 512
_SCRATCH = 1 << 20
_PROOF_MARK = MARK.encode()


class Ingest:
    """The compiled way of sends. Event loop only."""

    def __init__(
        self,
        store_loop: StoreLoop,
        statistics: BrokerStatistics,
        plain_queues: dict[str, int],
        replies: SendReplies,
        handlers: HandlerTable,
    ) -> None:
        self._handlers = handlers
        self._store_loop = store_loop
        self._replies = replies
        self._driver: StoreDriver = store_loop.driver
        self._statistics = statistics
        self._plain_queues = plain_queues
        self._body_max = store_loop.store.options.max_message_size
        self._table = array("q", bytes(8 * _ROWS * columns.COLUMN_COUNT))
        self._scratch = bytearray(_SCRATCH)
        self._signed = bytearray()  # what the sends of a run sign, with access control
        self._ends = array("q", bytes(8 * _ROWS))
        self._places = array("q")  # where the messages of batches are; as long as it must be once there was a batch
        self._stamp = replies.stamp.encode()
        self._host = replies.host_text.encode()
        self._topics: dict[bytes, str] = {}
        self._received_at = 0.0  # of the read that is taken apart
        json_pieces = *replies.json_pieces, '","transactionId":"'
        self._json, self._json_ends = _joined(*(piece.encode() for piece in json_pieces))
        compact_begin = b"\0\0\3" + VERSION.to_bytes(2, "big")
        self._compact, self._compact_ends = _joined(compact_begin, *replies.compact_pieces, b"\0\x0dtransactionId")
        pieces = len(self._json) + len(self._compact)
        self._out = bytearray(kernels.acks_bytes_max(_ROWS, columns.RUN_MESSAGES_MAX, pieces, len(self._host)))

    def take(self, connection: Connection, data: bytes) -> int:
        """Handle the plain sends at the start of a read; the number of bytes they were."""
        # Sends of Java, Python or Node begin like this; the check costs less than a call that finds nothing.
        if data[8:19] not in _JSON_BEGINS and data[8:10] not in _COMPACT_BEGINS:
            return 0
        if int.from_bytes(data[:4], "big") + 4 > len(data):
            return 0  # part of a frame
        taken = 0
        self._received_at = monotonic()
        while len(data) - taken >= 8:
            count, next_at, total = kernels.parse_sends(
                data, taken, self._body_max, self._stamp, self._scratch, self._table
            )
            if not count or not self._store(connection, data, count, total):
                break
            taken = next_at
        return taken

    def _store(self, connection: Connection, data: bytes, count: int, total: int) -> bool:
        table = self._table
        topic_at = table[columns.TOPIC_AT]
        name = data[topic_at : topic_at + table[columns.TOPIC_LENGTH]]
        topic = self._topics.get(name)
        if topic is None:
            topic = name.decode()
            if len(self._topics) < 65_536:
                self._topics[name] = topic
        queues = self._plain_queues.get(topic)
        durability = self._store_loop.durability
        if (
            queues is None
            or durability.unacknowledged >= UNACKNOWLEDGED_MAX
            or (durability.has_group and durability.refuses())
            or len(connection.peer_host) != 8
        ):
            return False
        if self._handlers.guard is not None and not self._is_admitted(connection, data, topic, count):
            return False  # plain code says why
        used = count * columns.COLUMN_COUNT
        queue_ids = table[columns.QUEUE_ID : used : columns.COLUMN_COUNT].tolist()
        if max(queue_ids) >= queues:
            return False
        messages = sum(table[columns.MESSAGES : used : columns.COLUMN_COUNT])
        if messages and not self._places:
            self._places = array("q", bytes(8 * columns.RUN_MESSAGES_MAX))

        def append(log: CommitLog, entry: TopicEntry, store_host: bytes) -> None:
            host = connection.peer_host
            if messages:
                kernels.append_batches(log, entry, host, store_host, data, table, count, self._places)
            else:
                kernels.append_sends(log, entry, host, store_host, data, self._scratch, table, count)

        end = self._driver.append_rows(topic, messages or count, total, append)
        if end is None:
            return False
        try:
            self._acknowledge(connection, topic, count, messages, end)
        except Exception as error:  # the messages are stored: plain code must not see them again
            for request, _ in self._requests(table[:used]):
                connection.reply(request, error_response(error, request))
        return True

    def _is_admitted(self, connection: Connection, data: bytes, topic: str, count: int) -> bool:
        """Whether all sends of the run are signed by who may send to the topic."""
        verify, table = self._handlers.verify_sends, self._table
        if table[columns.MESSAGES]:
            return False  # rules may be for the code of batches
        key_at, key_length = table[columns.KEY_AT], table[columns.KEY_LENGTH]
        if verify is None or key_length <= 0:
            return False
        if len(self._signed) < len(data) + len(self._scratch):
            self._signed = bytearray(len(data) + len(self._scratch))
        size = kernels.write_signed(data, self._scratch, table, count, self._signed, self._ends)
        if size < 0 or self._signed.find(_PROOF_MARK, 0, size) >= 0:
            return False  # a proof of our own clients is for plain code, whatever field it is in
        signatures, contents, start = [], [], 0
        step = columns.COLUMN_COUNT
        places = table[columns.SIGNATURE_AT : count * step : step].tolist()
        lengths = table[columns.SIGNATURE_LENGTH : count * step : step].tolist()
        key = data[key_at : key_at + key_length].decode("ascii")
        with memoryview(self._signed) as view:
            for place, length, end in zip(places, lengths, self._ends, strict=False):
                signatures.append(data[place : place + length] if length > 0 else b"")
                contents.append(view[start:end])
                start = end
            try:
                return verify(connection, key, topic, signatures, contents)
            finally:
                for content in contents:
                    content.release()

    def _acknowledge(self, connection: Connection, topic: str, count: int, messages: int, end: int) -> None:
        """Answer appended sends, now or when they are durable and slaves have them."""
        table, store_loop = self._table, self._store_loop
        store_loop.dispatching.note_awaited(topic, end)
        self._note(topic, count, messages or count, end)
        received_at = self._received_at
        code = _BATCH_CODE if messages else _CODE
        size = kernels.encode_acks(
            table,
            count,
            self._scratch,
            self._json,
            self._json_ends,
            self._compact,
            self._compact_ends,
            self._host,
            self._places,
            self._out,
        )
        assert size >= 0, "replies are bounded"
        acks = bytes(memoryview(self._out)[:size])
        if store_loop.durability.acknowledges_later:
            durability = store_loop.durability
            connection.begin_many(count)
            rows = table[: count * columns.COLUMN_COUNT]

            def confirm(status: PutMessageStatus) -> None:
                connection.finish_many(count)
                if status is not PutMessageStatus.PUT_OK:
                    self._answer_each(connection, rows, acks, status)
                    return
                connection.answered_sends(code, count, received_at, oneway=not acks)
                if acks and connection.is_open:
                    (connection.write_alone if durability.answers_alone else connection.write)([acks])

            durability.when_durable(end, confirm, count)
        else:
            store_loop.durability.appended()
            connection.answered_sends(code, count, received_at, oneway=not acks)
            if acks:
                connection.write([acks])

    def _note(self, topic: str, count: int, messages: int, end: int) -> None:
        """Count appended sends; none of them has a sharding key or a delay."""
        table, statistics = self._table, self._statistics
        size = end - table[columns.RECORD_OFFSET]
        statistics.note_put(topic, messages, size)
        flow = statistics.traffic.compiled(topic, count, messages, size)
        flow.sizes.sum += kernels.count_sizes(table, count, end, SIZE_BOUNDS, flow.sizes.counts)

    def _answer_each(self, connection: Connection, rows: array[int], acks: bytes, status: PutMessageStatus) -> None:
        """Messages that are in the log but not known to be durable: each send gets the reply the plain way gives.

        Where they are stands in the acknowledgements, which nobody will see; one-way sends have none.
        """
        found = iter(FrameDecoder(header_limit=REPLY_HEADER_SIZE_MAX).receive(acks))
        for request, row in self._requests(rows):
            ext: Mapping[str, Any] = {} if request.is_oneway else next(found).ext or {}
            places = row[columns.QUEUE_ID], row[columns.QUEUE_OFFSET], ext.get("msgId", "")
            connection.reply(request, self._replies.stored_at(status, *places, ext.get("transactionId")))

    def _requests(self, rows: array[int]) -> Iterator[tuple[RemotingCommand, array[int]]]:
        """What is needed of parsed sends to answer them one by one, and their rows."""
        for at in range(0, len(rows), columns.COLUMN_COUNT):
            row = rows[at : at + columns.COLUMN_COUNT]
            request = RemotingCommand(
                _BATCH_CODE if row[columns.MESSAGES] else _CODE,
                opaque=row[columns.OPAQUE],
                flag=row[columns.FLAG],
                serialize_type=row[columns.KIND],
            )
            yield request, row


def _joined(*pieces: bytes) -> tuple[bytes, array[int]]:
    return b"".join(pieces), array("q", accumulate(map(len, pieces)))

"""Ingest: plain sends of one read, from the socket to the log and back, by three calls of compiled code.

It takes what it is sure of and leaves the rest of the read to the frame decoder; ``ingest/plain.py`` does the same for
one send and gives the same bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from time import monotonic

from flaremq.broker.ingest import columns, kernels
from flaremq.broker.ingest.replies import UNACKNOWLEDGED_MAX, SendReplies
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.traffic import SIZE_BOUNDS
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.protocol.codes import VERSION, RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.signing import MARK
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, error_response
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.log.append import TopicEntry
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.status import PutMessageStatus

Confirm = Callable[[Connection, RemotingCommand, int, int, int, PutMessageStatus], None]

_ROWS = 512
_SCRATCH = 1 << 20
_PROOF_MARK = MARK.encode()
_ACK_BYTES = 1024  # more than any reply takes


class Ingest:
    """The compiled way of sends. Event loop only."""

    def __init__(
        self,
        store_loop: StoreLoop,
        statistics: BrokerStatistics,
        plain_queues: dict[str, int],
        replies: SendReplies,
        confirm: Confirm,
        handlers: HandlerTable,
    ) -> None:
        self._handlers = handlers
        self._store_loop = store_loop
        self._confirm = confirm
        self._driver: StoreDriver = store_loop.driver
        self._statistics = statistics
        self._plain_queues = plain_queues
        self._body_max = store_loop.store.options.max_message_size
        self._table = array("q", bytes(8 * _ROWS * columns.COLUMN_COUNT))
        self._scratch = bytearray(_SCRATCH)
        self._out = bytearray(_ROWS * _ACK_BYTES)
        self._signed = bytearray()  # what the sends of a run sign, with access control
        self._ends = array("q", bytes(8 * _ROWS))
        self._stamp = replies.stamp.encode()
        self._host = replies.host_text.encode()
        self._topics: dict[bytes, str] = {}
        self._received_at = 0.0  # of the read that is taken apart
        self._json, self._json_ends = _joined(*(piece.encode() for piece in replies.json_pieces))
        self._compact, self._compact_ends = _joined(b"\0\0\3" + VERSION.to_bytes(2, "big"), *replies.compact_pieces)

    def take(self, connection: Connection, data: bytes) -> int:
        """Handle the plain sends at the start of a read; the number of bytes they were."""
        # Sends of Java, Python or Node begin like this; the check costs less than a call that finds nothing.
        if data[8:19] != b'{"code":310' and data[8:10] != b"\x01\x36":
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

        def append(log: CommitLog, entry: TopicEntry, store_host: bytes) -> None:
            kernels.append_sends(log, entry, connection.peer_host, store_host, data, self._scratch, table, count)

        end = self._driver.append_rows(topic, count, total, append)
        if end is None:
            return False
        try:
            self._acknowledge(connection, topic, count, end)
        except Exception as error:  # the messages are stored: plain code must not see them again
            for request, _ in self._requests(table[:used]):
                connection.reply(request, error_response(error, request))
        return True

    def _is_admitted(self, connection: Connection, data: bytes, topic: str, count: int) -> bool:
        """Whether all sends of the run are signed by who may send to the topic."""
        verify, table = self._handlers.verify_sends, self._table
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

    def _acknowledge(self, connection: Connection, topic: str, count: int, end: int) -> None:
        """Answer appended sends, now or when they are durable and slaves have them."""
        table, store_loop = self._table, self._store_loop
        store_loop.dispatching.note_awaited(topic, end)
        self._note(topic, count, end)
        received_at = self._received_at
        size = kernels.encode_acks(
            table, count, self._json, self._json_ends, self._compact, self._compact_ends, self._host, self._out
        )
        assert size >= 0, "replies are bounded"
        acks = bytes(memoryview(self._out)[:size])
        if store_loop.durability.acknowledges_later:
            connection.begin_many(count)
            rows = table[: count * columns.COLUMN_COUNT]

            def confirm(status: PutMessageStatus) -> None:
                if status is not PutMessageStatus.PUT_OK:
                    self._confirm_each(connection, rows, status)
                    return
                connection.finish_many(count)
                connection.answered_sends(count, received_at, oneway=not acks)
                if acks and connection.is_open:
                    connection.write([acks])

            store_loop.durability.when_durable(end, confirm, count)
        else:
            store_loop.durability.appended()
            connection.answered_sends(count, received_at, oneway=not acks)
            if acks:
                connection.write([acks])

    def _note(self, topic: str, count: int, end: int) -> None:
        """Count appended sends; none of them has a sharding key or a delay."""
        table, statistics = self._table, self._statistics
        size = end - table[columns.RECORD_OFFSET]
        statistics.note_put(topic, count, size)
        flow = statistics.traffic.compiled(topic, count, size)
        kernels.count_sizes(table, count, end, SIZE_BOUNDS, flow.sizes.counts)

    def _confirm_each(self, connection: Connection, rows: array[int], status: PutMessageStatus) -> None:
        """Messages that are in the log but not known to be durable: each gets the reply the plain way gives."""
        for request, row in self._requests(rows):
            queue_id, queue_offset = row[columns.QUEUE_ID], row[columns.QUEUE_OFFSET]
            self._confirm(connection, request, queue_id, queue_offset, row[columns.RECORD_OFFSET], status)

    def _requests(self, rows: array[int]) -> Iterator[tuple[RemotingCommand, array[int]]]:
        """What is needed of parsed sends to answer them one by one, and their rows."""
        for at in range(0, len(rows), columns.COLUMN_COUNT):
            row = rows[at : at + columns.COLUMN_COUNT]
            request = RemotingCommand(
                RequestCode.SEND_MESSAGE_V2,
                opaque=row[columns.OPAQUE],
                flag=row[columns.FLAG],
                serialize_type=row[columns.KIND],
            )
            yield request, row


def _joined(*pieces: bytes) -> tuple[bytes, array[int]]:
    return b"".join(pieces), array("q", accumulate(map(len, pieces)))

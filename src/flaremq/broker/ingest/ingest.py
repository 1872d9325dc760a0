"""Ingest: plain sends of one read, from the socket to the log and back, by three kernel calls.

Loaded once there is enough traffic to pay for the kernels. It takes what it is sure of and leaves the rest of the read
to the frame decoder; ``ingest/plain.py`` does the same for one send and gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flaremq.broker.ingest import kernels
from flaremq.broker.ingest.replies import UNACKNOWLEDGED_MAX, SendReplies
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.protocol.codes import VERSION, RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.status import PutMessageStatus

Array = np.ndarray[Any, Any]
Confirm = Callable[[Connection, RemotingCommand, int, int, int, PutMessageStatus], None]

_ROWS = 512
_SCRATCH = 1 << 20
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
    ) -> None:
        self._store_loop = store_loop
        self._confirm = confirm
        self._driver: StoreDriver = store_loop.driver
        self._statistics = statistics
        self._plain_queues = plain_queues
        self._body_max = store_loop.store.options.max_message_size
        self._table = np.empty((_ROWS, kernels.COLUMNS), np.int64)
        self._scratch = np.empty(_SCRATCH, np.uint8)
        self._out = np.empty(_ROWS * _ACK_BYTES, np.uint8)
        self._stamp = as_array(replies.stamp.encode())
        self._host = as_array(replies.host_text.encode())
        self._topics: dict[bytes, str] = {}
        self._json, self._json_ends = _joined(*(piece.encode() for piece in replies.json_pieces))
        self._compact, self._compact_ends = _joined(b"\0\0\3" + VERSION.to_bytes(2, "big"), *replies.compact_pieces)

    def take(self, connection: Connection, data: bytes) -> int:
        """Handle the plain sends at the start of a read; the number of bytes they were."""
        # A send by Java, Python or Node begins like this; looking costs less than asking the kernel in vain.
        if data[8:19] != b'{"code":310' and data[8:10] != b"\x01\x36":
            return 0
        if int.from_bytes(data[:4], "big") + 4 >= len(data):
            return 0  # one frame, or part of one: the plain way is as fast
        taken = 0
        read = as_array(data)
        while len(data) - taken >= 8:
            count, next_at, total = kernels.parse_sends(
                read, taken, self._body_max, self._stamp, self._scratch, self._table
            )
            if not count or not self._store(connection, data, read, count, total):
                break
            taken = next_at
        return taken

    def _store(self, connection: Connection, data: bytes, read: Array, count: int, total: int) -> bool:
        table = self._table
        first = table[0]
        topic_at = int(first[kernels.TOPIC_AT])
        name = data[topic_at : topic_at + int(first[kernels.TOPIC_LENGTH])]
        topic = self._topics.get(name)
        if topic is None:
            topic = name.decode()
            if len(self._topics) < 65_536:
                self._topics[name] = topic
        queues = self._plain_queues.get(topic)
        store_loop = self._store_loop
        if (
            queues is None
            or store_loop.durability.unacknowledged >= UNACKNOWLEDGED_MAX
            or len(connection.peer_host) != 8
        ):
            return False
        queue_ids = table[:count, kernels.QUEUE_ID].tolist()
        if max(queue_ids) >= queues:
            return False
        end = self._driver.append_rows(topic, queue_ids, total, connection.peer_host, self._writer(read, count))
        if end is None:
            return False
        store_loop.dispatching.note_awaited(topic, end)
        self._statistics.note_put(topic, count, end - int(first[kernels.RECORD_OFFSET]))
        size = kernels.encode_acks(
            table, count, self._json, self._json_ends, self._compact, self._compact_ends, self._host, self._out
        )
        assert size >= 0, "replies are bounded"
        acks = self._out[:size].tobytes()
        if store_loop.waits_for_sync:
            connection.begin_many(count)
            rows = table[:count].copy()

            def confirm(status: PutMessageStatus) -> None:
                if status is not PutMessageStatus.PUT_OK:
                    self._confirm_each(connection, rows.tolist(), status)
                    return
                connection.finish_many(count)
                if acks and connection.is_open:
                    connection.write([acks])

            store_loop.durability.when_durable(end, confirm)
        else:
            store_loop.durability.appended()
            if acks:
                connection.write([acks])
        return True

    def _confirm_each(self, connection: Connection, rows: list[list[int]], status: PutMessageStatus) -> None:
        """Messages that are in the log but not known to be durable: each gets the reply the plain way gives."""
        for row in rows:
            request = RemotingCommand(
                RequestCode.SEND_MESSAGE_V2,
                opaque=row[kernels.OPAQUE],
                flag=row[kernels.FLAG],
                serialize_type=row[kernels.KIND],
            )
            self._confirm(
                connection,
                request,
                row[kernels.QUEUE_ID],
                row[kernels.QUEUE_OFFSET],
                row[kernels.RECORD_OFFSET],
                status,
            )

    def _writer(self, read: Array, count: int) -> Callable[[memoryview, int, int, bytes, bytes, list[int]], int]:
        def write(buffer: memoryview, at: int, base: int, prefix: bytes, topic: bytes, queue_offsets: list[int]) -> int:
            self._table[:count, kernels.QUEUE_OFFSET] = queue_offsets
            return kernels.append_sends(
                as_array(buffer),
                at,
                base,
                as_array(prefix),
                as_array(topic),
                read,
                self._scratch,
                self._table,
                count,
            )

        return write


def _joined(*pieces: bytes) -> tuple[Array, Array]:
    return as_array(b"".join(pieces)), np.cumsum([len(piece) for piece in pieces]).astype(np.int64)

"""PlainSends: the short way of sends that carry a plain message to a topic that is known to be writable.

Answered on the event loop without an awaitable, a task or a header object: a few dictionary look-ups, one append, and a
reply made from pieces, now or when the sync thread reports. ``ingest`` is the compiled form of the same, for all sends
of a read; whatever needs a decision is left to ``requests/sends.py``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from flaremq.broker.ingest import kernels
from flaremq.broker.ingest.admission import SendAdmission
from flaremq.broker.ingest.ingest import Ingest
from flaremq.broker.ingest.replies import UNACKNOWLEDGED_MAX, SendReplies, busy
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.put_status import not_enough_replicas
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.protocol.command import ONEWAY_FLAG, RemotingCommand
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.storage.status import PutMessageStatus

NOT_PLAIN: Final = object()
# Ext fields of a send: topic, queue id, system flag, born timestamp, flag, properties, reconsume times.
LETTER_FIELDS: Final = ("b", "e", "f", "g", "h", "i", "j")
NAMED_FIELDS: Final = ("topic", "queueId", "sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes")
_STEERING: Final = frozenset(("DELAY", "TRAN_MSG", "CLUSTER", "MSG_REGION", "TRACE_ON", "POP_CK"))
DELAY_PROPERTY: Final = "DELAY\x01"
_SHARDING_KEY: Final = "__SHARDINGKEY\x01"


class PlainSends:
    """Stores and answers plain sends. Event loop only."""

    def __init__(
        self, store_loop: StoreLoop, statistics: BrokerStatistics, admission: SendAdmission, replies: SendReplies
    ) -> None:
        self._store_loop = store_loop
        self._append = store_loop.driver.append
        self._durability = store_loop.durability
        self._dispatching = store_loop.dispatching
        self._statistics = statistics
        self._plain_queues = admission.plain_queues
        self._replies = replies
        self._table: HandlerTable | None = None

    def register(self, table: HandlerTable) -> None:
        self._table = table
        table.place = self.place
        self._use_ingest()

    def options_changed(self) -> None:
        self._plain_queues.clear()
        self._replies.derive()
        self._use_ingest()

    def _use_ingest(self) -> None:
        """Let compiled code handle the plain sends of a read before the decoder sees them."""
        if self._table is not None and kernels.IS_COMPILED:
            ingest = Ingest(self._store_loop, self._statistics, self._plain_queues, self._replies, self._table)
            self._table.fast_path = ingest.take

    def send(self, connection: Connection, request: RemotingCommand, ext: Any, fields: tuple[str, ...]) -> Any:
        """Store a plain message; ``NOT_PLAIN`` if it is none. In one piece: every call counts here."""
        topic_at, queue_at, sys_flag_at, born_at, flag_at, properties_at, reconsume_at = fields
        try:
            topic, properties, reconsume_times = ext[topic_at], ext.get(properties_at) or "", ext.get(reconsume_at)
            queue_id, sys_flag = int(ext[queue_at]), int(ext[sys_flag_at])
            born_timestamp, flag = int(ext[born_at]), int(ext[flag_at])
        except (KeyError, ValueError):  # the long way says what is wrong
            return NOT_PLAIN
        # Not within the try: an error after the append must not store the message a second time.
        queues = self._plain_queues.get(topic)
        if (
            queues is None
            or not 0 <= queue_id < queues
            or sys_flag & ~0x701  # anything but compression
            or flag >> 31  # negative, or no int32
            or born_timestamp >> 63
            or (reconsume_times is not None and reconsume_times != "0")
            or not f"{ext[queue_at]}{ext[sys_flag_at]}{ext[born_at]}{ext[flag_at]}".isdecimal()
            or ("\x02UNIQ_KEY\x01" not in properties and not properties.startswith("UNIQ_KEY\x01"))
            or (_may_steer(properties) and _steers(properties))
            or len(connection.peer_host) != 8
        ):
            return NOT_PLAIN
        durability = self._durability
        if durability.unacknowledged >= UNACKNOWLEDGED_MAX:
            return busy(durability.unacknowledged)
        if durability.has_group and durability.refuses():
            return self._replies.refused(not_enough_replicas())
        if properties[-1] != "\x02":
            properties += "\x02"
        body: Any = request.body
        raw = (properties + self._replies.stamp).encode("utf-8", "replace")
        appended = self._append(topic, queue_id, body, raw, flag, sys_flag, born_timestamp, connection.peer_host, 0)
        if type(appended) is not tuple:
            return self._replies.refused(appended)  # type: ignore[arg-type]  # not a tuple: a refusal
        queue_offset, physical_offset, end = appended
        self._dispatching.note_awaited(topic, end)
        statistics, size = self._statistics, end - physical_offset
        statistics.note_put(topic, 1, size)
        statistics.traffic.plain(topic, "fifo" if _SHARDING_KEY in properties else "normal", size)
        if durability.acknowledges_later:
            connection.begin(request)
            stored = partial(self._confirm, connection, request, queue_id, queue_offset, physical_offset)
            durability.when_durable(end, stored)
            return None
        durability.appended()
        connection.answered(request)
        if connection.takes_places:
            connection.stored(queue_offset, physical_offset)
        elif not request.flag & ONEWAY_FLAG:
            message_id = f"{self._replies.host_text}{physical_offset:016X}"
            connection.write([self._replies.acknowledgement(request, queue_id, queue_offset, message_id)])
        return None

    def place(self, topic: str, queue_id: int, body: bytes, properties: bytes, born_timestamp: int, host: bytes) -> int:
        """Store a message whose properties were looked at (they end with a separator); see ``HandlerTable.place``."""
        queues, durability = self._plain_queues.get(topic), self._durability
        if (
            queues is None
            or not 0 <= queue_id < queues
            or durability.acknowledges_later
            or durability.unacknowledged >= UNACKNOWLEDGED_MAX
            or (durability.has_group and durability.refuses())
        ):
            return -1
        raw = properties + self._replies.raw_stamp
        appended = self._append(topic, queue_id, body, raw, 0, 0, born_timestamp, host, 0)
        if type(appended) is not tuple:
            return -1
        queue_offset, physical_offset, end = appended
        self._dispatching.note_awaited(topic, end)
        size = end - physical_offset
        self._statistics.note_put(topic, 1, size)
        self._statistics.traffic.plain(topic, "normal", size)
        durability.appended()
        return queue_offset

    def _confirm(
        self,
        connection: Connection,
        request: RemotingCommand,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        status: PutMessageStatus,
    ) -> None:
        """The outcome of the sync that an append waited for."""
        connection.finish(request)
        if status is PutMessageStatus.PUT_OK:
            connection.answered(request)
        if request.flag & ONEWAY_FLAG or not connection.is_open:
            return
        message_id = f"{self._replies.host_text}{physical_offset:016X}"
        if status is PutMessageStatus.PUT_OK and connection.takes_places:
            connection.stored(queue_offset, physical_offset)
        elif status is PutMessageStatus.PUT_OK:
            connection.write([self._replies.acknowledgement(request, queue_id, queue_offset, message_id)])
        else:
            connection.reply(request, self._replies.stored_at(status, queue_id, queue_offset, message_id))


def _may_steer(properties: str) -> bool:
    """Whether the name of a property occurs that decides where a message goes, or that the broker itself writes."""
    return (
        "DELAY\x01" in properties
        or "TIMER_D" in properties
        or "TRAN_MSG\x01" in properties
        or "CLUSTER\x01" in properties
        or "MSG_REGION\x01" in properties
        or "TRACE_ON\x01" in properties
        or "POP_CK\x01" in properties
        or "WAIT\x01false" in properties
        or "INNER_" in properties
        or "CRC32" in properties
    )


def _steers(properties: str) -> bool:
    """Whether there is such a property; a value that only quotes its name, or a longer name, does not count.

    What is left to the long way is stored a turn of the loop later, behind sends that came after it. So this rule may
    not be stricter than that of the compiled sends (``kernels``).
    """
    for pair in properties.split("\x02"):
        name, _, value = pair.partition("\x01")
        if name in _STEERING or name.startswith(("TIMER_D", "INNER_")) or "CRC32" in name or "\x01" in value:
            return True
        if name == "WAIT" and value.startswith("false"):
            return True
    return False

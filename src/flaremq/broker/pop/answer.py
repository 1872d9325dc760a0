"""What a pop asks for and what it is answered with."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

from flaremq.broker.long_polling.pull_request import PullFilter
from flaremq.broker.pop.receipts import Receipt, message_offset_info, retry_flag, start_offset_info
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import edit_properties, strip_unstored
from flaremq.message.record.codec import HEADER, encode_record
from flaremq.message.topics import encode_topic
from flaremq.protocol.headers.pop import PopMessageResponseHeader

Record = bytes | memoryview
POP_CK: Final = "POP_CK"
MIN_OFFSET_FIRST: Final = 0  # initMode: where a new group begins; anything else means at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class PopAsk:
    """One POP_MESSAGE; queue -1 is any."""

    group: str
    topic: str
    queue_id: int
    max_count: int
    invisible_time: int
    init_mode: int
    wanted: PullFilter
    order: bool = False
    attempt_id: str | None = None


@dataclass(slots=True, eq=False)
class PopAnswer:
    """Messages of several queues, and what their receipts are made of."""

    pop_time: int
    invisible_time: int
    revive_queue_id: int
    records: list[Record] = field(default_factory=list)
    count: int = 0
    size: int = 0
    rest_count: int = 0  # what is left in the queues looked at
    start_info: list[str] = field(default_factory=list)
    message_info: list[str] = field(default_factory=list)
    order_info: list[str] = field(default_factory=list)
    is_full: bool = False  # something was there, but the broker waits for too many acknowledgements already
    has_more: bool = False  # if nothing was found so far, it is worth looking again at once

    def add(self, topic: str, queue_id: int, start_offset: int, offsets: list[int], records: list[Record]) -> None:
        """Messages of one queue."""
        self.records += records
        self.count += len(offsets)
        self.size += sum(map(len, records))
        self.start_info.append(start_offset_info(topic, queue_id, start_offset))
        self.message_info.append(message_offset_info(topic, queue_id, offsets))

    def header(self, *, order: bool) -> PopMessageResponseHeader:
        return PopMessageResponseHeader(
            pop_time=self.pop_time,
            invisible_time=self.invisible_time,
            revive_qid=self.revive_queue_id,
            rest_num=max(0, self.rest_count),
            start_offset_info=";".join(self.start_info),
            msg_offset_info=";".join(self.message_info),
            order_count_info=";".join(self.order_info) if order else None,
        )


def split_records(views: list[Record], without: Container[int] = ()) -> tuple[list[int], list[Record]]:
    """Queue offsets and records of views that may hold several each, but for some offsets."""
    offsets: list[int] = []
    records: list[Record] = []
    for offset, record in _walk(views):
        if offset not in without:
            offsets.append(offset)
            records.append(record)
    return offsets, records


def _walk(views: list[Record]) -> Iterator[tuple[int, Record]]:
    for view in views:
        at = 0
        while at < len(view):
            fields = HEADER.unpack_from(view, at)
            yield fields[5], view[at : at + fields[0]]
            at += fields[0]


def under_normal_topic(
    record: Record,
    *,
    topic: str,
    start_offset: int,
    pop_time: int,
    invisible_time: int,
    revive_queue_id: int,
    broker_name: str,
) -> bytes:
    """A record of a retry topic as the consumer expects it: under the topic it asked for, with its receipt.

    By the topic alone the client could not tell it from the messages of the topic's own queue.
    """
    message = MessageExt(record)
    receipt = Receipt(
        start_offset,
        pop_time,
        invisible_time,
        revive_queue_id,
        retry_flag(message.topic),
        broker_name,
        message.queue_id,
        message.queue_offset,
    )
    return encode_record(
        topic=encode_topic(topic),
        body=message.stored_body,
        properties=edit_properties(strip_unstored(bytes(message.raw_properties)), {POP_CK: receipt.text}),
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host_bytes,
        store_timestamp=message.store_timestamp,
        store_host=message.store_host_bytes,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )

"""Questions to a half record: is it a copy, may it be asked about yet, was it committed before a crash."""

from __future__ import annotations

from typing import Final

from flaremq.digits import whole_number
from flaremq.errors import CorruptionError
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.stored_form import real_place
from flaremq.message.sys_flag import TransactionType
from flaremq.message.topics import TIMER_TOPIC
from flaremq.storage.message_store import MessageStore

_COMMITS_LOOKED_AT: Final = 32


def is_copy(record: MessageExt) -> bool:
    """Whether this record replaces an earlier one of the same message."""
    properties = record.properties
    return (
        properties.get(names.TRANSACTION_CHECK_TIMES, "0") != "0"
        or names.TRANSACTION_PREPARED_QUEUE_OFFSET in properties
    )


def immunity_ms(record: MessageExt, usual_ms: int) -> int | None:
    """How long the sender wants not to be asked; None if he did not say."""
    text = record.properties.get(names.CHECK_IMMUNITY_SECONDS)
    if text is None:
        return None
    seconds = whole_number(text, digits_max=9)
    return usual_ms if seconds is None else seconds * 1000


def first_queue_offset(record: MessageExt) -> int:
    """Where the message stood in the half topic before it was appended again for its immunity time."""
    offset = whole_number(record.properties.get(names.TRANSACTION_PREPARED_QUEUE_OFFSET))
    return record.queue_offset if offset is None else offset


def has_place(record: MessageExt) -> bool:
    """Whether it says where its message belongs; every half message does, unless something is wrong with it."""
    try:
        real_place(record)
    except CorruptionError:
        return False
    return True


def was_committed(store: MessageStore, record: MessageExt) -> bool:
    """Whether the commit of exactly this half record is in the log. Touches the index."""
    key = record.uniq_key
    if key is None or not has_place(record):
        return False
    topics = [real_place(record)[0]]
    if any(name.startswith("TIMER_") for name in record.properties):
        topics.append(TIMER_TOPIC)
    return any(
        message.transaction_type is TransactionType.COMMIT
        and message.prepared_transaction_offset == record.physical_offset
        and message.born_host_bytes == record.born_host_bytes
        for topic in topics
        for message in store.query(topic, key, _COMMITS_LOOKED_AT)
    )

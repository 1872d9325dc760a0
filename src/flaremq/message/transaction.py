"""Transactional messages: the records of the half topic, its op topic, and what a commit writes.

A transactional message is first stored under ``RMQ_SYS_TRANS_HALF_TOPIC``, where no consumer sees it. A
commit appends the message again under its real topic; commit and rollback both note the half message's queue
offset in ``RMQ_SYS_TRANS_OP_HALF_TOPIC``. A half message without such a note is checked: it is appended again
with a higher count while its producer is asked. As in ``stored_form``, all functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flaremq.digits import whole_number
from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import encode_properties, find_property
from flaremq.message.stored_form import StoredForm, delay_level_of, real_place
from flaremq.message.sys_flag import TransactionType, with_transaction_type
from flaremq.message.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC

_OP_PROPERTIES = encode_properties({names.TAGS: "d", names.WAIT: "true"})


def half(form: StoredForm) -> StoredForm:
    """A transactional message as it waits for its outcome.

    The transaction bits are cleared, so it gets a queue unit like any message. A delay is dropped, as
    RocketMQ's producer does: the half message must not wait in the schedule topic.
    """
    changes: dict[str, str | None] = {
        names.TRANSACTION_PREPARED: "true",
        names.REAL_TOPIC: form.topic,
        names.REAL_QUEUE_ID: str(form.queue_id),
        names.DELAY: None,
        # The broker's own marks of a copy: a sender who sets them would end the transaction of whoever has his key.
        names.TRANSACTION_CHECK_TIMES: None,
        names.TRANSACTION_PREPARED_QUEUE_OFFSET: None,
    }
    unique_key = find_property(form.properties, names.UNIQUE_KEY.encode())
    if unique_key is not None:
        changes[names.TRANSACTION_ID] = str(unique_key, "utf-8", "replace")
    return replace(
        form.with_properties(changes),
        topic=HALF_TOPIC,
        queue_id=0,
        sys_flag=with_transaction_type(form.sys_flag, TransactionType.NONE),
        delay_level=0,
    )


def check_end_request(record: MessageExt, *, producer_group: str, queue_offset: int, physical_offset: int) -> None:
    """Refuse to end a transaction that is not the one the half message belongs to."""
    found = (record.properties.get(names.PRODUCER_GROUP), record.queue_offset, record.physical_offset)
    asked = (producer_group, queue_offset, physical_offset)
    if record.topic != HALF_TOPIC or found != asked:
        raise InvalidArgumentError(
            f"end of transaction asks for (group, queue offset, physical offset) {asked}, "
            f"the record at {record.physical_offset} of topic {record.topic!r} has {found}"
        )


def commit(record: MessageExt) -> StoredForm:
    """A committed half message, for its real topic and queue.

    REAL_TOPIC and REAL_QID are left out as by RocketMQ 5.5; older versions keep them, to no effect.
    """
    topic, queue_id = real_place(record)
    form = StoredForm.of_record(record).with_properties({names.REAL_TOPIC: None, names.REAL_QUEUE_ID: None})
    return replace(
        form,
        topic=topic,
        queue_id=queue_id,
        sys_flag=with_transaction_type(record.sys_flag, TransactionType.COMMIT),
        prepared_transaction_offset=record.physical_offset,
        delay_level=delay_level_of(form.properties),
    )


def operation(half_queue_offsets: Iterable[int], *, queue_id: int, born_timestamp: int, born_host: bytes) -> StoredForm:
    """The note that the half messages at these queue offsets are done with."""
    return StoredForm(
        topic=OP_HALF_TOPIC,
        queue_id=queue_id,
        body=b"".join(b"%d," % offset for offset in half_queue_offsets),
        properties=_OP_PROPERTIES,
        born_timestamp=born_timestamp,
        born_host=born_host,
    )


def parse_operation(body: bytes) -> list[int]:
    """Queue offsets of an op record: one number (4.9) or numbers each followed by a comma (5.x)."""
    words = body.split(b",")
    if not words[-1]:
        words.pop()
    offsets = [offset for word in words if (offset := whole_number(word)) is not None]
    if len(offsets) < len(words):
        raise CorruptionError("op record is no list of offsets", found=body[:64])
    return offsets


def half_again(record: MessageExt, *, prepared_queue_offset: int | None = None) -> StoredForm:
    """A half message appended again because it is still open.

    Counted as one more check; with ``prepared_queue_offset`` (still within its immunity time) it keeps its
    count and remembers the queue offset it had first.
    """
    form = StoredForm.of_record(record)
    if prepared_queue_offset is None:
        return form.with_properties({names.TRANSACTION_CHECK_TIMES: str(check_times(record) + 1)})
    return form.with_properties({names.TRANSACTION_PREPARED_QUEUE_OFFSET: str(prepared_queue_offset)})


def check_times(record: MessageExt) -> int:
    """How often the producer of a half message was asked already."""
    return whole_number(record.properties.get(names.TRANSACTION_CHECK_TIMES)) or 0


def given_up(record: MessageExt, *, queue_id: int = 0) -> StoredForm:
    """A half message whose outcome nobody will ever tell."""
    return replace(StoredForm.of_record(record), topic=CHECK_MAX_TIME_TOPIC, queue_id=queue_id)

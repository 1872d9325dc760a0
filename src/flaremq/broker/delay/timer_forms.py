"""What is put for a record of the timer topic: its message, or the record again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import SIZE_MAX as PROPERTIES_SIZE_MAX
from flaremq.message.properties import TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, TIMER_ROLL_TIMES
from flaremq.message.stored_form import StoredForm, real_place
from flaremq.message.topics import NO_CLIENT_SEND, TIMER_TOPIC

_ROOM_FOR_PROPERTIES: Final = 96  # what a delivery adds


def bare(record: MessageExt) -> StoredForm:
    """The message of a record for its real topic and queue, without the notes of its delivery."""
    topic, queue_id = real_place(record)
    if topic in NO_CLIENT_SEND or topic == TIMER_TOPIC:
        raise InvalidArgumentError(f"a timed message cannot be delivered to {topic}")
    return replace(
        StoredForm.of_record(record),
        topic=topic,
        queue_id=queue_id,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )


def due(record: MessageExt, now_ms: int, precision_ms: int) -> StoredForm:
    """A timed message whose time has come, for its real topic and queue."""
    enqueue_ms = record.store_timestamp // precision_ms * precision_ms
    notes: dict[str, str | None] = {
        TIMER_ENQUEUE_MS: str(enqueue_ms),
        TIMER_DEQUEUE_MS: str(now_ms),
    }
    return _with_note(bare(record), notes)


def rolled(record: MessageExt) -> StoredForm:
    """A timed message that has to wait on, to be appended to the timer topic again."""
    count = whole_number(record.properties.get(TIMER_ROLL_TIMES), digits_max=9) or 0
    form = replace(StoredForm.of_record(record), prepared_transaction_offset=record.prepared_transaction_offset)
    return _with_note(form, {TIMER_ROLL_TIMES: str(count + 1)})


def put_forms(record: MessageExt) -> Iterator[StoredForm]:
    """All that may have been put for a record, but for the notes of its delivery."""
    yield bare(record)
    yield rolled(record)


def _with_note(form: StoredForm, note: dict[str, str | None]) -> StoredForm:
    """The form with more properties, unless there is no room for them: they are worth less than the message."""
    if len(form.properties) + _ROOM_FOR_PROPERTIES > PROPERTIES_SIZE_MAX:
        return form
    return form.with_properties(note)

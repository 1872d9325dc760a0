"""What is written for a message that does not go straight to its queue: delayed, retried, given up.

Each function takes a message (to be stored, or read back from the log) and returns the ``StoredForm`` of the
record to append. They are pure: no clock, no store, no choice of offsets.

Two facts are kept apart that look like one. ``delay_level`` says what the store must do with the form; the
DELAY *property* is only text. A delayed message that has come due is stored with its property string
unchanged, DELAY and all, and must not be delayed again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flaremq.digits import whole_number
from flaremq.errors import CorruptionError
from flaremq.message import properties as names
from flaremq.message.delay import DelayLevels, queue_id_of_level
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import edit_properties, find_property, strip_unstored
from flaremq.message.topics import HALF_TOPIC, SCHEDULE_TOPIC, dlq_topic, retry_topic

RETRY_LEVEL_BASE = 3  # the first retry waits for level 3, 10 s by default


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredForm:
    """A record but for what the append decides: its offsets, store time and store host.

    ``delay_level`` greater than 0 means that ``delayed`` has still to be applied. ``wait_store_msg_ok`` false
    means that nobody waits for the flush of this record.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    delay_level: int = 0
    wait_store_msg_ok: bool = True

    @classmethod
    def of_message(
        cls,
        message: Message,
        *,
        queue_id: int,
        born_timestamp: int,
        born_host: bytes,
        sys_flag: int = 0,
        reconsume_times: int = 0,
    ) -> StoredForm:
        return cls(
            topic=message.topic,
            queue_id=queue_id,
            body=message.body,
            properties=message.encoded_properties(),
            flag=message.flag,
            sys_flag=sys_flag,
            born_timestamp=born_timestamp,
            born_host=born_host,
            reconsume_times=reconsume_times,
            delay_level=message.delay_level,
            wait_store_msg_ok=message.wait_store_msg_ok,
        )

    @classmethod
    def of_record(cls, record: MessageExt) -> StoredForm:
        """The same message again: what it says, without the place it had."""
        return cls(
            topic=record.topic,
            queue_id=record.queue_id,
            body=bytes(record.stored_body),
            properties=strip_unstored(bytes(record.raw_properties)),
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp=record.born_timestamp,
            born_host=record.born_host_bytes,
            reconsume_times=record.reconsume_times,
            wait_store_msg_ok=False,
        )

    def with_properties(self, changes: dict[str, str | None]) -> StoredForm:
        return replace(self, properties=edit_properties(self.properties, changes))


def delayed(form: StoredForm, levels: DelayLevels) -> StoredForm:
    """A message with ``delay_level`` > 0 as it waits in the schedule topic."""
    level = levels.clamp(form.delay_level)
    waiting = form.with_properties(
        {
            names.DELAY: str(level),
            names.REAL_TOPIC: form.topic,
            names.REAL_QUEUE_ID: str(form.queue_id),
        }
    )
    return replace(waiting, topic=SCHEDULE_TOPIC, queue_id=queue_id_of_level(level), delay_level=0)


def delivered(record: MessageExt) -> StoredForm | None:
    """A delayed message that has come due, for its real topic and queue.

    ``None`` for one that would become a half message: nobody would ever ask its producer.
    """
    topic, queue_id = real_place(record)
    if topic == HALF_TOPIC:
        return None
    return replace(StoredForm.of_record(record), topic=topic, queue_id=queue_id)


def real_place(record: MessageExt) -> tuple[str, int]:
    """Topic and queue a delayed or half message is meant for."""
    topic = record.properties.get(names.REAL_TOPIC)
    queue_text = record.properties.get(names.REAL_QUEUE_ID, "")
    queue_id = whole_number(queue_text)
    if topic is None or queue_id is None:
        raise CorruptionError(
            "record does not say where its message belongs",
            offset=record.physical_offset,
            expected="REAL_TOPIC and REAL_QID",
            found=(topic, queue_text),
        )
    return topic, queue_id


def sent_back(
    record: MessageExt, *, group: str, delay_level: int, reconsume_times_max: int, queue_id: int = 0
) -> StoredForm:
    """A message that a consumer of ``group`` could not handle: to be tried again, or a dead letter.

    ``delay_level`` as the consumer asked: 0 lets the wait grow with each retry, below 0 gives up at once.
    """
    form = StoredForm.of_record(record)
    changes: dict[str, str | None] = {names.WAIT: "false"}
    if names.RETRY_TOPIC not in record.properties:
        changes[names.RETRY_TOPIC] = record.topic
    if names.ORIGIN_MESSAGE_ID not in record.properties:
        changes[names.ORIGIN_MESSAGE_ID] = record.message_id
    if record.reconsume_times >= reconsume_times_max or delay_level < 0:
        topic, queue_id, level = dlq_topic(group), 0, 0
    else:
        topic = retry_topic(group)
        level = delay_level or RETRY_LEVEL_BASE + record.reconsume_times
    changes[names.DELAY] = str(level)
    return replace(
        form.with_properties(changes),
        topic=topic,
        queue_id=queue_id,
        delay_level=level,
        reconsume_times=record.reconsume_times + 1,
    )


def delay_level_of(properties: bytes) -> int:
    """The DELAY property as a number; 0 if there is none or it is no number."""
    return whole_number(find_property(properties, b"DELAY")) or 0

"""What the derived files must say about one record, straight from the format's rules.

Written apart from dispatch on purpose: the checker of queues and index must not share the code that fills
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.message import properties as names
from flaremq.message.delay import DelayLevels
from flaremq.message.java_hash import index_hash, tags_code
from flaremq.message.message_ext import MessageExt
from flaremq.message.sys_flag import gets_index_entry, gets_queue_unit
from flaremq.message.topics import SCHEDULE_TOPIC

MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
MULTI_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"
_LIGHT_PREFIX = "%LMQ%"


@dataclass(frozen=True, slots=True)
class ExpectedUnit:
    """The unit one record must have in one queue; ``message_count`` queue offsets belong to it."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    message_count: int = 1
    is_light: bool = False  # one of the light queues a record may be dispatched to besides its own


def expected_units(message: MessageExt, delay_levels: DelayLevels) -> list[ExpectedUnit]:
    """Its own queue first, then the light queues it is also dispatched to; none for half and rollback
    types."""
    if not gets_queue_unit(message.sys_flag):
        return []
    properties = message.properties
    code = expected_tags_code(message, delay_levels)
    count = 1
    if message.is_inner_batch:
        count = number_or(properties.get(names.INNER_NUM), 1)
    units = [ExpectedUnit(message.topic, message.queue_id, message.queue_offset, code, count)]
    if MULTI_DISPATCH in properties and MULTI_OFFSETS in properties:
        queues = properties[MULTI_DISPATCH].split(",")
        offsets = [number_or(offset, -1) for offset in properties[MULTI_OFFSETS].split(",")]
        # A broker that dispatches to light queues writes an offset for each; else an application took the name.
        if len(queues) == len(offsets) and min(offsets) >= 0:
            for queue, offset in zip(queues, offsets, strict=True):
                queue_id = light_queue_id(queue, message.queue_id)
                units.append(ExpectedUnit(queue, queue_id, offset, code, is_light=True))
    return units


def light_queue_id(queue: str, queue_id: int) -> int:
    """The queue id a light queue uses for a message of queue ``queue_id``."""
    return 0 if queue.startswith(_LIGHT_PREFIX) else queue_id


def expected_tags_code(message: MessageExt, delay_levels: DelayLevels) -> int:
    """The hash of the tag, or the due time of a message that waits in the schedule topic."""
    properties = message.properties
    if message.topic == SCHEDULE_TOPIC and names.DELAY in properties:
        level = number_or(properties[names.DELAY], 0)
        if 0 < level < 2**31:  # beyond that Java reads no number
            return delay_levels.due_ms(level, message.store_timestamp)
    tags = properties.get(names.TAGS)
    return tags_code(tags) if tags else 0


def expected_index_hashes(message: MessageExt) -> list[int]:
    """Hashes the index must hold for this record, in the order they are put."""
    if not gets_index_entry(message.sys_flag):
        return []
    topic = message.topic
    unique = message.uniq_key
    hashes = [index_hash(topic, unique)] if unique else []
    hashes += [index_hash(topic, key) for key in message.keys]
    return hashes


def tag_index_hash(message: MessageExt) -> int | None:
    """RocketMQ 5.5 also indexes the tag, as key ``T#tag``; other versions do not, so it may be there or
    not."""
    tags = message.tags
    if not tags or not gets_index_entry(message.sys_flag):
        return None
    return index_hash(message.topic, "T#" + tags)


def number_or(text: str | None, otherwise: int) -> int:
    """The whole number a property holds, or ``otherwise`` if it holds none."""
    if text is None:
        return otherwise
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 64 else otherwise

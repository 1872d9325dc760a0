"""What the derived files must say about one record, straight from the format's rules: the readable form of them.

The core (``flaremq.core.queue``, ``flaremq.core.index``) has the same rules for records in bulk, written apart: verify
holds what the one wrote against what the other says. Records that the core leaves out (inner batches, text that is not
UTF-8) are dispatched by what stands here.
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
    code = unit_tags_code(message.topic, properties, message.store_timestamp, delay_levels)
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


def unit_tags_code(topic: str, properties: dict[str, str], store_timestamp: int, delay_levels: DelayLevels) -> int:
    """A unit's third field: the hash of the tag, or the due time of a message that waits in the schedule topic."""
    if topic == SCHEDULE_TOPIC:
        level = java_int(properties.get(names.DELAY))
        if level > 0:
            due = delay_levels.due_ms(level, store_timestamp)
            return (due + 2**63) % 2**64 - 2**63  # as Java adds, should the store time be damaged
    tags = properties.get(names.TAGS)
    return tags_code(tags) if tags else 0


def inner_count(properties: dict[str, str]) -> int:
    """Messages in an inner-batch record, as its unit counts them."""
    return max(1, min(java_int(properties.get(names.INNER_NUM)), 32767))


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


def java_int(text: str | None) -> int:
    """``Integer.parseInt`` for ASCII; 0 where Java would throw."""
    number = number_or(text, 0)
    return number if -(2**31) <= number < 2**31 else 0

"""Putting a message that has come due where it belongs, or aside if it can never be stored there.

A message that waited in a topic of the broker's own (delay levels, timer) was acknowledged long ago: it may not be
lost, and it may not stand in the way of those behind it. So there are three outcomes. Stored; to be tried again,
because the store takes nothing at the moment; or refused for good, because of its target topic, its queue or its size
under options that have changed since. The last go to a dead-letter topic named after the topic they waited in, such as
``%DLQ%SCHEDULE_TOPIC_XXXX``, as they are; if not even that can be stored, a note without body goes there which names
the record, and that stays where it is until its file expires.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from flaremq.broker.store_loop.access import StoreAccess
from flaremq.errors import CorruptionError, FlareMQError, InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import encode_properties
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import dlq_topic
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus

_log = logging.getLogger(__name__)
_REFUSED_FOR_GOOD: Final = frozenset({PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED})

Build = Callable[[MessageExt], StoredForm | None]


class Delivery:
    """The way out of one waiting topic. Event loop only.

    ``declare_topic`` makes the dead-letter topic known to the broker before anything is put there.
    """

    def __init__(self, store_loop: StoreAccess, waiting_topic: str, declare_topic: Callable[[str], object]) -> None:
        self._store_loop = store_loop
        self._declare_topic = declare_topic
        self.dead_letter_topic = dlq_topic(waiting_topic)
        self.reach = 0  # the log must be durable up to here before a cursor that counts these puts is saved
        self.set_aside_count = 0
        self.on_stored: Callable[[MessageExt, StoredForm, PutResult], None] | None = None  # where it belongs

    async def put(self, record: MessageExt, build: Build) -> bool:
        """Store what ``build`` makes of a record (None: nothing); False if it must be tried again."""
        try:
            try:
                form = build(record)
                if form is None:
                    return True
                result = await self._put(form)
            except (InvalidArgumentError, CorruptionError) as error:
                return await self._set_aside(record, str(error))
            if result.status in _REFUSED_FOR_GOOD:
                return await self._set_aside(record, result.detail or result.status.name)
            if result.status.stored and self.on_stored is not None:
                self.on_stored(record, form, result)
            return result.status.stored
        except FlareMQError as error:
            _log.warning("%s is not delivered yet: %s", record.message_id, error)
            return False

    async def _put(self, form: StoredForm) -> PutResult:
        # Whatever the message asked when it was sent: its place in the waiting topic is given up for this record.
        result = await self._store_loop.put(replace(form, wait_store_msg_ok=True))
        if result.status.stored:
            self.reach = max(self.reach, result.physical_offset + result.size)
        return result

    async def _set_aside(self, record: MessageExt, reason: str) -> bool:
        message_id = record.message_id
        self._declare_topic(self.dead_letter_topic)
        origin = {names.DLQ_ORIGIN_MESSAGE_ID: message_id}
        copy = replace(StoredForm.of_record(record), topic=self.dead_letter_topic, queue_id=0)
        note = StoredForm(
            topic=self.dead_letter_topic,
            queue_id=0,
            body=b"",
            properties=encode_properties(origin),
            born_timestamp=record.born_timestamp,
            born_host=bytes(8),
        )
        try:
            result = await self._put(copy.with_properties({**origin}))
            if result.status in _REFUSED_FOR_GOOD:
                result = await self._put(note)
        except InvalidArgumentError:
            result = await self._put(note)
        if not result.status.stored:
            return False
        self.set_aside_count += 1
        _log.error("%s cannot be delivered and was put into %s: %s", message_id, self.dead_letter_topic, reason)
        return True

"""Giving messages again that were popped and not acknowledged in time.

Such a message is appended to the group's retry topic for its topic, with one more delivery counted, and from there
popped like any other; after as many as the group's ``retryMaxTimes`` it goes to the dead letters of the group. It is
settled in its check point only when the copy is stored: a crash in between means a delivery too many, not one too few.
What cannot be read or stored now is tried again later, at growing intervals.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from flaremq.broker.pop.answer import POP_CK
from flaremq.broker.pop.check_point import PopCheckPoint
from flaremq.broker.pop.receipts import normal_topic
from flaremq.broker.pop.taking import retry_topics
from flaremq.errors import FlareMQError, UnavailableError
from flaremq.message import properties as names
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import dlq_topic, is_retry_topic

if TYPE_CHECKING:
    from flaremq.broker.catalog.catalog import Catalog
    from flaremq.broker.options import BrokerOptions
    from flaremq.broker.pop.handed_out import HandedOut
    from flaremq.broker.statistics.counters import BrokerStatistics
    from flaremq.broker.store_loop.access import StoreAccess
    from flaremq.clock import Clock
    from flaremq.message.message_ext import MessageExt

_log = logging.getLogger(__name__)

_AT_A_TIME: Final = 64
_BACK_OFF_SECONDS: Final = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
_FIRST_POP_TIME: Final = "1ST_POP_TIME"
_ORIGIN_GROUP: Final = "ORIGIN_GROUP"


def retried_form(message: MessageExt, point: PopCheckPoint, *, topic: str) -> StoredForm:
    """The message as it is given again."""
    changes: dict[str, str | None] = {POP_CK: None, _ORIGIN_GROUP: point.group}
    if _FIRST_POP_TIME not in message.properties:
        changes[_FIRST_POP_TIME] = str(point.pop_time)
    return replace(
        StoredForm.of_record(message).with_properties(changes),
        topic=topic,
        queue_id=0,
        reconsume_times=message.reconsume_times + (0 if point.suspended else 1),
        wait_store_msg_ok=True,
    )


def dead_letter_form(message: MessageExt, point: PopCheckPoint) -> StoredForm:
    """The message as it is given up."""
    topic = normal_topic(point.topic, point.group)
    changes: dict[str, str | None] = {POP_CK: None}
    for name, value in (
        (names.RETRY_TOPIC, topic),
        (names.ORIGIN_MESSAGE_ID, message.message_id),
        (names.DLQ_ORIGIN_TOPIC, topic),
        (names.DLQ_ORIGIN_MESSAGE_ID, message.uniq_key or message.message_id),
    ):
        if name not in message.properties:
            changes[name] = value
    return replace(
        StoredForm.of_record(message).with_properties(changes),
        topic=dlq_topic(point.group),
        queue_id=0,
        reconsume_times=message.reconsume_times + 1,
        wait_store_msg_ok=True,
    )


class PopRevive:
    """Looks after check points whose time is over. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreAccess,
        catalog: Catalog,
        statistics: BrokerStatistics,
        handed_out: HandedOut,
    ) -> None:
        self._store_loop = store_loop
        self._clock = clock
        self._options = options
        self._topics = catalog.topics
        self._groups = catalog.groups
        self._offsets = catalog.offsets
        self._statistics = statistics
        self._table = handed_out.table
        self._revive_log = handed_out.revive_log

    async def run_due(self) -> None:
        """Give again everything whose time is over."""
        now = self._clock.now_ms()
        while batch := self._table.take_due(now, _AT_A_TIME):
            await asyncio.gather(*map(self._revive, batch))

    async def _revive(self, point: PopCheckPoint) -> None:
        if point.is_reviving:
            return
        point.is_reviving = True
        try:
            await self._give_again(point)
            await self._revive_log.log_acks(point, point.all_bits)
            point.failures = 0
        except Exception as error:  # whatever it is: the messages must not be forgotten
            if not isinstance(error, FlareMQError):
                _log.exception("%r cannot be given again", point)
            wait = _BACK_OFF_SECONDS[min(point.failures, len(_BACK_OFF_SECONDS) - 1)]
            point.failures += 1
            _log.warning("%r cannot be given again, next try in %d s: %s", point, wait, error)
            self._table.schedule(point, self._clock.now_ms() + wait * 1000)
        finally:
            point.is_reviving = False
            self._table.advance(point)

    async def _give_again(self, point: PopCheckPoint) -> None:
        config = self._topics.find(normal_topic(point.topic, point.group))
        group = self._groups.find(point.group) if point.group in self._groups else None
        if config is None or group is None:
            _log.info("%r is dropped: its topic or group was deleted", point)
            point.acked = point.all_bits
            return
        messages = await self._store_loop.run(self._read, point)
        topic = point.topic
        if not is_retry_topic(topic):
            topic = retry_topics(self._options, point.group, topic)[0]
        forms: list[tuple[int, StoredForm]] = []
        for bit, message in messages:
            if point.acked & bit:
                continue  # acknowledged meanwhile, if late
            if message is None:
                point.acked |= bit
            elif message.reconsume_times >= group.retry_max_times and not point.suspended:
                await self._make_topic(dlq_topic(point.group), None)
                forms.append((bit, dead_letter_form(message, point)))
                self._statistics.note_dead_letter(point.group, config.topic_name)
            else:
                await self._make_topic(topic, point.group)
                forms.append((bit, retried_form(message, point, topic=topic)))
        # In order, and all are tried before the first failure counts.
        puts = [self._put(point, bit, form) for bit, form in forms]
        for outcome in await asyncio.gather(*puts, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        if not point.is_done and not point.moving:
            raise UnavailableError("not all of its messages could be read")

    def _read(self, point: PopCheckPoint) -> list[tuple[int, MessageExt | None]]:
        """(bit, message) of what nobody has acknowledged, None where it is gone for good; on a worker thread."""
        store = self._store_loop.store
        found: list[tuple[int, MessageExt | None]] = []
        for bit, offset in list(point.unsettled()):
            result = store.get(point.topic, point.queue_id, offset, 1)
            message = next((message for message in result.messages if message.queue_offset == offset), None)
            if message is not None:
                found.append((bit, message))
            elif not result.min_offset <= offset < result.max_offset or point.failures >= len(_BACK_OFF_SECONDS):
                _log.warning("message %d of %s@%d is gone before its time", offset, point.topic, point.queue_id)
                found.append((bit, None))
        return found

    async def _make_topic(self, topic: str, group: str | None) -> None:
        if self._topics.find(topic) is None:
            self._topics.create_on_send_back(topic, 1)
            if group is not None and self._offsets.find(group, topic, 0) < 0:
                self._offsets.commit(group, topic, 0, 0)
        if not self._topics.is_saved:
            await self._topics.save_changes()

    async def _put(self, point: PopCheckPoint, bit: int, form: StoredForm) -> None:
        result = await self._store_loop.put(form)
        if form.topic != dlq_topic(point.group):
            key = (point.group, normal_topic(point.topic, point.group), result.status.name)
            self._revive_log.figures.given_again.made(key).value += 1
        if not result.status.stored:
            raise UnavailableError(f"{form.topic} takes no messages: {result.status.name} {result.detail or ''}")
        self._table.depend(point, result.physical_offset + result.size)
        point.acked |= bit

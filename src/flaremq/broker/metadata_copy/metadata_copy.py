"""MetadataCopy: keeps a slave's tables what its master's are.

A round asks for everything, at once when a master is known, then every few seconds. Topics and groups are replaced in
one step. Consumer offsets are merged: what clients committed here while the master was away stays if it is ahead, and
the master is told when it is back.

How far the master has delivered and its groups have consumed counts on what lies in its log: messages, and records of
what was delivered or handed out. A slave whose log does not have that yet must not believe it: become the master, it
would take for done what nobody has. So this part of a round is held until the log has passed the place where the
master's ended when it answered.

A master whose log is shorter than ours is not the one we copied (it lost its disk, or part of it): nothing is taken
from it. RocketMQ's slaves follow such a master and lose their tables to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from flaremq.broker.metadata_copy.deletions import DeletionNews, FollowedDeletions
from flaremq.broker.metadata_copy.master_tables import MasterTables
from flaremq.broker.parts import BrokerState
from flaremq.broker.store_loop.access import is_durable, run_to_end
from flaremq.errors import CorruptionError, FlareMQError, UnavailableError
from flaremq.remoting.client import RemotingClient

_log = logging.getLogger(__name__)
PERIOD_SECONDS: Final = 5.0
_MERGED_AT_A_TIME: Final = 2_000  # keys; the loop serves others in between
_TOLD_AT_A_TIME: Final = 64


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far a master has come, to be believed when the log has reached ``needed``."""

    master: MasterTables
    needed: int
    asked_at: int  # end of our log before the master was asked
    delay_offsets: Mapping[int, int] | None
    timer_check: bytes | None
    consumer_offsets: Mapping[str, Mapping[int, int]]
    news: DeletionNews


class MetadataCopy:
    """Copies from whoever is the master. Event loop only; the broker calls ``run_due`` every second."""

    def __init__(self, state: BrokerState, client: RemotingClient, own_address: str) -> None:
        self._state = state
        self._client = client
        self._own_address = own_address
        self._master: str | None = None
        self._due = 0.0  # by the broker's steady clock
        self._held: _Progress | None = None
        self.failure = ""  # of the last round
        self.copied_ms = 0  # when the last round ended well
        self._deletions = FollowedDeletions(state.store_loop)
        self._unknown: set[str] = set()  # topics that messages came for and the last copy did not have

    def set_master(self, address: str | None) -> None:
        """Copy from there, at once; None: there is no master now."""
        if address != self._master:
            self._master = address
            self._due = 0.0
            self._held = None  # nothing that another one said counts any longer

    def arrived(self, touched: Iterable[tuple[str, int]]) -> None:
        """Messages are here. Of a topic that is not known it is high time to know: the master made it just now."""
        if self._state.role.is_master:
            return
        unknown = {topic for topic, _ in touched if self._state.topics.find(topic) is None} - self._unknown
        if unknown:
            self._unknown |= unknown
            self._due = 0.0

    def take_unknown_topics(self, shown: Collection[str]) -> list[tuple[str, int]]:
        """Name and number of queues of topics that have messages here, but were made too late to be copied.

        For a slave that becomes the master: its log is the only place that knows of them. ``shown`` had messages before
        the end of the log was shown. One that had, and is not known, was deleted. What waits for copies to be shown
        counts: it is to be read once it is, and a topic that is short of queues would keep it from everybody.
        """
        unknown, self._unknown = self._unknown, set()
        counts: dict[str, int] = {}
        for topic, queue_id in self._state.store_loop.store.queues_in_log():
            if (topic in unknown or topic not in shown) and self._state.topics.find(topic) is None:
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        return sorted(counts.items())

    async def run_due(self) -> None:
        """Believe what may be believed by now, and begin a round if it is time."""
        state = self._state
        if state.role.is_master:
            self._held = None
            return
        await self._believe()
        now = state.clock.monotonic()
        if self._master is None or self._master == self._own_address or now < self._due:
            return
        self._due = now + PERIOD_SECONDS
        try:
            await self._round(MasterTables(self._client, self._master, state.store_loop.run_long))
        except FlareMQError as error:
            if self.failure != str(error):
                self.failure = str(error)
                level = logging.ERROR if isinstance(error, CorruptionError) else logging.WARNING
                _log.log(level, "topics, groups and offsets are not copied from %s: %s", self._master, error)
            return
        if self.failure or not self.copied_ms:
            _log.info("topics, groups and offsets are copied from %s", self._master)
        self.failure = ""
        self.copied_ms = state.clock.now_ms()

    async def _round(self, master: MasterTables) -> None:
        state = self._state
        asked_at = state.store_loop.store.max_physical_offset
        noted = self._deletions.noted
        low, high = await master.log_range()
        _check_history(asked_at, low, high)
        unknown, self._unknown = self._unknown, set()
        try:
            topics = await master.topics()
        except FlareMQError:
            self._unknown |= unknown
            raise
        missing = await self._deletions.missing(topics.topic_config_table)
        if self._is_current(master):
            state.topics.replace_all(topics.data_version, topics.topic_config_table)
            await state.topics.save_changes()  # also what an earlier round had no room for
        groups = await master.groups()
        if self._is_current(master):
            state.groups.replace_all(groups)
            await state.groups.save_changes()
        modes = await master.request_modes()
        if modes is not None and self._is_current(master):
            state.request_modes.replace_all(modes.message_request_mode_map)
        offsets = await master.consumer_offsets()
        delay_offsets, timer_check = await master.delay_offsets(), await master.timer_check_point()
        _, needed = await master.log_range()  # after the answers: what they count was in the log before
        if self._held is None and self._is_current(master):
            news = DeletionNews(noted, missing, high)
            self._held = _Progress(master, needed, asked_at, delay_offsets, timer_check, offsets, news)
            await self._believe()

    def _is_current(self, master: MasterTables) -> bool:
        """Whether this is still our master, and we still a slave: both may have changed while it answered."""
        return master.address == self._master and not self._state.role.is_master

    async def _merge(self, master: MasterTables, offsets: Mapping[str, Mapping[int, int]]) -> None:
        state = self._state
        ahead = []
        for part in _parts(offsets):
            if not self._is_current(master):
                return
            ahead += state.offsets.merge(part)
            await asyncio.sleep(0)
        ahead += state.offsets.take_unknown(offsets)
        await state.offsets.persist_if_changed()
        while ahead:
            now, ahead = ahead[:_TOLD_AT_A_TIME], ahead[_TOLD_AT_A_TIME:]
            told = await asyncio.gather(*(master.commit(*entry) for entry in now), return_exceptions=True)
            if any(isinstance(outcome, UnavailableError) for outcome in told):
                state.offsets.keep([*now, *ahead])  # the next round tells it
                return
            refused = [entry for entry, outcome in zip(now, told, strict=True) if outcome is not True]
            if refused:
                _log.warning("the master at %s does not take %d offsets committed here", master.address, len(refused))

    async def _believe(self) -> None:
        """Take over how far the master has come, once our log has all of that."""
        held, state = self._held, self._state
        if held is None or state.store_loop.store.max_physical_offset < held.needed:
            return
        if not await is_durable(state.store_loop, held.needed) or held is not self._held or state.role.is_master:
            return
        self._held = None
        if held.delay_offsets is not None:
            await run_to_end(state.store_loop, state.schedule.take_copy, held.delay_offsets, held.asked_at)
        if held.timer_check is not None:
            await run_to_end(state.store_loop, state.timer.take_copy, held.timer_check)
        for topic in self._deletions.take_new(held.news):
            state.offsets.remove_topic(topic)  # the groups of an earlier life; what the master has comes at once
        await self._merge(held.master, held.consumer_offsets)
        if self._is_current(held.master):
            await self._deletions.follow(held.master, held.news)


def _check_history(own_end: int, low: int, high: int) -> None:
    """CorruptionError if a master's log cannot be what ours is a copy of, or cannot be copied any further."""
    where = f"our log ends at {own_end}, the master's begins at {low} and ends at {high}"
    if own_end > high:
        raise CorruptionError(f"{where}: it has lost what we have, or is another broker")
    if 0 < own_end < low:
        raise CorruptionError(f"{where}: what comes next for us is deleted there; this slave must begin anew, empty")


def _parts(offsets: Mapping[str, Mapping[int, int]]) -> Iterator[dict[str, Mapping[int, int]]]:
    items = iter(offsets.items())
    while part := dict(islice(items, _MERGED_AT_A_TIME)):
        yield part

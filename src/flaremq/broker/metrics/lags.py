"""Lags: how far groups are behind, in messages and in time, for metrics.

A large broker has a million pairs of group and topic. So the walk goes in slices of the event loop, what is the same
for many pairs is looked up once, and beyond the limit of series pairs are counted only. Times come from the log, on a
worker thread; those of messages that are still the first ones are remembered from look to look.

RocketMQ's rules: a group counts while a consumer of it is connected, retry topics do not (but for groups that say they
pop, under the topic they belong to). No committed offset means no lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from flaremq.broker.metrics import catalogue as told
from flaremq.broker.pace import paced
from flaremq.message.tags import ALL_TAGS
from flaremq.message.topics import RETRY_PREFIX, pop_retry_topic, pop_retry_topic_v2

if TYPE_CHECKING:
    from flaremq.broker.parts import BrokerState
    from flaremq.metrics.samples import Samples, Value
    from flaremq.protocol.bodies.client import SubscriptionData
    from flaremq.storage.message_store import MessageStore

_SYSTEM_GROUP: Final = "cid_rmq_sys_"
_POP_TYPE: Final = "CONSUME_POP"
_AT_ONCE: Final = 4_096  # places read on the worker thread in one go
_TESTED_MAX: Final = 5_000  # index entries of a queue (sampleCountThreshold)
_SAMPLES: Final = 32

Place = tuple[str, int, int]  # topic, queue, queue offset
Codes = frozenset[int] | None  # hashes of the wanted tags; None: everything is wanted


class _Gap(NamedTuple):
    """Messages of a queue that a filter has to be asked about."""

    row: int
    column: list[Value]
    topic: str
    queue_id: int
    start: int
    end: int
    codes: frozenset[int]


class _Walk:
    """What one look has found."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.lag: list[Value] = []
        self.inflight: list[Value] = []
        self.ready: list[Value] = []
        # Of rows that have any: first messages that are not committed, and not given out.
        self.first: dict[int, list[Place]] = {}
        self.unread: dict[int, list[Place]] = {}
        self.gaps: list[_Gap] = []


class Lags:
    """The lags of one broker. Event loop only; one look at a time."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._store: MessageStore = state.store_loop.store
        self._times: dict[Place, int] = {}

    async def tell(self, samples: Samples) -> None:
        if not samples.wants(*told.LAG_FAMILIES):
            return
        self._state.store_loop.dispatching.catch_up()  # what was acknowledged a moment ago counts
        walk = await self._walk(samples)
        now_ms = self._state.clock.now_ms()
        await self._read_times(walk, samples)
        await self._ask_filters(walk)
        columns = (
            walk.lag,
            await self._ages(now_ms, walk.first, len(walk.labels), samples),
            walk.inflight,
            await self._ages(now_ms, walk.unread, len(walk.labels), samples),
            walk.ready,
        )
        for family, values in zip(told.LAG_FAMILIES, columns, strict=True):
            samples.add_column(family, walk.labels, values)

    async def _ages(self, now_ms: int, rows: Mapping[int, list[Place]], count: int, samples: Samples) -> list[Value]:
        """Of the oldest message of each row; 0 if there is none."""
        ages: list[Value] = [0] * count
        times = self._times
        for number, (row, places) in enumerate(rows.items()):
            found = [times[place] for place in places if place in times]
            if found:
                ages[row] = max(0, now_ms - min(found))
            if not number & 255:
                await samples.turns.take()
        return ages

    # The walk

    async def _walk(self, samples: Samples) -> _Walk:
        walk, ends = _Walk(), _Ends(self._state)
        number = 0
        for group, subscriptions, pops in self._groups():
            if len(walk.labels) >= samples.limit:
                left_out = len(subscriptions) - (f"{RETRY_PREFIX}{group}" in subscriptions)
                for family in told.LAG_FAMILIES:
                    samples.cut[family] += left_out
                await samples.turns.take()
                continue
            for topic in list(subscriptions):
                if topic.startswith(RETRY_PREFIX):
                    continue
                for is_retry, names in self._names(group, topic, pops):
                    if len(walk.labels) < samples.limit:
                        self._add(walk, ends, samples, group, topic, is_retry, names, subscriptions.get(topic))
                    else:
                        for family in told.LAG_FAMILIES:
                            samples.cut[family] += 1
                number += 1
                if not number & 63:
                    await samples.turns.take()
        return walk

    def _names(self, group: str, topic: str, pops: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
        """``is_retry`` and the topics it stands for: the topic itself, and its retries of groups that say they pop."""
        yield "false", (topic,)
        if pops:
            retries = (pop_retry_topic(group, topic), pop_retry_topic_v2(group, topic))
            found = tuple(name for name in retries if self._state.topics.find(name) is not None)
            if found:
                yield "true", found

    def _groups(self) -> Iterator[tuple[str, Mapping[str, Codes], bool]]:
        """Groups, what they want of which topics, and whether they say that they pop."""
        state, options = self._state, self._state.options.metrics
        for name in state.consumers.groups():
            found = state.consumers.find_group(name)
            if found is not None:
                is_filtered = options.estimate_accumulation
                yield name, _Wanted(found.subscriptions, is_filtered), found.consume_type == _POP_TYPE
        if options.metrics_offline_groups:
            yield from self._offline((name, state.offsets.topics_of(name)) for name in state.offsets.groups())
        if options.use_static_subscription:
            known = set(state.offsets.groups()) if options.metrics_offline_groups else set()
            names = [name for name in state.groups.all() if name not in known]
            yield from self._offline((name, self._static_topics(name)) for name in names)

    def _offline(self, groups: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, Mapping[str, Codes], bool]]:
        for name, topics in groups:
            if self._state.consumers.find_group(name) is None and not name.lower().startswith(_SYSTEM_GROUP):
                wanted: dict[str, Codes] = dict.fromkeys(topics)
                if wanted:
                    yield name, wanted, False

    def _static_topics(self, group: str) -> list[str]:
        config = self._state.groups.all().get(group)
        entries = (config.subscription_data_set if config is not None else None) or []
        named = [str(entry["topic"]) for entry in entries if isinstance(entry, dict) and "topic" in entry]
        return [topic for topic in named if self._state.topics.find(topic) is not None]

    # One pair
    def _add(
        self,
        walk: _Walk,
        ends: _Ends,
        samples: Samples,
        group: str,
        topic: str,
        is_retry: str,
        names: tuple[str, ...],
        codes: Codes,
    ) -> None:
        state, row = self._state, len(walk.labels)
        lag = inflight = ready = 0
        first: list[Place] = []
        unread: list[Place] = []
        for name in names:
            committed, pulled = state.offsets.standing(group, name)
            for queue_id, end in ends.of(name) if committed else ():
                done = committed.get(queue_id, -1)
                if done < 0 or done >= end:
                    continue
                given = pulled.get(queue_id, -1)
                if given < 0:
                    given = state.pop.taking.next_offset(group, name, queue_id)
                given = min(max(given, done), end)
                lag += end - done
                inflight += given - done
                ready += end - given
                first.append((name, queue_id, done))
                if given < end:
                    unread.append((name, queue_id, given))
                if codes:
                    walk.gaps.append(_Gap(row, walk.lag, name, queue_id, done, end, codes))
                    if given < end:
                        walk.gaps.append(_Gap(row, walk.ready, name, queue_id, given, end, codes))
        is_system = "true" if group.lower().startswith(_SYSTEM_GROUP) or state.topics.is_system(topic) else "false"
        labels = samples.labeller.text(told.CONSUMER_LAG.labels, (group, is_retry, is_system, topic))
        walk.labels.append(labels)
        walk.lag.append(lag)
        walk.inflight.append(inflight)
        walk.ready.append(ready)
        if first:
            walk.first[row] = first
        if unread:
            walk.unread[row] = unread

    # What the log and the queues say

    async def _read_times(self, walk: _Walk, samples: Samples) -> None:
        """Store times of all first messages; of those that were first ones before too they are known."""
        known, times = self._times, {}
        missing: dict[Place, None] = {}
        for rows in (walk.first, walk.unread):
            for number, places in enumerate(rows.values()):
                for place in places:
                    if place in known:
                        times[place] = known[place]
                    else:
                        missing[place] = None
                if not number & 255:
                    await samples.turns.take()
        unknown = list(missing)
        for start in range(0, len(unknown), _AT_ONCE):
            times.update(await self._state.store_loop.run_long(self._read, unknown[start : start + _AT_ONCE]))
        self._times = times

    def _read(self, places: list[Place]) -> dict[Place, int]:
        """On a worker thread."""
        store, found = self._store, {}
        for place in paced(places):
            topic, queue_id, offset = place
            at = max(offset, store.min_offset(topic, queue_id))
            time = store.inspector.store_time(topic, queue_id, at)
            if time is not None:
                found[place] = time
        return found

    async def _ask_filters(self, walk: _Walk) -> None:
        """Of filtered subscriptions only what the group wants counts."""
        for start in range(0, len(walk.gaps), 64):
            gaps = walk.gaps[start : start + 64]
            wanted = await self._state.store_loop.run_long(self._count_all, gaps)
            for gap, count in zip(gaps, wanted, strict=True):
                gap.column[gap.row] -= gap.end - gap.start - count  # type: ignore[operator]  # numbers here

    def _count_all(self, gaps: list[_Gap]) -> list[int]:
        """On a worker thread."""
        return [self._count(gap) for gap in paced(gaps)]

    def _count(self, gap: _Gap) -> int:
        """Messages with a wanted tag: counted up to 5,000, beyond that shared out by samples at 32 places."""
        length = gap.end - gap.start
        if length <= _TESTED_MAX:
            return sum(unit in gap.codes for unit in self._tags(gap, gap.start, length))
        step, share = length // _SAMPLES, _TESTED_MAX // _SAMPLES
        tested = matching = 0
        for number in range(_SAMPLES):
            tags = self._tags(gap, gap.start + number * step, share)
            tested += len(tags)
            matching += sum(tag in gap.codes for tag in tags)
        return round(length * matching / tested) if tested else length

    def _tags(self, gap: _Gap, start: int, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            units = self._store.inspector.units(gap.topic, gap.queue_id, start + len(found), count - len(found))
            if not units:
                break
            found += [unit.tags_code for unit in units]
        return found


class _Ends:
    """Where queues end; a topic is looked up once."""

    def __init__(self, state: BrokerState) -> None:
        self._topics = state.topics
        self._store = state.store_loop.store
        self._known: dict[str, list[tuple[int, int]]] = {}

    def of(self, topic: str) -> list[tuple[int, int]]:
        """(queue id, next offset) of each."""
        found = self._known.get(topic)
        if found is None:
            config, max_offset = self._topics.find(topic), self._store.max_offset
            count = 0 if config is None else config.read_queue_nums
            found = self._known[topic] = [(queue_id, max_offset(topic, queue_id)) for queue_id in range(count)]
        return found


class _Wanted(Mapping[str, "Codes"]):
    """Subscriptions as topics and tag hashes, made as they are asked for."""

    def __init__(self, subscriptions: Mapping[str, SubscriptionData], is_filtered: bool) -> None:
        self._subscriptions = subscriptions
        self._is_filtered = is_filtered

    def __getitem__(self, topic: str) -> Codes:
        found = self._subscriptions[topic]
        if not self._is_filtered or not found.is_tag_type or found.sub_string == ALL_TAGS:
            return None
        return found.code_set or None

    def __iter__(self) -> Iterator[str]:
        return iter(self._subscriptions)

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, topic: object) -> bool:
        return topic in self._subscriptions

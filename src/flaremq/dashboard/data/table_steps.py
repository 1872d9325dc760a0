"""Which topics and groups there are, and how far the groups are: questions for everything at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flaremq.clock import Clock
from flaremq.dashboard.data.group_state import QUEUE_STEP_MS, GroupState, Place, QueueKey
from flaremq.dashboard.data.names import topic_kind
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.reasons import reason_of
from flaremq.dashboard.data.ring import Ring
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.data.topic_state import SERIES_LENGTH, SERIES_STEP_MS, TopicState
from flaremq.errors import FlareMQError
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.stats import ConsumeStatsList
from flaremq.protocol.bodies.topic import TopicConfig

RINGED_MAX: Final = 2_000  # topics, and groups: 4 KB a ring
QUEUES_RINGED_MAX: Final = 5_000  # of all groups: half a KB a ring


class TableSteps:
    """Steps of the sampler."""

    def __init__(self, state: ClusterState, reader: ClusterReader, clock: Clock) -> None:
        self._state = state
        self._reader = reader
        self._clock = clock
        self._queues_slot = 0  # when queues were noted last

    async def read_tables(self) -> None:
        """Settings of all topics and groups."""
        state = self._state
        topics: dict[str, dict[str, TopicConfig]] = {}
        groups: dict[str, dict[str, SubscriptionGroupConfig]] = {}
        failure: FlareMQError | None = None
        has_answer = False
        for broker in state.masters:
            try:
                topic_table = await self._reader.topic_table(broker.address)
                group_table = await self._reader.group_table(broker.address)
            except FlareMQError as error:
                failure = error
                continue
            has_answer = True
            for name, config in topic_table.items():
                topics.setdefault(name, {})[broker.name] = config
            for name, settings in group_table.items():
                groups.setdefault(name, {})[broker.name] = settings
        if failure is not None:
            state.failures["tables"] = reason_of(failure)
            if not has_answer:
                return  # what was known stays, and gets older
        else:
            state.failures.pop("tables", None)
        state.tables_ms = self._clock.now_ms()
        self._take_topics(topics)
        self._take_groups(groups)
        state.revision += 1

    def _take_topics(self, found: dict[str, dict[str, TopicConfig]]) -> None:
        state, own = self._state, self._state.own_names
        for name in [name for name in state.topics if name not in found]:
            del state.topics[name]
        for name, configs in found.items():
            topic = state.topics.get(name)
            if topic is None:
                topic = state.topics[name] = TopicState(name, topic_kind(name, own))
            topic.configs = configs

    def _take_groups(self, found: dict[str, dict[str, SubscriptionGroupConfig]]) -> None:
        state = self._state
        for name in [name for name in state.groups if name not in found]:
            del state.groups[name]
        for name, configs in found.items():
            state.groups.setdefault(name, GroupState(name)).configs = configs

    async def read_progress(self) -> None:
        """How far all groups are."""
        state = self._state
        answers: list[ConsumeStatsList] = []
        silent: set[str] = set()
        for broker in state.masters:
            try:
                answers.append(await self._reader.progress_at(broker.address))
            except FlareMQError as error:
                state.failures["progress"] = reason_of(error)
                silent.add(broker.name)
        if not silent:
            state.failures.pop("progress", None)
        if answers:
            self._take_progress(answers, silent)

    def _take_progress(self, answers: list[ConsumeStatsList], silent: set[str]) -> None:
        """What was known of brokers that did not answer stays: half of the brokers would be half of the lag."""
        state, now_ms, seconds = self._state, self._clock.now_ms(), self._clock.monotonic()
        places: dict[str, dict[QueueKey, Place]] = {
            name: {key: place for key, place in group.places.items() if key.broker in silent} if silent else {}
            for name, group in state.groups.items()
        }
        highs: dict[str, dict[tuple[str, int], int]] = {}
        for answer in answers:
            for item in answer.consume_stats_list:
                for group, tables in item.items():
                    mine = places.setdefault(group, {})
                    for table in tables:
                        for queue, entry in table.offset_table.items():
                            key = QueueKey(queue.topic, queue.broker_name, queue.queue_id)
                            mine[key] = Place(
                                entry.broker_offset, entry.consumer_offset, entry.pull_offset, entry.last_timestamp
                            )
                            highs.setdefault(queue.topic, {})[key.broker, key.queue] = entry.broker_offset
        for name, found in places.items():
            group_state = state.groups.get(name)
            if group_state is not None:
                group_state.take_places(found, now_ms, seconds)
        for name, ends in highs.items():
            topic = state.topics.get(name)
            if topic is not None and topic.is_known:
                topic.raise_ends(ends.items(), seconds)
        state.groups_of_topic = _lags(places)
        state.progress_ms = now_ms

    async def note_history(self) -> None:
        """A point for each topic and group that moves or lags; those that rest get no rings."""
        state, now_ms = self._state, self._clock.now_ms()
        count = sum(bool(topic.rings) for topic in state.topics.values())
        for topic in state.topics.values():
            if not topic.rings and topic.in_per_second and count < RINGED_MAX:
                topic.rings, count = _rings("in", "lag"), count + 1
            if topic.rings:
                topic.rings["in"].note(now_ms, topic.in_per_second)
                lags = state.groups_of_topic.get(topic.name, {})
                topic.rings["lag"].note(now_ms, sum(lags.values()) if state.progress_ms else None)
        count = sum(bool(group.rings) for group in state.groups.values())
        for group in state.groups.values():
            if not group.rings and group.places and count < RINGED_MAX:
                group.rings, count = _rings("lag", "in", "out"), count + 1
            if group.rings:
                group.rings["lag"].note(now_ms, group.lag)
                group.rings["in"].note(now_ms, group.in_per_second)
                group.rings["out"].note(now_ms, group.out_per_second)
        self._note_queues(now_ms)

    def _note_queues(self, now_ms: int) -> None:
        slot = now_ms // QUEUE_STEP_MS
        if slot == self._queues_slot:
            return
        self._queues_slot = slot
        groups = self._state.groups.values()
        count = sum(len(group.queue_lags) for group in groups)
        for group in groups:
            before = len(group.queue_lags)
            group.note_queue_lags(now_ms, QUEUES_RINGED_MAX - count)
            count += len(group.queue_lags) - before


def _rings(*names: str) -> dict[str, Ring]:
    return {name: Ring(SERIES_STEP_MS, SERIES_LENGTH) for name in names}


def _lags(places: Mapping[str, Mapping[QueueKey, Place]]) -> dict[str, dict[str, int]]:
    """By topic and group."""
    found: dict[str, dict[str, int]] = {}
    for group in sorted(places):
        for key, place in places[group].items():
            of_topic = found.setdefault(key.topic, {})
            of_topic[group] = of_topic.get(group, 0) + place.lag
    return found

"""BrokerStatistics: what came in and went out, per topic and per group, over the last minute, hour and day.

Counting must cost next to nothing, because it stands in the path of every send and pull: a note is one or two dict
look-ups and a few additions, nothing else. Everything else happens in ``tick``: every ten seconds, ten minutes and
hour the running totals of all items are copied into rings (:mod:`flaremq.broker.statistics.windows`). An item keeps
about a kilobyte, however long the broker runs; it lasts as long as its topic and group, and goes when nothing was
counted for a day. However many topics and groups clients name, there are ``ITEMS_MAX`` items of a kind at most: the
next takes the place of those for which nothing was counted in the last minute, or else is not counted on its own.

Event loop thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, TypeVar

from flaremq.broker.statistics.slow_consumers import FallBehind
from flaremq.broker.statistics.traffic import MessageTraffic
from flaremq.broker.statistics.windows import (
    COLUMNS,
    COUNT,
    SERIES,
    SIZE,
    Series,
    StatsItem,
    StatsSnapshot,
    StatsWindows,
)
from flaremq.message.topics import is_system_topic
from flaremq.metrics.bounded_table import SERIES_MAX

ITEMS_MAX: Final = 65_536
_DAY: Final = len(SERIES) - 1

_K = TypeVar("_K")


class BrokerStatistics:
    """Counters of a broker. Keys are RocketMQ's without ``enableDetailStat``: ``topic``, ``topic@group``."""

    def __init__(
        self,
        cluster_name: str,
        now_ms: int,
        *,
        is_system: Callable[[str], bool] = is_system_topic,
        series_max: int = SERIES_MAX,
    ) -> None:
        self._series = tuple(Series(interval, length, now_ms) for interval, length in SERIES)
        self._is_system = is_system
        self._puts: dict[str, StatsItem] = {}
        self._gets: dict[tuple[str, str], StatsItem] = {}
        self._latencies: dict[tuple[str, str], StatsItem] = {}
        self.traffic = MessageTraffic(series_max)
        self._named: dict[str, dict[str, StatsItem]] = {name: {} for name in _COUNTED_BY_GROUP}
        self._cluster_name = cluster_name
        self._brokers = {name: self._new_item() for name in _COUNTED_BY_BROKER}
        self._broker_put = self._brokers["BROKER_PUT_NUMS"]
        self._broker_get = self._brokers["BROKER_GET_NUMS"]
        self._user_put = self._brokers["BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"]
        self._user_get = self._brokers["BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"]
        self._nobody = self._new_item()  # counts what has no item of its own
        self._swept: set[int] = set()  # tables that were searched for idle items since the last sample
        self._system_topics: set[str] = set()  # seen ones, so that a note need not ask again
        self.get_found_count = 0
        self.get_miss_count = 0
        self.get_transferred_count = 0
        self.get_latency_max_ms = 0
        self.fall_behind = FallBehind()
        self._today = _local_day(now_ms)
        self.put_total_yesterday_morning = 0
        self.put_total_today_morning = 0
        self.get_total_yesterday_morning = 0
        self.get_total_today_morning = 0

    # Counting

    def note_put(self, topic: str, count: int, size: int) -> None:
        """``count`` messages of ``size`` bytes were stored for a topic by one call."""
        item = self._puts.get(topic)
        if item is None:
            self._learn_topic(topic)
            item = self._added(self._puts, topic)
        item.count += count
        item.size += size
        item.times += 1
        self._broker_put.count += count
        if topic not in self._system_topics:
            self._user_put.count += count

    def note_get(self, group: str, topic: str, count: int, size: int) -> None:
        """A pull of a group was answered with ``count`` messages of ``size`` bytes; 0 is a miss."""
        if not count:
            self.get_miss_count += 1
            return
        self.get_found_count += 1
        self.get_transferred_count += count
        item = self._gets.get((topic, group))
        if item is None:
            self._learn_topic(topic)
            item = self._added(self._gets, (topic, group))
        item.count += count
        item.size += size
        item.times += 1
        self._broker_get.count += count
        if topic not in self._system_topics:
            self._user_get.count += count

    def note_get_latency(self, group: str, topic: str, elapsed_ms: int, count: int) -> None:
        """How long the store took for a pull of ``count`` messages; a miss makes no item, as in RocketMQ."""
        if elapsed_ms > self.get_latency_max_ms:
            self.get_latency_max_ms = elapsed_ms
        if not count:
            return
        item = self._latencies.get((topic, group))
        if item is None:
            item = self._added(self._latencies, (topic, group))
        item.count += elapsed_ms
        item.times += 1

    def note_send_back(self, group: str, topic: str) -> None:
        """A consumer sent a message back to be retried."""
        self._note_named("SNDBCK_PUT_NUMS", topic, group, 1)

    def note_dead_letter(self, group: str, topic: str) -> None:
        """A message went to the dead-letter topic of a group."""
        self._note_named("DLQ_PUT_NUMS", topic, group, 1)
        self.traffic.note_dead_letter(group, topic)

    def note_ack(self, group: str, topic: str, count: int) -> None:
        """POP: messages were acknowledged."""
        self._note_named("GROUP_ACK_NUMS", topic, group, count)
        self._brokers["BROKER_ACK_NUMS"].count += count

    def note_check_point(self, group: str, topic: str, count: int) -> None:
        """POP: check points were written."""
        self._note_named("GROUP_CK_NUMS", topic, group, count)
        self._brokers["BROKER_CK_NUMS"].count += count

    def _note_named(self, name: str, topic: str, group: str, count: int) -> None:
        items = self._named[name]
        key = f"{topic}@{group}"
        item = items.get(key)
        if item is None:
            item = self._added(items, key)
        item.count += count
        item.times += 1

    def _learn_topic(self, topic: str) -> None:
        if self._is_system(topic):
            self._system_topics.add(topic)

    def _added(self, items: dict[_K, StatsItem], key: _K) -> StatsItem:
        """A new item for a key, if there is room or can be made; else one that nobody asks for."""
        if len(items) >= ITEMS_MAX:
            if id(items) in self._swept:
                return self._nobody
            self._swept.add(id(items))  # until the next sample nothing more would be found
            self._drop_idle(items, 0)
            if len(items) >= ITEMS_MAX:
                return self._nobody
        item = items[key] = self._new_item()
        return item

    def _drop_idle(self, items: dict[_K, StatsItem], index: int) -> None:
        """Drop items for which nothing was counted in a whole window."""
        for key in [key for key, item in items.items() if self._series[index].is_idle(item.rings[index], item.times)]:
            del items[key]

    def _new_item(self) -> StatsItem:
        return StatsItem(tuple(series.number for series in self._series))

    # Sampling

    def tick(self, now_ms: int) -> None:
        """Take the samples that are due; call it every second or so."""
        for index, series in enumerate(self._series):
            if series.is_due(now_ms):
                series.number += 1
                slot = series.number % series.length
                series.moments[slot] = now_ms
                at = slot * COLUMNS
                for item in self._items():
                    ring = item.rings[index]
                    ring[at], ring[at + 1], ring[at + 2] = item.count, item.size, item.times
                self._swept.clear()
                if index == _DAY:
                    self._drop_idle(self._puts, _DAY)
                    self._drop_idle(self._gets, _DAY)
                    self._drop_idle(self._latencies, _DAY)
                    for items in self._named.values():
                        self._drop_idle(items, _DAY)
        today = _local_day(now_ms)
        if today != self._today:
            self._today = today
            self._begin_day()

    def _begin_day(self) -> None:
        self.put_total_yesterday_morning = self.put_total_today_morning
        self.get_total_yesterday_morning = self.get_total_today_morning
        self.put_total_today_morning = self.put_total
        self.get_total_today_morning = self.get_total

    def _items(self) -> Iterator[StatsItem]:
        return chain(
            self._puts.values(),
            self._gets.values(),
            self._latencies.values(),
            self._brokers.values(),
            *(items.values() for items in self._named.values()),
        )

    # Answers

    @property
    def put_total(self) -> int:
        """Messages stored since the start, system topics left out."""
        return self._user_put.count

    @property
    def get_total(self) -> int:
        """Messages pulled since the start, system topics left out."""
        return self._user_get.count

    def topic_put_tps(self, topic: str) -> float:
        """Messages a second into a topic over the last minute."""
        item = self._puts.get(topic)
        return 0.0 if item is None else self._snapshot(item, 0, COUNT).tps

    def group_get_tps(self, group: str, topic: str) -> float:
        """Messages a second from a topic to a group over the last minute."""
        item = self._gets.get((topic, group))
        return 0.0 if item is None else self._snapshot(item, 0, COUNT).tps

    def find(self, name: str, key: str) -> StatsWindows | None:
        """The windows of an item by RocketMQ's name and key."""
        item, column = self._find_item(name, key)
        if item is None:
            return None
        minute, hour, day = (self._snapshot(item, index, column) for index in range(len(SERIES)))
        return StatsWindows(minute, hour, day)

    def _snapshot(self, item: StatsItem, index: int, column: int) -> StatsSnapshot:
        return self._series[index].snapshot(item.rings[index], item.born[index], column)

    def _find_item(self, name: str, key: str) -> tuple[StatsItem | None, int]:
        column = SIZE if name.endswith("_SIZE") else COUNT
        if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
            return self._puts.get(key), column
        if name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
            return self._gets.get(_topic_and_group(key)), column
        if name == "GROUP_GET_LATENCY":
            return self._latencies.get(_topic_and_group(key)), column
        if name in self._brokers:
            return (self._brokers[name] if key == self._cluster_name else None), column
        return self._named.get(name, {}).get(key), column

    # Forgetting

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: so are its statistics. The broker's totals stay."""
        self._puts.pop(topic, None)
        self._system_topics.discard(topic)
        self._forget(lambda its_topic, its_group: its_topic == topic)

    def forget_group(self, group: str) -> None:
        """A consumer group was deleted."""
        self._forget(lambda its_topic, its_group: its_group == group)

    def _forget(self, is_gone: Callable[[str, str], bool]) -> None:
        self._gets = {key: item for key, item in self._gets.items() if not is_gone(*key)}
        self._latencies = {key: item for key, item in self._latencies.items() if not is_gone(*key)}
        for name, items in self._named.items():
            kept = {key: item for key, item in items.items() if not is_gone(*_topic_and_group(key))}
            self._named[name] = kept
        self.fall_behind.forget(is_gone)


_COUNTED_BY_GROUP = ("SNDBCK_PUT_NUMS", "DLQ_PUT_NUMS", "GROUP_ACK_NUMS", "GROUP_CK_NUMS")
_COUNTED_BY_BROKER = (
    "BROKER_PUT_NUMS",
    "BROKER_GET_NUMS",
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC",
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC",
    "BROKER_ACK_NUMS",
    "BROKER_CK_NUMS",
)


def _topic_and_group(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group


def _local_day(now_ms: int) -> tuple[int, int]:
    local = time.localtime(now_ms / 1000)
    return local.tm_year, local.tm_yday

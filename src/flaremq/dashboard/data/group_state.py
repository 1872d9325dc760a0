"""GroupState: a consumer group, how far it is in each queue, who is in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flaremq.dashboard.data.ring import Meter, Ring
from flaremq.message.topics import is_retry_topic
from flaremq.protocol.bodies.client import ConsumerConnection
from flaremq.protocol.bodies.group import SubscriptionGroupConfig

_RATE_SECONDS: Final = 10.0  # clients report every five
_MINUTE_MS: Final = 60_000
_LEFT_MS: Final = 60_000  # what members commit when they leave is read after they have gone
GROWING_MINUTES: Final = 5
QUEUE_STEP_MS: Final = 15_000
QUEUE_LENGTH: Final = 60  # a quarter of an hour
_CONSUME_KINDS: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


class QueueKey(NamedTuple):
    topic: str
    broker: str
    queue: int


class Place(NamedTuple):
    """Where a group is in one queue."""

    high: int
    committed: int
    pulled: int
    consumed_ms: int  # when the last consumed message was stored; 0: not told

    @property
    def lag(self) -> int:
        return self.high - self.committed


@dataclass(slots=True, eq=False)
class GroupState:
    """Kept by the sampler; views read it."""

    name: str
    configs: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)  # by broker
    places: dict[QueueKey, Place] = field(default_factory=dict)
    places_ms: int = 0
    members: ConsumerConnection | None = None  # None: not read yet, or nobody is there (then ``is_online`` is False)
    subscriptions: dict[str, dict[str, str]] = field(default_factory=dict)  # expressions by topic and broker
    members_ms: int = 0
    is_online: bool | None = None
    online_ms: int = 0  # when somebody was connected last
    failure: str = ""
    moved_alone_ms: int = 0  # when its offsets last moved with nobody connected: a job that keeps its own progress
    rings: dict[str, Ring] = field(default_factory=dict)  # lag, in, out; empty while it has no offsets
    queue_lags: dict[QueueKey, Ring] = field(default_factory=dict)  # empty while none of its queues lags
    _in: Meter = field(default_factory=lambda: Meter(_RATE_SECONDS))
    _out: Meter = field(default_factory=lambda: Meter(_RATE_SECONDS))
    _minutes: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=GROWING_MINUTES + 1))

    def take_places(self, places: Mapping[QueueKey, Place], now_ms: int, seconds: float) -> None:
        """A reading of all queues of the group."""
        if places.keys() != self.places.keys():
            self._in.forget()
            self._out.forget()
        committed = sum(place.committed for place in places.values())
        moved = committed - sum(place.committed for place in self.places.values())
        is_alone = self.is_online is False and now_ms - self.online_ms > _LEFT_MS
        if moved > 0 and self.places_ms and is_alone and places.keys() == self.places.keys():
            self.moved_alone_ms = now_ms
        self.places, self.places_ms = dict(places), now_ms
        self._in.note(seconds, sum(place.high for place in places.values()))
        self._out.note(seconds, committed)
        minute = now_ms // _MINUTE_MS
        if places and (not self._minutes or self._minutes[-1][0] != minute):
            self._minutes.append((minute, self.lag or 0))

    def note_queue_lags(self, now_ms: int, room: int) -> None:
        """A point for each queue, in at most so many rings more. A group that keeps up gets none."""
        if not self.queue_lags and (len(self.places) > room or not any(place.lag for place in self.places.values())):
            return
        for key in self.queue_lags.keys() - self.places.keys():
            del self.queue_lags[key]
        for key, place in self.places.items():
            ring = self.queue_lags.get(key)
            if ring is None:
                ring = self.queue_lags[key] = Ring(QUEUE_STEP_MS, QUEUE_LENGTH)
            ring.note(now_ms, place.lag)

    def note_online(self, is_online: bool, now_ms: int) -> None:
        """Whoever has members is no job that keeps its own progress, even if its offsets were seen to move first."""
        self.is_online = is_online
        if is_online:
            self.online_ms, self.moved_alone_ms = now_ms, 0

    # How far

    @property
    def is_broadcast(self) -> bool:
        return self.members is not None and self.members.message_model == "BROADCASTING"

    @property
    def lag(self) -> int | None:
        if not self.places_ms or self.is_broadcast:
            return None
        return sum(place.lag for place in self.places.values())

    @property
    def in_flight(self) -> int | None:
        return sum(max(0, place.pulled - place.committed) for place in self.places.values()) if self.places_ms else None

    @property
    def retries(self) -> int | None:
        """Messages that wait in its retry topics to be consumed."""
        if not self.places_ms:
            return None
        return sum(place.lag for key, place in self.places.items() if is_retry_topic(key.topic))

    @property
    def in_per_second(self) -> float | None:
        return self._in.per_second

    @property
    def out_per_second(self) -> float | None:
        return self._out.per_second

    @property
    def drain_ms(self) -> int | None:
        """How long until it has caught up, as it goes now; None if it does not catch up."""
        lag, comes, goes = self.lag, self.in_per_second, self.out_per_second
        if lag is None or comes is None or goes is None or goes <= comes:
            return 0 if lag == 0 else None
        return round(lag / (goes - comes) * 1000)

    def delay_ms(self, now_ms: int) -> int | None:
        """Age of the message it consumed last in the queue that is furthest behind."""
        if self.lag == 0:
            return 0
        times = [place.consumed_ms for place in self.places.values() if place.lag > 0 and place.consumed_ms > 0]
        return max(0, now_ms - min(times)) if times else None

    @property
    def growing_minutes(self) -> int:
        """For how many minutes its lag has grown without a break."""
        lags = [lag for _, lag in self._minutes]
        count = 0
        for older, newer in zip(reversed(lags[:-1]), reversed(lags[1:]), strict=True):
            if newer <= older:
                break
            count += 1
        return count

    # Who

    @property
    def kind(self) -> str:
        members = self.members
        if members is not None and members.connection_set:
            if self.is_broadcast:
                return "broadcast"
            return _CONSUME_KINDS.get(members.consume_type or "", "unknown")
        return "spark" if self.moved_alone_ms else "unknown"

    @property
    def topics(self) -> list[str]:
        return sorted({key.topic for key in self.places if not is_retry_topic(key.topic)})

    def of_topics(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for key, place in self.places.items():
            found.setdefault(key.topic, []).append(place)
        return found


def lag_of(places: Iterable[Place]) -> int:
    return sum(place.lag for place in places)

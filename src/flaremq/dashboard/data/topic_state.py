"""TopicState: a topic on all of its brokers, the ends of its queues, how fast they grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flaremq.dashboard.data.ring import Meter, Ring
from flaremq.protocol.bodies.topic import TopicConfig

SERIES_STEP_MS: Final = 2000
SERIES_LENGTH: Final = 450  # a quarter of an hour
_RATE_SECONDS: Final = 5.0


class Ends(NamedTuple):
    """Both ends of one queue, and when its newest message was stored (0: not told)."""

    low: int
    high: int
    newest_ms: int


@dataclass(slots=True, eq=False)
class TopicState:
    """Kept by the sampler; views read it."""

    name: str
    kind: str
    configs: dict[str, TopicConfig] = field(default_factory=dict)  # by broker
    ends: dict[tuple[str, int], Ends] = field(default_factory=dict)  # by broker and queue
    ends_ms: int = 0  # when they were read; 0: never
    tried_ms: int = 0  # when that was last tried
    failure: str = ""  # reason of the last reading that failed
    wanted_ms: int = 0  # when a page last showed it
    rings: dict[str, Ring] = field(default_factory=dict)  # in and lag; empty while nothing moves
    _meter: Meter = field(default_factory=lambda: Meter(_RATE_SECONDS))

    @property
    def is_known(self) -> bool:
        return self.ends_ms > 0

    def take_ends(self, ends: Mapping[tuple[str, int], Ends], now_ms: int, seconds: float) -> None:
        """A reading of all queues."""
        if ends.keys() != self.ends.keys():
            self._meter.forget()  # queues that appear bring messages that did not come in just now
        self.ends, self.ends_ms, self.failure = dict(ends), now_ms, ""
        self._meter.note(seconds, sum(end.high for end in self.ends.values()))

    def raise_ends(self, highs: Iterable[tuple[tuple[str, int], int]], seconds: float) -> None:
        """Newer ends, learnt by the way: reading the progress of a group tells them too. A part of the queues would be
        taken for a standstill of the others, so only all of them count."""
        found = dict(highs)
        if found.keys() != self.ends.keys():
            return
        for key, high in found.items():
            old = self.ends[key]
            if high > old.high:
                self.ends[key] = old._replace(high=high)
        self._meter.note(seconds, sum(end.high for end in self.ends.values()))

    @property
    def in_per_second(self) -> float | None:
        return self._meter.per_second

    @property
    def messages(self) -> int | None:
        return sum(max(0, end.high - end.low) for end in self.ends.values()) if self.is_known else None

    @property
    def newest_ms(self) -> int | None:
        return max((end.newest_ms for end in self.ends.values()), default=0) or None

    @property
    def config(self) -> TopicConfig | None:
        """Of one broker; they are mostly alike."""
        return next(iter(self.configs.values()), None)

    @property
    def message_type(self) -> str | None:
        config = self.config
        return None if config is None else config.attributes.get("message.type")

    @property
    def read_queues(self) -> int:
        return sum(config.read_queue_nums for config in self.configs.values())

    @property
    def write_queues(self) -> int:
        return sum(config.write_queue_nums for config in self.configs.values())

"""ClusterState: everything the dashboard knows of its cluster. One object, written by the sampler, read by views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from flaremq.dashboard.data.broker_state import BrokerState, history_ring
from flaremq.dashboard.data.group_state import GroupState
from flaremq.dashboard.data.ring import Ring
from flaremq.dashboard.data.topic_state import TopicState
from flaremq.message.topics import dlq_topic
from flaremq.protocol.bodies.client import ProducerInfo

TOTALS: Final = ("in", "out", "in_bytes", "put_p99", "lag")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a part of the picture is missing."""

    reason: str  # a code that the pages have a text for
    detail: str


@dataclass(slots=True, eq=False)
class ClusterState:
    """Event loop thread only."""

    name_servers: list[str] = field(default_factory=list)
    clusters: dict[str, tuple[str, ...]] = field(default_factory=dict)  # broker names
    brokers: dict[str, BrokerState] = field(default_factory=dict)  # by address
    topics: dict[str, TopicState] = field(default_factory=dict)
    groups: dict[str, GroupState] = field(default_factory=dict)
    producers: dict[str, dict[str, ProducerInfo]] | None = None  # by group and client id
    producers_failure: str = "not_read_yet"
    groups_of_topic: dict[str, dict[str, int]] = field(default_factory=dict)  # and how far each is behind in it
    as_of_ms: int = 0
    tables_ms: int = 0
    progress_ms: int = 0
    failures: dict[str, Failure] = field(default_factory=dict)  # by what was asked for
    has_access_control: bool | None = None
    rings: dict[str, Ring] = field(default_factory=lambda: {name: history_ring() for name in TOTALS})
    revision: int = 0  # of the lists of topics and groups

    @property
    def masters(self) -> list[BrokerState]:
        return [broker for broker in self.brokers.values() if broker.is_master]

    @property
    def addresses(self) -> set[str]:
        """The only addresses a request of ours may go to, besides those of the name servers."""
        return set(self.brokers)

    def master_of(self, name: str) -> BrokerState | None:
        return next((broker for broker in self.masters if broker.name == name), None)

    def dead_letters_of(self, group: str) -> int | None:
        """Messages in its dead-letter topic; 0 if there is none."""
        topic = self.topics.get(dlq_topic(group))
        return 0 if topic is None else topic.messages

    @property
    def own_names(self) -> frozenset[str]:
        """Of clusters and brokers: each has a topic of its name."""
        return frozenset(self.clusters) | {broker.name for broker in self.brokers.values()}

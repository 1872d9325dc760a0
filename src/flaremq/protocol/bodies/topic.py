"""Topics and the versions of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, Bean
from flaremq.protocol.bodies.bean_rows import (
    anything,
    bean,
    bean_table,
    beans,
    double,
    flag,
    integer,
    long,
    maybe_bean,
    maybe_text,
    text,
    text_table,
    texts,
)

# Permission bits of a topic and of its queues.
PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersion(Bean):
    """Which state of a table someone has seen; equal versions mean equal tables."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    counter: int = long()
    state_version: int = long()
    timestamp: int = long()

    def next(self, now_ms: int, *, state_version: int = 0) -> DataVersion:
        """The version after a change."""
        return DataVersion(counter=self.counter + 1, state_version=state_version, timestamp=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Bean):
    """One topic of a broker. 4.9 knows no attributes and ignores them."""

    topic_name: str = text()
    read_queue_nums: int = integer(default=16)
    write_queue_nums: int = integer(default=16)
    perm: int = integer(default=PERM_READ | PERM_WRITE)
    topic_filter_type: str = text(default="SINGLE_TAG")
    topic_sys_flag: int = integer()
    order: bool = flag()
    attributes: dict[str, str] = text_table()

    @property
    def is_readable(self) -> bool:
        return self.perm & PERM_READ != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigSerializeWrapper(Bean):
    """All topics of a broker, as topics.json, GET_ALL_TOPIC_CONFIG and REGISTER_BROKER carry them.

    The mapping tables belong to 5.x's static topics; they are passed on unread.
    """

    data_version: DataVersion = bean(DataVersion)
    topic_config_table: dict[str, TopicConfig] = bean_table(TopicConfig)
    mapping_data_version: DataVersion | None = maybe_bean(DataVersion)
    topic_queue_mapping_info_map: dict[str, Any] | None = anything()
    topic_queue_mapping_detail_map: dict[str, Any] | None = anything()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicListRequestBody(Bean):
    """UPDATE_AND_CREATE_TOPIC_LIST."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    topic_config_list: tuple[TopicConfig, ...] = beans(TopicConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList(Bean):
    """Names of topics; the name server's list of system topics also names a broker to ask for more."""

    topic_list: tuple[str, ...] = texts()
    broker_addr: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTable(Bean):
    """Texts by name: runtime information, order configuration, KV namespaces."""

    table: dict[str, str] = text_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsItem(Bean):
    """Counts over one period."""

    sum: int = long()
    tps: float = double()
    average_per_call: float = double("avgpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsData(Bean):
    """VIEW_BROKER_STATS_DATA."""

    stats_minute: BrokerStatsItem = bean(BrokerStatsItem)
    stats_hour: BrokerStatsItem = bean(BrokerStatsItem)
    stats_day: BrokerStatsItem = bean(BrokerStatsItem)

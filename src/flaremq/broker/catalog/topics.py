"""The topics of a broker: which there are, and who may cause new ones (``config/topics.json``).

RocketMQ's own topics exist from the start. Others come by an administrator, by a send (modelled on a topic that lets
others inherit from it, ``TBW102`` by default), or because a group needs its retry topic. A change is seen at once by
everybody on the event loop; :meth:`TopicTable.save_changes` returns when it is also on disk and at the name servers;
a handler awaits it before it answers a client that relies on the topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from flaremq.broker.catalog.attribute_limits import loaded_attributes
from flaremq.broker.catalog.names import check_own_topic, check_topic
from flaremq.broker.catalog.table_saver import Run, TableSaver, run_inline
from flaremq.broker.options import BrokerOptions
from flaremq.clock import Clock
from flaremq.message import topics as known
from flaremq.protocol.bodies.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, DataVersion, TopicConfig
from flaremq.protocol.bodies.topic import TopicConfigSerializeWrapper as Topics
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.storage.config.config_file import ConfigFile, Rendered, render_entry

_log = logging.getLogger(__name__)

READ_WRITE: Final = PERM_READ | PERM_WRITE
# A name server that hangs must not hold up heartbeats: their senders wait 3 s.
_ANNOUNCE_SECONDS_MAX: Final = 2.0

Listener = Callable[[TopicConfig | None], Awaitable[None] | None]


class TopicTable:
    """All topics of one broker. Event loop only."""

    def __init__(self, options: BrokerOptions, file: ConfigFile, clock: Clock, run: Run = run_inline) -> None:
        self._options = options
        self._file = file
        self._clock = clock
        self._saver = TableSaver(file, self._snapshot, run)
        self._table: dict[str, TopicConfig] = {}
        # The writer's: of thousands of topics only the one that is new gets rendered.
        self._rendered: dict[str, tuple[TopicConfig, Rendered]] = {}
        self._system: set[str] = set()
        self._announcing: set[asyncio.Future[None]] = set()
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self.is_copy = False  # of a master's table: nothing but ``replace_all`` changes it
        self.on_change: list[Listener] = []  # called with the topic, or None for a removal or several
        self.on_delete: list[Callable[[str], None]] = []

    def load(self) -> None:
        """Read the file, then add those of RocketMQ's own topics that it lacks."""
        loaded = self._file.load(Topics.from_value)
        if loaded is not None:
            self.data_version = loaded.data_version
            for name, config in loaded.topic_config_table.items():
                attributes = loaded_attributes(f"topic {name}", config.attributes)
                if config.topic_name != name or attributes is not config.attributes:
                    config = replace(config, topic_name=name, attributes=attributes)
                self._put(config)
        built_in = built_in_topics(self._options)
        self._system = {config.topic_name for config in built_in}
        missing = [config for config in built_in if config.topic_name not in self._table]
        if missing:
            for config in missing:
                self._put(config)
            self._next_version()

    # Looking

    def find(self, name: str) -> TopicConfig | None:
        return self._table.get(name)

    def all(self) -> dict[str, TopicConfig]:
        """Every topic; a copy."""
        return dict(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def is_system(self, name: str) -> bool:
        """Whether the topic is RocketMQ's own."""
        return name in self._system or known.is_system_topic(name)

    def system_topics(self) -> list[str]:
        return [name for name in self._table if self.is_system(name)]

    def wrapper(self) -> Topics:
        """What GET_ALL_TOPIC_CONFIG and a registration carry."""
        return Topics(data_version=self.data_version, topic_config_table=dict(self._table))

    # Changing

    def create_on_send(
        self, topic: str, default_topic: str, queue_nums: int, *, topic_sys_flag: int = 0
    ) -> TopicConfig | None:
        """The topic somebody sends to, new if need be; None if nothing allows to create it."""
        found = self._table.get(topic)
        if found is not None or self.is_copy:
            return found
        model = self._table.get(default_topic)
        if model is None or not model.perm & PERM_INHERIT:
            return None
        if default_topic == known.AUTO_CREATE_TOPIC and not self._options.auto_create_topic_enable:
            return None
        check_topic(topic)
        queue_count = max(1, min(queue_nums, model.write_queue_nums))
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue_count,
            write_queue_nums=queue_count,
            perm=model.perm & ~PERM_INHERIT,
            topic_filter_type=model.topic_filter_type,
            topic_sys_flag=topic_sys_flag,
        )
        _log.info("topic %s is created after %s with %d queues", topic, default_topic, queue_count)
        self._create(config)
        return config

    def create_on_send_back(
        self, topic: str, queue_nums: int, perm: int = READ_WRITE, *, order: bool | None = None, topic_sys_flag: int = 0
    ) -> TopicConfig:
        """A topic the broker itself needs: of retries, dead letters, discarded transactions."""
        found = self._table.get(topic)
        if found is not None:
            if order is not None and found.order != order and not self.is_copy:
                found = replace(found, order=order)
                self._changed(found)
            return found
        check_own_topic(topic)
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue_nums,
            write_queue_nums=queue_nums,
            perm=perm,
            order=order or False,
            topic_sys_flag=topic_sys_flag,
        )
        if not self.is_copy:
            self._create(config)
        return config

    def replace_all(self, version: DataVersion, configs: Mapping[str, TopicConfig]) -> bool:
        """Become what a master's table is, in one step; False if it is that already."""
        if version == self.data_version and self._table.keys() == configs.keys():
            return False
        gone = self._table.keys() - configs.keys()
        old, new = self._table, {}
        for name, config in configs.items():
            attributes = loaded_attributes(f"topic {name}", config.attributes)
            config = replace(config, topic_name=name, attributes=attributes)
            new[name] = old[name] if old.get(name) == config else config  # what is told to name servers: news only
        self._table, self.data_version = new, version
        self._saver.changed()
        for name in gone:
            for listener in self.on_delete:
                listener(name)
        self._announce(None)
        return True

    def update(self, config: TopicConfig) -> None:
        """Create or replace a topic as an administrator wants it."""
        self.update_all([config])

    def update_all(self, configs: Collection[TopicConfig]) -> None:
        """Several at once, with one new version."""
        news = [config for config in configs if self._table.get(config.topic_name) != config]
        self._check_room(sum(config.topic_name not in self._table for config in news))
        for config in news:
            self._put(config)
        if news:
            self._next_version()
            self._announce(news[0] if len(news) == 1 else None)

    def delete(self, name: str) -> bool:
        """Forget a topic; False if there was none."""
        if self._table.pop(name, None) is None:
            return False
        self._next_version()
        for listener in self.on_delete:
            listener(name)
        self._announce(None)
        return True

    def set_order_topics(self, names: Iterable[str]) -> None:
        """Mark exactly these topics as ordered: what the name servers' ORDER_TOPIC_CONFIG says.

        A retry topic follows the topics of its group instead. Not announced: it comes out of a registration.
        """
        ordered = set(names)
        if self.is_copy:
            return  # the master is told the same
        changes = [
            replace(config, order=name in ordered)
            for name, config in self._table.items()
            if config.order != (name in ordered) and not known.is_retry_topic(name)
        ]
        for config in changes:
            self._put(config)
        if changes:
            self._next_version()

    # Keeping and telling

    async def save_changes(self) -> None:
        """Return when all changes so far are on disk and announced; StoreIOError if they cannot be saved."""
        await self._saver.save()
        waiting = set(self._announcing)
        if waiting:
            await asyncio.wait(waiting, timeout=_ANNOUNCE_SECONDS_MAX)

    @property
    def is_saved(self) -> bool:
        return self._saver.is_saved and not self._announcing

    def save_now(self) -> None:
        """Write on this thread, at start and stop."""
        self._saver.save_now()

    def _create(self, config: TopicConfig) -> None:
        self._check_room(1)
        self._changed(config)

    def _changed(self, config: TopicConfig) -> None:
        self._put(config)
        self._next_version()
        self._announce(config)

    def _check_room(self, count: int) -> None:
        if count and len(self._table) + count > self._options.topics_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"the broker has {len(self._table)} topics, topicsMax allows no more"
            )

    def _put(self, config: TopicConfig) -> None:
        self._table[config.topic_name] = config

    def _next_version(self) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        self._saver.changed()

    def _announce(self, config: TopicConfig | None) -> None:
        for listener in self.on_change:
            outcome = listener(config)
            if outcome is not None:
                future: asyncio.Future[None] = asyncio.ensure_future(outcome)
                self._announcing.add(future)
                future.add_done_callback(self._announced)

    def _announced(self, future: asyncio.Future[None]) -> None:
        self._announcing.discard(future)
        if not future.cancelled() and future.exception() is not None:
            _log.warning("a change of topics could not be announced: %s", future.exception())

    def _snapshot(self) -> Callable[[], dict[str, Any]]:
        return partial(self._document, self.data_version, dict(self._table))

    def _document(self, version: DataVersion, table: dict[str, TopicConfig]) -> dict[str, Any]:
        """Runs where the file is written, one at a time."""
        old = self._rendered
        new = {}
        for name, config in table.items():
            entry = old.get(name)
            if entry is None or entry[0] is not config:
                entry = (config, render_entry(config.to_value()))
            new[name] = entry
        self._rendered = new
        texts = {name: text for name, (_, text) in new.items()}
        return {"dataVersion": version.to_value(), "topicConfigTable": texts}


def built_in_topics(options: BrokerOptions) -> list[TopicConfig]:
    """RocketMQ's own topics, as a broker with these options has them from the start."""
    cluster, broker = options.broker_cluster_name, options.broker_name
    inherit = READ_WRITE | PERM_INHERIT
    rows = [
        (known.SELF_TEST_TOPIC, 1, READ_WRITE),
        (known.BENCHMARK_TOPIC, 1024, READ_WRITE),
        (cluster, 16, inherit if options.cluster_topic_enable else READ_WRITE),
        (broker, 1, inherit if options.broker_topic_enable else READ_WRITE),
        (known.OFFSET_MOVED_TOPIC, 1, READ_WRITE),
        (known.SCHEDULE_TOPIC, 18, READ_WRITE),
        (known.reply_topic(cluster), 1, READ_WRITE),
        (known.HALF_TOPIC, 1, READ_WRITE),
        (known.OP_HALF_TOPIC, 1, READ_WRITE),
        (known.CHECK_MAX_TIME_TOPIC, 1, READ_WRITE),
        (revive_topic(cluster), options.revive_queue_num, READ_WRITE),
        (f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, PERM_INHERIT),
    ]
    if options.auto_create_topic_enable:
        rows.append((known.AUTO_CREATE_TOPIC, options.default_topic_queue_nums, inherit))
    if options.trace_topic_enable:
        rows.append((options.msg_trace_topic_name, 1, READ_WRITE))
    if options.timer_wheel_enable:
        rows.append((known.TIMER_TOPIC, 1, READ_WRITE))
    return [
        TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm)
        for name, count, perm in rows
    ]


def revive_topic(cluster: str) -> str:
    """Where POP remembers what was handed out."""
    return f"{known.SYSTEM_PREFIX}REVIVE_LOG_{cluster}"

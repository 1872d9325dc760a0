"""How far each consumer group has come in each queue (``config/consumerOffset.json``).

The number is the next offset to consume. We store what clients tell us, also when it goes backwards, with three
exceptions: a negative number means "none" and is ignored; so is a commit while an administrator's reset waits to be
noticed by the client, which does not know of it yet; and when a store lost its tail in a crash, :meth:`clamp` takes
offsets back to the end of the data, so that nothing written afterwards is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from flaremq.broker.catalog.offset_table import OffsetTable, Table
from flaremq.broker.catalog.table_saver import Run, TableSaver, run_inline
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pace import paced
from flaremq.clock import Clock
from flaremq.errors import RemoteProtocolError
from flaremq.java_json import integer_keyed, json_kind, write_java_json
from flaremq.protocol.bodies.bean import Misfit
from flaremq.protocol.bodies.bean_rows import integer_table_reader, read_long
from flaremq.protocol.bodies.topic import DataVersion
from flaremq.storage.config.config_file import ConfigFile, Rendered, render_integers

_log = logging.getLogger(__name__)
_NO_QUEUES: Final[dict[int, int]] = {}
_NO_TOPICS: Final[dict[str, dict[int, int]]] = {}
_read_queues = integer_table_reader(read_long)


class ConsumerOffsets:
    """The offsets of one broker's groups. Event loop only."""

    def __init__(self, options: BrokerOptions, file: ConfigFile, clock: Clock, run: Run = run_inline) -> None:
        self._options = options
        self._file = file
        self._clock = clock
        self._saver = TableSaver(file, self._snapshot, run)
        self._table = OffsetTable()
        self._pulled = OffsetTable()
        self._resets: dict[tuple[str, str, int], int] = {}
        self.is_copy = False  # of a master's table, with what was committed here while the master was away
        self._committed_here: dict[tuple[str, str, int], int] = {}
        self._commits = 0
        self._full_was_logged = False
        self.data_version = DataVersion(timestamp=clock.now_ms())

    def load(self) -> None:
        """Read the file, RocketMQ 4.9's or 5's."""
        loaded = self._file.load(_read)
        if loaded is not None:
            self.data_version, committed, pulled = loaded
            self._table, self._pulled = OffsetTable(committed), OffsetTable(pulled)

    # One queue

    def find(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset, -1 if there is none."""
        return self._table.find(group, topic, queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Keep what a client says; False if it is ignored."""
        if offset < 0 or (self._resets and (group, topic, queue_id) in self._resets):
            return False
        if self.is_copy:
            self._committed_here[group, topic, queue_id] = offset
        return self._put(group, topic, queue_id, offset)

    def merge(self, offsets: Mapping[str, Mapping[int, int]]) -> list[tuple[str, str, int, int]]:
        """Take over what a master has, by ``topic@group`` and queue.

        What clients committed here while the master was away is newer than what it knows. Such offsets stay if they
        are ahead of the master's; they are returned as (group, topic, queue id, offset), once, for the master to be
        told. Nothing is removed.
        """
        ahead = []
        for key, queues in offsets.items():
            topic, at, group = key.partition("@")
            if not at or not topic or not group:
                continue
            for queue_id, offset in queues.items():
                own = self._committed_here.pop((group, topic, queue_id), -1)
                if own > offset:
                    ahead.append((group, topic, queue_id, own))
                elif offset >= 0:
                    self._put(group, topic, queue_id, offset)
        return ahead

    def take_unknown(self, offsets: Mapping[str, Mapping[int, int]]) -> list[tuple[str, str, int, int]]:
        """Of what was committed here, that of which the master's table has nothing at all; as from :meth:`merge`."""
        unknown = [
            (group, topic, queue_id, offset)
            for (group, topic, queue_id), offset in self._committed_here.items()
            if queue_id not in offsets.get(f"{topic}@{group}", {})
        ]
        for group, topic, queue_id, _ in unknown:
            del self._committed_here[group, topic, queue_id]
        return unknown

    def keep(self, ahead: Iterable[tuple[str, str, int, int]]) -> None:
        """What the master could not be told counts as committed here until it can, unless a newer one was since."""
        for group, topic, queue_id, offset in ahead:
            self._committed_here.setdefault((group, topic, queue_id), offset)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set an offset on an administrator's behalf; the next pull of the queue learns it by :meth:`take_reset`."""
        if self._put(group, topic, queue_id, offset):
            self._resets[group, topic, queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The waiting reset of a queue, once."""
        return self._resets.pop((group, topic, queue_id), None) if self._resets else None

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return (group, topic, queue_id) in self._resets

    def note_pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember where a client pulls, ahead of what it has consumed: for statistics, and saved with the rest."""
        old = self._pulled.find(group, topic, queue_id)
        if old == offset or (old < 0 and self._pulled.count >= self._options.consumer_offsets_max):
            return
        self._pulled.put(group, topic, queue_id, offset)

    def find_pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Where a client of the group last pulled, -1 if none did."""
        return self._pulled.find(group, topic, queue_id)

    def standing(self, group: str, topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Committed and pulled offsets by queue, to be read at once and not to be changed."""
        committed = self._table.groups.get(group, _NO_TOPICS).get(topic, _NO_QUEUES)
        return committed, self._pulled.groups.get(group, _NO_TOPICS).get(topic, _NO_QUEUES)

    # Groups and topics

    def groups(self) -> list[str]:
        """Every group that has offsets."""
        return list(self._table.groups)

    def topics_of(self, group: str) -> set[str]:
        """Topics in which the group has offsets."""
        return set(self._table.groups.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have offsets in the topic."""
        return {group for group, topics in self._table.groups.items() if topic in topics}

    def queues_of(self, group: str, topic: str) -> dict[int, int]:
        """The group's offsets in a topic by queue; a copy."""
        return dict(self._table.groups.get(group, {}).get(topic, {}))

    def remove_group(self, group: str) -> None:
        self._pulled.remove_group(group)
        removed = self._table.remove_group(group)
        if removed:
            self._forget(group, removed)

    def remove_topic(self, topic: str) -> None:
        self._pulled.remove_topic(topic)
        for key in [key for key in self._committed_here if key[1] == topic]:
            del self._committed_here[key]
        for group, queues in self._table.remove_topic(topic).items():
            self._forget(group, {topic: queues})

    def clone(self, source_group: str, target_group: str, topic: str) -> None:
        """Let a group stand where another one stands."""
        for queue_id, offset in self.queues_of(source_group, topic).items():
            self._put(target_group, topic, queue_id, offset)

    def clamp(self, max_offset_of: Callable[[str, int], int]) -> list[str]:
        """Cut offsets that lie beyond the end of their queue; a sentence for each. For the start of a broker."""
        sentences = []
        for group, topics in self._table.snapshot().items():
            for topic, queues in topics.items():
                for queue_id, offset in queues.items():
                    end = max_offset_of(topic, queue_id)
                    if offset > end:
                        self._table.put(group, topic, queue_id, end)
                        sentences.append(
                            f"group {group} stood at {offset} in queue {queue_id} of {topic}, which ends at {end}"
                        )
        if sentences:
            self._changed()
        return sentences

    def has_beyond(self, end_of: Callable[[str, int], int]) -> bool:
        """Whether any group stands behind the end of a queue."""
        return any(
            offset > end_of(topic, queue_id)
            for topics in self._table.snapshot().values()
            for topic, queues in topics.items()
            for queue_id, offset in queues.items()
        )

    def table(self) -> dict[str, dict[int, int]]:
        """Every offset by ``topic@group`` and queue; a copy."""
        return _by_key(self._table.groups)

    def renderer(self) -> Callable[[], bytes]:
        """GET_ALL_CONSUMER_OFFSET, what slaves of any version read: writes the table as it is now, on any thread."""
        groups, version = self._table.snapshot(), self.data_version.to_value()
        return lambda: _render(groups, version)

    # Keeping

    async def persist_if_changed(self) -> bool:
        """Write what was committed since the last time; False if nothing was."""
        if self._saver.is_saved:
            return False
        await self._saver.save()
        return True

    def save_now(self) -> None:
        """Write on this thread, at stop."""
        self._saver.save_now()

    def _put(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        old = self._table.find(group, topic, queue_id)
        if old < 0 and self._table.count >= self._options.consumer_offsets_max:
            if not self._full_was_logged:
                self._full_was_logged = True
                _log.error("consumerOffsetsMax is reached: no offsets of new groups or queues are kept")
            return False
        if old == offset:
            return True
        self._table.put(group, topic, queue_id, offset)
        self._saver.changed()
        self._commits += 1
        if self._commits % self._options.consumer_offset_update_version_step == 0:
            self.data_version = self.data_version.next(self._clock.now_ms())
        return True

    def _forget(self, group: str, topics: dict[str, dict[int, int]]) -> None:
        for topic, queues in topics.items():
            for queue_id in queues:
                self._resets.pop((group, topic, queue_id), None)
        self._changed()

    def _changed(self) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        self._saver.changed()

    def _snapshot(self) -> Callable[[], dict[str, Any]]:
        return partial(_document, self.data_version, self._table.snapshot(), self._pulled.snapshot())


def _document(version: DataVersion, table: Table, pulled: Table) -> dict[str, Any]:
    return {
        "dataVersion": version.to_value(),
        "groupTopicMap": {group: list(topics) for group, topics in table.items()},  # RocketMQ writes, nobody reads it
        "offsetTable": _rendered(table),
        "pullOffsetTable": _rendered(pulled),
    }


def _rendered(table: Table) -> dict[str, Rendered]:
    return {
        f"{topic}@{group}": render_integers(queues)
        for group, topics in table.items()
        for topic, queues in topics.items()
        if queues
    }


def _by_key(table: Table) -> dict[str, dict[int, int]]:
    return {
        f"{topic}@{group}": dict(queues)
        for group, topics in table.items()
        for topic, queues in topics.items()
        if queues
    }


def _read(document: dict[str, Any]) -> tuple[DataVersion, Table, Table]:
    version = document.get("dataVersion")
    return (
        DataVersion() if version is None else DataVersion.from_value(version),
        _read_table("offsetTable", document.get("offsetTable")),
        _read_table("pullOffsetTable", document.get("pullOffsetTable")),
    )


def _read_table(name: str, offsets: Any) -> Table:
    table: Table = {}
    if offsets is None:
        return table
    if not isinstance(offsets, dict):
        raise RemoteProtocolError(f"{name} must be an object, not {json_kind(offsets)}")
    for key, queues in offsets.items():
        topic, at, group = key.partition("@")
        if not at or not topic or not group:
            _log.warning("%r in %s is no topic and group: it is left out", key, name)
            continue
        try:
            read: dict[int, int] = _read_queues(queues)
        except Misfit as misfit:
            raise RemoteProtocolError(f"{name}.{key} must be {misfit}") from None
        table.setdefault(group, {})[topic] = {queue_id: offset for queue_id, offset in read.items() if offset >= 0}
    return table


def _render(groups: Table, version: Any) -> bytes:
    table = {
        f"{topic}@{group}": integer_keyed(queues)
        for group, topics in groups.items()
        for topic, queues in paced(topics.items())
        if queues
    }
    return write_java_json({"dataVersion": version, "offsetTable": table})

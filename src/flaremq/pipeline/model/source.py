"""What the pipeline asks of a place that holds messages: a store directory, a cluster, an archive, or several in one.

A source is opened where it is used (on the driver to plan, in the task to read), is not shared between threads, and is
made again from its ``SourceSpec``, which is all that travels to an executor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self

from flaremq.client.options import ClientOptions
from flaremq.errors import InvalidArgumentError
from flaremq.message.topics import LIGHT_PREFIX, is_system_topic
from flaremq.options import find_unknown_names
from flaremq.pipeline.model.by_queue import ByQueue
from flaremq.pipeline.model.columns import UNIT_COLUMNS
from flaremq.storage.arrow.bodies import BodyRule

if TYPE_CHECKING:
    import pyarrow as pa

    from flaremq.pipeline.model.spans import QueueExtent, QueueRef, SizeProfile, Span


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Which topics: these names, or those a pattern matches whole, or all but system ones; of them, with ``queues``,
    only those queues.

    Light queues share the records of other topics, so they are chosen by name only.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    queues: ByQueue[bool] | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise InvalidArgumentError(
                f"subscribePattern {self.pattern!r} is no regular expression: {error}"
            ) from error

    def chooses(self, topic: str) -> bool:
        if self.names:
            return topic in self.names
        if topic.startswith(LIGHT_PREFIX):
            return False
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return not is_system_topic(topic)

    def of_queues(self, extents: list[QueueExtent]) -> list[QueueExtent]:
        """Of the queues of such topics those that are wanted."""
        if self.queues is None:
            return extents
        return [extent for extent in extents if self.queues.find(extent.queue)]

    def missing_name(self, found: Iterable[str]) -> str | None:
        """The first of the names that is not among these topics."""
        return min(set(self.names).difference(found), default=None)


class Shape(Protocol):
    """What is made of a source's batches before anybody sees them: more columns, or fewer rows."""

    @property
    def stored(self) -> pa.Schema:
        """What is asked of the source."""

    def shaped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches as they were wanted."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What is wanted of each message.

    ``schema`` is the Arrow schema of the batches, exactly: order, types, nullability; its names are columns of
    ``model/columns.py``. What is not named is not read. ``tags`` keeps messages with one of these tags (by hash
    first, then by text); empty means all. Rows whose record is damaged raise CorruptionError when
    ``fail_on_data_loss``, else they are left out with a warning. ``bodies`` says what becomes of a body that
    cannot be inflated. With a ``shape`` the names are those of its batches: a source is asked for ``stored``.
    """

    schema: pa.Schema
    tags: frozenset[str] = frozenset()
    fail_on_data_loss: bool = True
    bodies: BodyRule = field(default_factory=BodyRule)
    shape: Shape | None = None

    @property
    def needs_units_only(self) -> bool:
        """Whether queue units tell all of it, so that no record is read."""
        return not self.tags and self.shape is None and UNIT_COLUMNS.issuperset(self.schema.names)

    @property
    def unshaped(self) -> ReadRequest:
        """What is asked of a source."""
        return self if self.shape is None else replace(self, schema=self.shape.stored, shape=None)


@dataclass(frozen=True, slots=True)
class WireOptions:
    """How a cluster is read. ``group`` is named in pulls, where it has to be; nothing is consumed for it."""

    client: ClientOptions = field(default_factory=ClientOptions)
    group: str = ""
    retry_ms: int = 30_000
    bytes_in_flight: int = 32 << 20


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where the messages are; picklable. Exactly one of ``paths`` and ``name_server`` unless ``archive`` stands alone.

    ``paths`` holds (broker name, store directory); ``geometry`` are store options by RocketMQ's names. With
    ``fail_on_data_loss`` a plan for a store that visibly lost files is a CorruptionError, else a warning.
    """

    paths: tuple[tuple[str, str], ...] = ()
    name_server: str | None = None
    archive: str | None = None
    geometry: Mapping[str, str] = field(default_factory=dict)
    wire: WireOptions = field(default_factory=WireOptions)
    fail_on_data_loss: bool = True
    objects: Mapping[str, str] = field(default_factory=dict, repr=False)  # how object stores are reached


class Source(Protocol):
    """One place with messages; closed at the end of ``with``."""

    def extents(self, topics: TopicSelector) -> list[QueueExtent]:
        """Every queue of these topics, sorted, pinned as of now. NotFoundError names a topic that is not there."""

    def offset_by_time(self, queue: QueueRef, timestamp_ms: int) -> int:
        """The first offset whose message was stored at or after this time; the end of the queue if there is none."""

    def profiles(self, spans: Sequence[Span]) -> list[SizeProfile]:
        """How the bytes of each span lie, in the order given."""

    def read(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """The spans' messages; those of one queue in order. Batches stay small (a few MB of bodies, or 131,072 narrow
        rows)."""

    def read_keys(self, keys: Sequence[str], spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Messages within the spans that carry one of these keys, each once, found through the index."""

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def nearest_topic(name: str, known: Iterable[str]) -> str:
    """A question to put behind "there is no such topic", if one resembles it."""
    nearest = next((unknown.nearest for unknown in find_unknown_names([name], known)), None)
    return f"; did you mean {nearest}?" if nearest else ""

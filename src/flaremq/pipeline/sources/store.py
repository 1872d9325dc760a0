"""Store directories as a source: planned and read from the files, without the broker and without its lock."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence

import pyarrow as pa

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec, TopicSelector, nearest_topic
from flaremq.pipeline.model.spans import QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.options import index_geometry
from flaremq.pipeline.sources.store_profiles import profile_of
from flaremq.storage.arrow.batches import grouped
from flaremq.storage.arrow.bodies import BodyReader
from flaremq.storage.arrow.filters import RowFilter
from flaremq.storage.arrow.keys import find_keys
from flaremq.storage.arrow.unit_only import narrow_batches
from flaremq.storage.arrow.units import Losses, UnitSpan
from flaremq.storage.arrow.windows import WindowReader
from flaremq.storage.at_rest.gaps import find_gap
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.unit_arrays import ScanQueue
from flaremq.storage.at_rest.view import QueueEnds, StoreView
from flaremq.storage.engine.leases import Lease

_log = logging.getLogger(__name__)


class StoreSource(Source):
    """One or several stores, each under the name of its broker."""

    def __init__(self, spec: SourceSpec) -> None:
        if not spec.paths:
            raise InvalidArgumentError("no store directory is given; set the option path")
        geometry = index_geometry(spec.geometry)
        self._views: dict[str, StoreView] = {}
        self._told: set[str] = set()  # losses that were warned of: a stream plans again and again
        self._fail_on_data_loss = spec.fail_on_data_loss
        self._leases = {broker: Lease(os.path.abspath(path)) for broker, path in spec.paths}
        self._queues: dict[QueueRef, ScanQueue] = {}
        self._ends: dict[QueueRef, QueueEnds] = {}  # of the last look
        self._has_looked = False
        try:
            for broker, path in spec.paths:
                if broker in self._views:
                    raise InvalidArgumentError(f"two stores are named {broker!r}; name them apart: name=path,name=path")
                self._views[broker] = _open(path, geometry)
        except BaseException:
            self.close()
            raise

    def extents(self, topics: TopicSelector) -> list[QueueExtent]:
        """Every queue of these topics, sorted, pinned as of now."""
        self._queues.clear()
        self._ends.clear()
        found: list[QueueExtent] = []
        for broker, view in self._views.items():
            physical_end = 0
            for queue in self._sound_queues(view, topics):
                ends = view.ends_of(queue)
                ref = QueueRef(queue.topic, broker, queue.queue_id)
                self._queues[ref], self._ends[ref] = queue, ends
                found.append(QueueExtent(ref, ends.min_offset, ends.max_offset))
                physical_end = max(physical_end, ends.physical_end)
            view.pin(physical_end)
            if self._has_looked and view.is_held:  # a stream: a broker that knows of it writes its queues sooner
                self._leases[broker].hold(physical_end)
        self._has_looked = True
        if (name := topics.missing_name(extent.queue.topic for extent in found)) is not None:
            raise self._not_found(name)
        return topics.of_queues(sorted(found, key=lambda extent: extent.queue))

    def offset_by_time(self, queue: QueueRef, timestamp_ms: int) -> int:
        """The first offset stored at or after this time, the queue's end if there is none."""
        return self._view(queue).offset_by_time(self._queue(queue), timestamp_ms, self._ends.get(queue))

    def profiles(self, spans: Sequence[Span]) -> list[SizeProfile]:
        """How the bytes of each span lie; long spans are sampled."""
        self._load({span.queue for span in spans})
        found = [profile_of(span, self._queue(span.queue)) for span in spans]
        for broker, view in self._views.items():
            places = [
                profile.points[0].physical_offset
                for profile in found
                if profile.span.queue.broker == broker and profile.points[0].physical_offset >= 0
            ]
            if places and view.is_held:  # who asks for profiles is about to read
                self._leases[broker].hold(min(places))
        return found

    def read(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """The spans' messages in the order of the log, store by store."""
        for broker, view, mine in self._by_store(spans):
            losses, bodies = Losses(request.fail_on_data_loss, view.root), BodyReader(request.bodies, view.root)
            if request.needs_units_only:
                yield from narrow_batches(mine, request.schema, broker=broker, losses=losses)
            else:
                batches = self._windows(broker, view, mine, request, losses, bodies).batches()
                yield from self._leased(broker, view, mine, grouped(batches))
            losses.tell()
            bodies.tell()

    def read_keys(self, keys: Sequence[str], spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Messages within the spans that carry one of these keys as KEYS item or unique key, each once."""
        wanted = frozenset(key for key in keys if key)
        if not wanted:
            return
        for broker, view, mine in self._by_store(spans):
            losses, bodies = Losses(request.fail_on_data_loss, view.root), BodyReader(request.bodies, view.root)
            found = self._windows(broker, view, mine, request, losses, bodies, wanted)
            units, rest = find_keys(view, sorted(wanted), mine)
            yield from grouped(found.batches_of(units))
            if rest:
                searched = self._windows(broker, view, rest, request, losses, bodies, wanted).batches()
                yield from self._leased(broker, view, rest, grouped(searched))
            losses.tell()
            bodies.tell()

    def close(self) -> None:
        for view in self._views.values():
            view.close()

    # Planning

    def _sound_queues(self, view: StoreView, topics: TopicSelector) -> list[ScanQueue]:
        """The queues as they are now, of a store that did not lose any of them."""
        gap = None
        for _ in range(2):  # a broker may start or stop while we look: what is true is true the second time
            view.refresh()
            queues = view.queues(topics.names or list(filter(topics.chooses, view.topics())))
            gap = find_gap(view, queues, topics.chooses)
            if gap is None:
                return queues
        assert gap is not None
        if self._fail_on_data_loss:
            raise gap
        if str(gap) not in self._told:
            self._told.add(str(gap))
            _log.warning("%s", gap)
        return queues

    def _not_found(self, topic: str) -> NotFoundError:
        stores = ", ".join(view.root for view in self._views.values())
        if any(topic in (view.reader.known_topics or ()) for view in self._views.values()):
            return NotFoundError(
                f"topic {topic!r} has no queue in {stores}, although config/topics.json knows it: nothing was sent to "
                f"it, or its queue files are lost (flaremq pipeline rebuild makes them again from the log)"
            )
        held = {name for view in self._views.values() for name in view.topics()}
        hint = nearest_topic(topic, held) or "; see flaremq store info"
        return NotFoundError(f"topic {topic!r} has no queue in {stores}{hint}")

    # Reading

    def _by_store(self, spans: Sequence[Span]) -> Iterator[tuple[str, StoreView, list[UnitSpan]]]:
        self._load({span.queue for span in spans})
        for broker, view in self._views.items():
            mine = [
                UnitSpan(
                    self._queue(span.queue),
                    span.start,
                    span.end,
                    view.log_start(span.queue.topic),
                    view.reader.log.run.end,
                    view.reader.log.run.file_size,
                )
                for span in spans
                if span.queue.broker == broker and span.start < span.end
            ]
            if mine:
                yield broker, view, mine

    def _windows(
        self,
        broker: str,
        view: StoreView,
        spans: Sequence[UnitSpan],
        request: ReadRequest,
        losses: Losses,
        bodies: BodyReader,
        keys: frozenset[str] = frozenset(),
    ) -> WindowReader:
        wanted = RowFilter(request.tags, keys)
        log = view.reader.log
        return WindowReader(log, spans, request.schema, broker=broker, wanted=wanted, losses=losses, bodies=bodies)

    def _leased(
        self, broker: str, view: StoreView, spans: Sequence[UnitSpan], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The batches, with a lease on the log from the first of them to the last."""
        if not view.is_held:
            yield from batches
            return
        first = min((offset for span in spans if (offset := _first_physical(span)) >= 0), default=0)
        for batch in batches:
            self._leases[broker].hold(first)
            yield batch

    # Queues

    def _view(self, queue: QueueRef) -> StoreView:
        try:
            return self._views[queue.broker]
        except KeyError:
            known = ", ".join(map(repr, self._views))
            raise NotFoundError(f"broker {queue.broker!r} has no store here; there are {known}") from None

    def _queue(self, queue: QueueRef) -> ScanQueue:
        if queue not in self._queues:
            self._load({queue})
        return self._queues[queue]

    def _load(self, queues: set[QueueRef]) -> None:
        """Find queues not met yet, those of a topic together."""
        unknown = {queue for queue in queues if queue not in self._queues}
        for broker in {queue.broker for queue in unknown}:
            view = self._view(QueueRef("", broker, 0))
            for queue in view.queues({ref.topic for ref in unknown if ref.broker == broker}):
                self._queues.setdefault(QueueRef(queue.topic, broker, queue.queue_id), queue)
        for ref in unknown:
            # Deleted since it was planned: every offset of it is gone.
            self._queues.setdefault(ref, ScanQueue(ref.topic, ref.queue_id, None, None))


def _first_physical(span: UnitSpan) -> int:
    unit = span.queue.unit_at(span.start)
    return unit.physical if unit is not None and unit.is_real else -1


def _open(path: str, geometry: IndexGeometry | None) -> StoreView:
    host = socket.gethostname()
    if not os.path.isdir(path):
        raise NotFoundError(
            f"host {host} cannot see {path}; every executor needs the store at the same path, or read over nameServer"
        )
    if not os.access(path, os.R_OK | os.X_OK):
        raise UnavailableError(f"this process on host {host} may not read {path}; check its owner and permissions")
    return StoreView(path, geometry)

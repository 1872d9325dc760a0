"""What a filter of Arrow implies about what must be read: which queues, offsets, times, tags and keys.

Arrow does not let anybody look into its expressions, but it can say of one whether it can hold where something is
known, which is how it leaves out files. So it is asked: can the filter hold in this queue, below this offset, for a
message whose key is none of these? What follows is proven, however the filter is written; the text of a filter is only
searched for values worth a question. Rows are filtered exactly once more afterwards, so too little found here costs
time and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset
from pyarrow import fs

from flaremq.message.properties import split_keys
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.options import LONG_MAX
from flaremq.pipeline.planning.pushdown import Pushed

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MAX: Final = 1 << 42  # the year 2109
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_VALUES_MAX: Final = 64  # a longer list is not worth its questions: each value is one

_field = pa.dataset.field


class Filter:
    """A filter over rows of a schema."""

    def __init__(self, condition: Any, schema: pa.Schema) -> None:
        self._condition = condition
        self._schema = schema
        self._text = str(condition)

    @property
    def columns(self) -> list[str]:
        """Those it names, and perhaps some that its values happen to name."""
        return [name for name in self._schema.names if name in self._text]

    def pushed(self, queues: Sequence[QueueRef]) -> Pushed:
        """What is left to read of these queues."""
        places = [_field("topic") == q.topic for q in queues]
        places = [
            place & (_field("brokerName") == q.broker) & (_field("queueId") == q.queue_id)
            for place, q in zip(places, queues, strict=True)
        ]
        left = [queue for queue, may in zip(queues, self._may_hold(places), strict=True) if may]
        tags, keys = self._only_texts("tags"), self._only_texts("keys")
        if (tags is not None and not tags) or (keys is not None and not keys):
            left = []
        first, end = self._range("queueOffset", LONG_MAX, lambda offset: pa.scalar(offset, pa.int64()))
        first_ms, end_ms = self._range("storeTimestamp", _MS_MAX, _time)
        return Pushed(
            topics=frozenset(queue.topic for queue in left),
            brokers=frozenset(queue.broker for queue in left),
            queue_ids=frozenset(queue.queue_id for queue in left),
            first_offset=first,
            end_offset=end,
            first_ms=first_ms or None,
            end_ms=end_ms if end_ms < _MS_MAX else None,
            tags=tags if tags is not None and all(tags) else None,
            # The column has all keys of a message in one text; the index knows each of them on its own.
            keys=None if keys is None or not all(map(split_keys, keys)) else frozenset(split_keys(k)[0] for k in keys),
        )

    def _may_hold(self, known: Sequence[Any]) -> list[bool]:
        """Whether the filter can hold for a row of which this is known, for each."""
        form, files = pa.dataset.ParquetFileFormat(), fs.LocalFileSystem()
        fragments = [
            form.make_fragment(str(at), files, partition_expression=guarantee) for at, guarantee in enumerate(known)
        ]
        dataset = pa.dataset.FileSystemDataset(fragments, self._schema, form, files)
        held = {int(fragment.path) for fragment in dataset.get_fragments(filter=self._condition)}
        return [at in held for at in range(len(known))]

    def _range(self, column: str, maximum: int, value: Callable[[int], Any]) -> tuple[int, int]:
        """The first value that the filter leaves possible, and the one behind the last."""
        if column not in self.columns:
            return 0, maximum
        first = _bisect(maximum, lambda at: self._may_hold([_field(column) < value(at)])[0])
        end = _bisect(maximum, lambda at: not self._may_hold([_field(column) >= value(at)])[0])
        return max(first - 1, 0), end

    def _only_texts(self, column: str) -> frozenset[str] | None:
        """The only values of a column that the filter leaves possible; None where there may be others."""
        if column not in self.columns:
            return None
        values = sorted({text for text in _QUOTED.findall(self._text)} - set(self._schema.names))[:_VALUES_MAX]
        if not values:
            return None
        values_field = _field(column)
        between = [(values_field > low) & (values_field < high) for low, high in pairwise(values)]
        others = [values_field < values[0], *between, values_field > values[-1], values_field.is_null()]
        if any(self._may_hold(others)):
            return None
        return _chosen(values, self._may_hold([values_field == value for value in values]))


def _chosen(values: Collection[str], may: Sequence[bool]) -> frozenset[str]:
    return frozenset(value for value, is_possible in zip(values, may, strict=True) if is_possible)


def _bisect(maximum: int, is_true: Callable[[int], bool]) -> int:
    """The first number for which it is true; it stays true from there on. ``maximum`` if there is none before."""
    low, high = 0, maximum
    while low < high:
        middle = (low + high) // 2
        if is_true(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _time(milliseconds: int) -> Any:
    return pa.scalar(_EPOCH + timedelta(milliseconds=milliseconds), pa.timestamp("us", tz="UTC"))

"""Whether an earlier attempt at a write had more partitions than this one.

Its tasks were known by partitions that do not exist now, so their rows were found by nobody and are stored twice if
they came in others. A task does not know how many there are; the driver does, when all are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from flaremq.message.write_stream import DoubtError
from flaremq.pipeline.sink.options import SinkOptions
from flaremq.pipeline.sink.task import TaskIdentity, TaskReport
from flaremq.pipeline.sink.wire import WireTarget

_LOOK_AHEAD: Final = 256  # partitions that are looked for; a shuffle has 200 where nobody says otherwise


def check_partitions(options: SinkOptions, done: Sequence[tuple[TaskIdentity, TaskReport]]) -> None:
    """DoubtError if there are rows of this write in partitions behind its last."""
    lanes = {lane for _, report in done for lane in report.lanes}
    count = 1 + max(task.partition for task, _ in done)
    beyond = [replace(done[0][0], partition=number) for number in range(count, count + _LOOK_AHEAD)]
    with WireTarget(options, None) as target:
        begun = target.find_begun([(lane, task) for lane in sorted(lanes, key=str) for task in beyond])
    if begun:
        lane, task = begun[0]
        raise DoubtError(
            f"this write has {count} partitions, and an earlier attempt at it stored rows of number {task.partition} "
            f"in topic {lane.topic!r}: the query does not compute the same rows in the same partitions each time (see "
            "spark.sql.adaptive.enabled), so rows may be stored twice by now"
        )

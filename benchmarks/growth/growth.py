"""Cost as work grows: 1, 10 and 100 times as many messages, queues, topics, consumer groups and connections.

=============  =====================================================================================================
put            one message of 1 KB: processor time of the store with its dispatch, or of the broker that is sent it
pull           32 messages: processor time of the store, or of the broker that is asked for them
open           after a kill: by the clock, of the store in a fresh process, or of the broker until it is ready
planning       ranges and pieces of a Spark scan over all topics of the store, without Spark, by the clock
memory         what the process allocated; pages of mapped files belong to the page cache
=============  =====================================================================================================

Messages, queues and topics grow in an embedded store (``store_point``), groups and connections at a broker of its own
process (``broker_point``). Everything else stays as it is meanwhile: 40,000 messages where queues and topics (of one
queue) grow, 20,000 in eight queues where groups and connections do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import child
from benchmarks.messages import QUEUES
from benchmarks.rounds import Measurement, Outcome, scratch, tell
from benchmarks.settings import Settings
from benchmarks.timing import Row

TIMES = (1, 10, 100)
_TOPICS = 10
_SPREAD = 40_000  # messages over queues or topics: enough for a full pull from each of a thousand
_GROUPS = 10
_CONNECTIONS = 10


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    """One outcome a dimension, a row a size; ``times`` in a row marks it as growth."""
    base = settings.growth_messages
    dimensions: dict[str, tuple[int, Callable[[Path, int], Row]]] = {
        "messages": (base, lambda path, count: _store(path, messages=count)),
        "queues": (QUEUES, lambda path, count: _store(path, messages=_SPREAD, queues=count)),
        "topics": (_TOPICS, lambda path, count: _store(path, messages=_SPREAD, queues=1, topics=count)),
        "groups": (_GROUPS, lambda path, count: _broker(path, messages=base, groups=count)),
        "connections": (_CONNECTIONS, lambda path, count: _broker(path, messages=base, connections=count)),
    }
    for name, (first, measure) in dimensions.items():
        outcome = Outcome(Measurement(name=name, figures=()))
        for times in TIMES:
            begin = time.monotonic()
            try:
                with scratch(folder) as path:
                    row = measure(Path(path) / "store", times * first)
                outcome.ours.append({"times": times, "count": times * first, **row})
                verdict = "done"
            except Exception as error:
                outcome.errors.append(f"growth of {name}, {times} times: {error}")
                verdict = f"failed: {error}"
            tell(f"  growth of {name}, {times} times: {verdict} in {time.monotonic() - begin:.1f} s")
        yield outcome


def _store(path: Path, *, messages: int, queues: int = QUEUES, topics: int = 1) -> Row:
    row = child.run("growth.store_point:fill", folder=str(path), messages=messages, queues=queues, topics=topics)
    row |= child.run("growth.store_point:open_killed", folder=str(path), messages=messages)
    return row | child.run("growth.store_point:plan", folder=str(path))


def _broker(path: Path, *, messages: int, groups: int = 1, connections: int = 1) -> Row:
    row = child.run(
        "growth.broker_point:measure", folder=str(path), messages=messages, groups=groups, connections=connections
    )
    return row | child.run("growth.store_point:plan", folder=str(path / "store"))

"""The parts of a run: what each is called, what it needs, how it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks import rounds
from benchmarks.clients import clients
from benchmarks.growth import growth
from benchmarks.rounds import Measurement, Outcome
from benchmarks.settings import Settings
from benchmarks.spark import spark
from benchmarks.store import embedded, put, query, recover, scan, startup
from benchmarks.wire import wire

Plan = Callable[[Settings], list[Measurement]]


@dataclass(frozen=True, slots=True)
class Context:
    """How this run is done."""

    settings: Settings
    versions: tuple[str, ...]  # of RocketMQ's store that are measured
    folder: str
    with_peers: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    title: str
    run: Callable[[Context], Iterator[Outcome]]
    why_not: Callable[[], str | None] = lambda: None
    needs_peers: bool = False

    def reason_against(self, context: Context) -> str | None:
        """Why it cannot be measured here, or None."""
        if self.needs_peers and not context.with_peers:
            return "there is nothing to measure without peers"
        return self.why_not()


def _store(plan: Plan) -> Callable[[Context], Iterator[Outcome]]:
    return lambda context: rounds.run_all(plan(context.settings), context.versions, context.folder)


PARTS = {
    part.name: part
    for part in (
        Part("put", "Putting into an embedded store", _store(put.plan)),
        Part("scan", "Reading an embedded store", _store(scan.plan)),
        Part("query", "Finding by key", _store(query.plan)),
        Part("recover", "Opening a store", _store(recover.plan)),
        Part("embedded", "Beside what Python programs embed", _store(embedded.plan)),
        Part("startup", "Having the store at hand", _store(startup.plan)),
        Part("wire", "Over the wire", lambda c: wire.run(c.settings, c.folder), wire.why_not, needs_peers=True),
        Part("clients", "Python clients", lambda c: clients.run(c.settings, c.folder), clients.why_not, True),
        Part("spark", "Spark", lambda c: spark.run(c.settings, c.folder), spark.why_not, needs_peers=True),
        Part("growth", "Cost as work grows", lambda c: growth.run(c.settings, c.folder)),
    )
}
GROUPS = {"store": ("put", "scan", "query", "recover", "embedded", "startup")}


def named(text: str) -> list[str]:
    """``put,wire`` or ``store,growth`` as names of parts, in their own order; ValueError for what is none."""
    wanted: set[str] = set()
    for name in text.split(","):
        if name not in PARTS and name not in GROUPS:
            raise ValueError(f"{name!r} is not one of {', '.join((*GROUPS, *PARTS))}")
        wanted.update(GROUPS.get(name, (name,)))
    return [name for name in PARTS if name in wanted]

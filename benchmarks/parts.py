"""The parts of a run: what each is called, what it needs, how it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks import rounds
from benchmarks.access import access
from benchmarks.clients import clients
from benchmarks.dashboard import dashboard
from benchmarks.growth import growth
from benchmarks.grpc import grpc
from benchmarks.lakehouse import lakehouse
from benchmarks.metrics import metrics
from benchmarks.replication import replication
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
    about: str  # for the page: what is measured how
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


_JAVA = "Theirs is RocketMQ's own message store in its JVM, 4.9.7 and 5.5.0, the better of the two."
_ALL = (
    Part(
        "put",
        "Putting into an embedded store",
        f"One thread unless said, 8 queues, a key of 32 characters each, messages made within. {_JAVA}",
        _store(put.plan),
    ),
    Part("scan", "Reading an embedded store", f"A queue of 1 KB messages, warm page cache. {_JAVA}", _store(scan.plan)),
    Part("query", "Finding by key", f"Random keys among all that exist. {_JAVA}", _store(query.plan)),
    Part(
        "recover",
        "Opening a store",
        f"1 KB messages, until everything can be read; fresh process, warm page cache. {_JAVA}",
        _store(recover.plan),
    ),
    Part(
        "embedded",
        "Beside what Python programs embed",
        "1 KB one by one. Durable: on disk when a put returns; relaxed: a power cut may take the last moments.",
        _store(embedded.plan),
    ),
    Part("startup", "Having the store at hand", "Fresh processes.", _store(startup.plan)),
    Part(
        "wire",
        "Over the wire",
        "Broker and client on one machine; both brokers are driven by RocketMQ's Java client. ASYNC is RocketMQ's "
        "default, SYNC (on disk when acknowledged) ours. Processor time and memory are those of the servers.",
        lambda context: wire.run(context.settings, context.folder),
        wire.why_not,
        needs_peers=True,
    ),
    Part(
        "grpc",
        "Clients of RocketMQ 5",
        "Our broker's port of gRPC beside RocketMQ's proxy 5.5.0 in local mode, broker and proxy in one process; both "
        "driven by RocketMQ's Java client 5.2.0 in one JVM, plain text, ASYNC flush, on the same machine.",
        lambda context: grpc.run(context.settings, context.folder),
        grpc.why_not,
        needs_peers=True,
    ),
    Part(
        "clients",
        "Python clients",
        "1 KB, 8 queues, acknowledged from memory on all sides (ASYNC_FLUSH, acks=1); each client against its own "
        "broker on the same machine. confluent-kafka is a C library below Python calls.",
        lambda context: clients.run(context.settings, context.folder),
        clients.why_not,
        needs_peers=True,
    ),
    Part(
        "spark",
        "Spark",
        "1 KB rows in 8 queues, local[2]; ours reads store files unless said, Kafka's connector its broker on the same "
        "machine. Both sessions are set up as `spark_session` does it for users.",
        lambda context: spark.run(context.settings, context.folder),
        spark.why_not,
        needs_peers=True,
    ),
    Part(
        "lakehouse",
        "Tables and columns of bodies",
        "JSON bodies of 1 KB in 8 queues, local[2]; Kafka's connector reads its broker on the same machine and appends "
        "Parquet. A commit is one of `table --follow` with 64 new messages, without Spark, from one to the next.",
        lambda context: lakehouse.run(context.settings, context.folder),
        lakehouse.why_not,
        needs_peers=True,
    ),
    Part(
        "replication",
        "Replication",
        "A master and a slave on one machine, both of RocketMQ 5.5.0 or both ours, driven by RocketMQ's Java client; "
        "the flush type is the same on both sides. Failover: two brokers, a controller of their kind, default times.",
        lambda context: replication.run(context.settings, context.folder),
        replication.why_not,
        needs_peers=True,
    ),
    Part(
        "access",
        "Access control",
        "Signed sends of RocketMQ's Java client, ACL 1.0 on both sides, all on one machine; ASYNC flush.",
        lambda context: access.run(context.settings, context.folder),
        access.why_not,
        needs_peers=True,
    ),
    Part(
        "metrics",
        "Metrics",
        "Sends with 64 under way to a broker that is scraped each second, beside one without the port; and one scrape "
        "of a broker with a million pairs of group and topic, of which 50,000 are told.",
        lambda context: metrics.run(context.settings, context.folder),
    ),
    Part(
        "dashboard",
        "Dashboard",
        "Name server, broker and dashboard as processes of their own, 1,000 topics, 50 messages a second all the "
        "while; 200 streams of pages are read as browsers read them. First paint: Chromium with nothing cached.",
        lambda context: dashboard.run(context.settings, context.folder),
        dashboard.why_not,
    ),
    Part(
        "growth",
        "Cost as work grows",
        "put: processor time of one 1 KB message, dispatch included; pull: of 32 messages. Open after a kill and the "
        "planning of a scan over all topics: by the clock. Memory: allocated by the process. Messages, queues and "
        "topics grow in an embedded store; groups and connections at a broker, whose processor time it is then.",
        lambda context: growth.run(context.settings, context.folder),
    ),
)
PARTS = {part.name: part for part in _ALL}
GROUPS = {"store": ("put", "scan", "query", "recover", "embedded", "startup")}


def named(text: str) -> list[str]:
    """``put,wire`` or ``store,growth`` as names of parts, in their own order; ValueError for what is none."""
    wanted: set[str] = set()
    for name in text.split(","):
        if name not in PARTS and name not in GROUPS:
            raise ValueError(f"{name!r} is not one of {', '.join((*GROUPS, *PARTS))}")
        wanted.update(GROUPS.get(name, (name,)))
    return [name for name in PARTS if name in wanted]

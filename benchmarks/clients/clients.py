"""Our Python client, aiokafka and confluent-kafka in one run: 1 KB, 8 queues, each against its own broker on loopback.

Acknowledged means stored in memory on all sides (ASYNC_FLUSH, acks=1). Every run is a process of its own. aiokafka is
Python with some C, as ours; confluent-kafka is a C library below Python calls.

=================  ==============================  ==========================  ====================================
what               ours                            aiokafka                    confluent-kafka
=================  ==============================  ==========================  ====================================
many in flight     ``submit``, one by one          ``send``, one by one        ``produce``, one by one
batches            ``send_batch`` of 128           nothing                     the same: it makes its own batches
window 1           ``await send``                  ``await send_and_wait``     ``produce`` and ``flush``
consume            ``batches(1000)`` of a group    ``getmany`` of a group      ``consume(1000)`` of a group
=================  ==============================  ==========================  ====================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import child
from benchmarks.clients import environment
from benchmarks.kafka import jars
from benchmarks.kafka.server import KafkaServer
from benchmarks.messages import QUEUES
from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.timing import Row
from tests.interop.wire import probe, servers

AIOKAFKA = f"aiokafka-{environment.AIOKAFKA}"
CONFLUENT = f"confluent-{environment.CONFLUENT}"


@dataclass(frozen=True, slots=True)
class _Task:
    """A function of each side by name, and what is wanted of it beside each peer."""

    label: str
    functions: dict[str, str]
    wanted: dict[str, float]
    has_percentiles: bool = False

    @property
    def figures(self) -> tuple[Figure, ...]:
        figures = [
            Figure(
                label=f"{self.label}, beside {peer.partition('-')[0]}",
                unit="msg/s",
                ours="msg_s",
                theirs="msg_s",
                peer=peer,
                wanted_ratio=self.wanted.get(peer),
            )
            for peer in self.functions
            if peer != OURS
        ]
        figures.append(
            Figure(
                label="  processor time of the client a message",
                unit="us",
                ours="client_us",
                theirs="client_us",
                less_is_better=True,
            )
        )
        if self.has_percentiles:
            figures += [
                Figure(label=f"  {name}", unit="us", ours=f"{name}_us", theirs=f"{name}_us", less_is_better=True)
                for name in ("p50", "p99")
            ]
        return tuple(figures)


TASKS = (
    _Task(
        "many in flight, one by one",
        {OURS: "many", AIOKAFKA: "aiokafka_many", CONFLUENT: "confluent_many"},
        {AIOKAFKA: 1.5, CONFLUENT: 0.6},
    ),
    _Task("batches", {OURS: "batches", CONFLUENT: "confluent_many"}, {CONFLUENT: 1.0}),
    _Task(
        "window 1",
        {OURS: "one", AIOKAFKA: "aiokafka_one", CONFLUENT: "confluent_one"},
        {CONFLUENT: 3.0},
        has_percentiles=True,
    ),
    _Task(
        "consume a backlog",
        {OURS: "consume", AIOKAFKA: "aiokafka_consume", CONFLUENT: "confluent_consume"},
        {CONFLUENT: 1.0},
    ),
)


def why_not() -> str | None:
    """Why nothing can be compared here, or None."""
    return jars.why_not() or environment.why_not()


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    with scratch(folder) as path, ExitStack() as stack:
        lab = _Lab(settings, Path(path), stack)
        for task in TASKS:
            yield turns(
                task.label,
                task.figures,
                settings.client_rounds,
                tuple(task.functions),
                lambda side, task=task: lab.measure(task, side),  # type: ignore[misc]
                warm_rounds=1,
            )


class _Lab:
    """Both brokers, with a backlog once it is needed."""

    def __init__(self, settings: Settings, folder: Path, stack: ExitStack) -> None:
        self._settings = settings
        self._kafka = stack.enter_context(KafkaServer(folder / "kafka"))
        options = {"flushDiskType": "ASYNC_FLUSH"}
        self._ours = stack.enter_context(servers.started("flaremq", folder / "ours", options=options))
        self._topics = 0
        self._filled: set[str] = set()

    def measure(self, task: _Task, side: str) -> Row:
        arguments: dict[str, object] = {"servers": self._ours.pids if side == OURS else [self._kafka.pid]}
        if "consume" in task.functions[side]:
            arguments |= {"topic": "backlog", "messages": self._settings.client_backlog}
            self._fill(is_ours=side == OURS)
        else:
            self._topics += 1
            arguments |= {"topic": f"bench-{self._topics}", "seconds": self._settings.client_seconds}
            self._make_topic(str(arguments["topic"]), is_ours=side == OURS)
        return self._call(task.functions[side], is_ours=side == OURS, **arguments)

    def _fill(self, *, is_ours: bool) -> None:
        side = OURS if is_ours else "kafka"
        if side not in self._filled:
            self._filled.add(side)
            self._make_topic("backlog", is_ours=is_ours)
            function = "fill" if is_ours else "confluent_fill"
            self._call(function, is_ours=is_ours, topic="backlog", messages=self._settings.client_backlog)

    def _make_topic(self, topic: str, *, is_ours: bool) -> None:
        if is_ours:
            probe.create_topic(self._ours.broker, topic, queues=QUEUES)
            probe.wait(f"route of {topic}", lambda: probe.has_route(self._ours.name_server, topic), seconds=30)
        else:
            self._kafka.load("topic", topic=topic, partitions=QUEUES)

    def _call(self, function: str, *, is_ours: bool, **arguments: object) -> Row:
        if is_ours:
            return child.run(f"clients.flaremq_client:{function}", address=self._ours.name_server, **arguments)
        python = environment.python()
        return child.run(f"clients.kafka_clients:{function}", python=python, address=self._kafka.address, **arguments)

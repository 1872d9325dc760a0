"""The store against a model a page long: lists in a dictionary that never forget what was acknowledged.

SYNC_FLUSH on the simulated disk, so the model stays exact through power cuts: what was acknowledged is
there, and an unanswered message is there whole or not at all. Every rule compares the full answer, not only
the happy part. FLAREMQ_MODEL_EXAMPLES sets the number of programs; the default run is the same every time,
the soak run is not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import GetMessageStatus, PutMessageStatus
from tests.support.crash_choices import KINDS_WITHOUT_GARBAGE
from tests.support.crash_fs import CrashFS, Fault, SimulatedCrash

ROOT = "/store"
LOG_FILE = 16 * 1024
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TOPICS = st.sampled_from(("orders", "bills"))
QUEUE_IDS = st.integers(0, 1)
TAGS = st.sampled_from((None, "A", "B"))
KEYS = st.lists(st.sampled_from(("k1", "k2", "k3", "x" * 40)), max_size=3, unique=True)
BODIES = st.one_of(st.binary(max_size=40), st.binary(min_size=900, max_size=1100), st.just(b"L" * 9000))


@dataclass(slots=True)
class Stored:
    """What the model knows of one message."""

    topic: str
    queue_id: int
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    physical_offset: int
    store_timestamp: int


@dataclass(slots=True)
class Queue:
    messages: list[Stored] = field(default_factory=list)
    first: int = 0  # queue offset of the first one still retained

    @property
    def end(self) -> int:
        return len(self.messages)


class StoreMachine(RuleBasedStateMachine):
    """Random programs of puts, reads, restarts and crashes."""

    @initialize(
        sealed=st.booleans(),
        queue_units=st.sampled_from((3, 10)),
        index_entries=st.sampled_from((4, 50)),
    )
    def start(self, sealed: bool, queue_units: int, index_entries: int) -> None:
        self.options = StoreOptions(
            mapped_file_size_commit_log=LOG_FILE,
            mapped_file_size_consume_queue=20 * queue_units,
            max_hash_slot_num=5,
            max_index_num=index_entries,
            flush_disk_type="SYNC_FLUSH",
            enabled_append_prop_crc=sealed,
        )
        self.sealed = sealed
        self.clock = ManualClock()
        self.fs = CrashFS(now_ms=self.clock.now_ms)
        self.queues: dict[tuple[str, int], Queue] = {}
        self.log_first = 0
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open(ROOT, self.options, filesystem=self.fs, clock=self.clock, threads=False)

    def queue(self, topic: str, queue_id: int) -> Queue:
        return self.queues.setdefault((topic, queue_id), Queue())

    def learn(self, stored: Stored) -> None:
        self.queue(stored.topic, stored.queue_id).messages.append(stored)

    # -- writing ---------------------------------------------------------------------------------------------

    @rule(
        topic=TOPICS,
        queue_id=QUEUE_IDS,
        body=BODIES,
        tags=TAGS,
        keys=KEYS,
        delay=st.sampled_from((0, 0, 0, 1, 18)),
    )
    def put(self, topic: str, queue_id: int, body: bytes, tags: str | None, keys: list[str], delay: int) -> None:
        self.clock.advance(3)
        message = Message(topic, body, tags=tags, keys=keys, delay_level=delay)
        result = self.store.put(message, queue_id)
        assert result.status is PutMessageStatus.PUT_OK
        if delay:
            topic, queue_id = SCHEDULE_TOPIC, delay - 1
        assert result.queue_offset == self.queue(topic, queue_id).end
        assert result.store_timestamp == self.clock.now_ms()
        self.learn(Stored(topic, queue_id, body, tags, tuple(keys), result.physical_offset, result.store_timestamp))

    @rule(
        topic=TOPICS,
        queue_id=QUEUE_IDS,
        bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=6),
        keys=KEYS,
    )
    def put_batch(self, topic: str, queue_id: int, bodies: list[bytes], keys: list[str]) -> None:
        self.clock.advance(3)
        result = self.store.put_batch([Message(topic, body, keys=keys) for body in bodies], queue_id)
        assert result.status is PutMessageStatus.PUT_OK
        assert result.queue_offset == self.queue(topic, queue_id).end
        offset = result.physical_offset
        for body in bodies:
            found = self.store.read(offset)
            assert found is not None and found.body == body
            self.learn(Stored(topic, queue_id, body, None, tuple(keys), offset, result.store_timestamp))
            offset += found.size

    @rule(topic=TOPICS, body=st.just(b"H" * LOG_FILE))
    def put_what_can_never_fit(self, topic: str, body: bytes) -> None:
        end = self.store.max_physical_offset
        assert self.store.put(Message(topic, body)).status is PutMessageStatus.MESSAGE_ILLEGAL
        assert self.store.max_physical_offset == end

    # -- reading ---------------------------------------------------------------------------------------------

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, offset=st.integers(-1, 40), count=st.integers(1, 40))
    def get(self, topic: str, queue_id: int, offset: int, count: int) -> None:
        queue = self.queues.get((topic, queue_id), Queue())
        result = self.store.get(topic, queue_id, offset, count)
        if queue.end == 0:
            assert result.status in (
                GetMessageStatus.NO_MESSAGE_IN_QUEUE,
                GetMessageStatus.NO_MATCHED_LOGIC_QUEUE,
            )
            assert (result.messages, result.next_offset) == ([], 0)
            return
        assert (result.min_offset, result.max_offset) == (queue.first, queue.end)
        if offset < queue.first:
            assert (result.status, result.next_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, queue.first)
        elif offset == queue.end:
            assert (result.status, result.next_offset) == (GetMessageStatus.OFFSET_OVERFLOW_ONE, offset)
        elif offset > queue.end:
            assert (result.status, result.next_offset) == (GetMessageStatus.OFFSET_OVERFLOW_BADLY, queue.end)
        else:
            assert result.status is GetMessageStatus.FOUND
            assert 1 <= len(result.messages) <= count
            wanted = queue.messages[offset : offset + len(result.messages)]
            assert [m.body for m in result.messages] == [w.body for w in wanted]
            assert [m.physical_offset for m in result.messages] == [w.physical_offset for w in wanted]
            assert [m.queue_offset for m in result.messages] == list(range(offset, offset + len(wanted)))
            assert result.next_offset == offset + len(wanted)

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, tag=st.sampled_from(("A", "B", "C")))
    def get_by_tag(self, topic: str, queue_id: int, tag: str) -> None:
        queue = self.queues.get((topic, queue_id), Queue())
        found: list[int] = []
        offset = queue.first
        while offset < queue.end:
            result = self.store.get(topic, queue_id, offset, 32, tags=tag)
            assert result.next_offset > offset
            found += [m.queue_offset for m in result.messages]
            offset = result.next_offset
        wanted = [n for n, m in enumerate(queue.messages) if n >= queue.first and m.tags == tag]
        assert found == wanted

    @rule(
        topic=st.sampled_from(("orders", "bills", SCHEDULE_TOPIC)),
        key=st.sampled_from(("k1", "k2", "k3", "none")),
    )
    def query(self, topic: str, key: str) -> None:
        wanted = sorted(
            m.physical_offset
            for (name, _), queue in self.queues.items()
            for m in queue.messages[queue.first :]
            if name == topic and key in m.keys
        )
        found = [m.physical_offset for m in self.store.query(topic, key, 64)]
        assert len(found) == len(set(found))
        if len(wanted) <= 64:
            assert sorted(found) == wanted
        else:
            assert set(found) <= set(wanted)

    @rule(topic=TOPICS, queue_id=QUEUE_IDS, choice=st.integers(0, 30), shift=st.integers(-2, 2))
    def offset_by_time(self, topic: str, queue_id: int, choice: int, shift: int) -> None:
        queue = self.queues.get((topic, queue_id), Queue())
        retained = queue.messages[queue.first :]
        if not retained:
            return
        moment = retained[choice % len(retained)].store_timestamp + shift
        later = [n for n, m in enumerate(retained, queue.first) if m.store_timestamp >= moment]
        assert self.store.offset_by_time(topic, queue_id, moment) == (later[0] if later else queue.end)

    # -- living and dying ------------------------------------------------------------------------------------

    @rule()
    def tick(self) -> None:
        self.clock.advance(1000)
        self.store.tick()

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule()
    def close_and_open(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def kill_the_process(self) -> None:
        self.fs = self.fs.kill()
        self.open()

    @rule(seed=st.integers(0, 2**32))
    def cut_the_power(self, seed: int) -> None:
        self.fs = self.fs.crash(seed)
        self.open()

    @precondition(lambda self: self.sealed)  # without the record checksum a torn record may pass for a whole one
    @rule(call=st.integers(1, 12), seed=st.integers(0, 2**32), topic=TOPICS, queue_id=QUEUE_IDS, body=BODIES)
    def cut_the_power_during_a_put(self, call: int, seed: int, topic: str, queue_id: int, body: bytes) -> None:
        """The outcome is open: the message is there whole, or not at all."""
        self.fs.faults = [Fault(kind="crash", at=self.fs.calls + call)]
        stored = self.queue(topic, queue_id).end
        try:
            self.put(topic, queue_id, body, None, [], 0)
        except SimulatedCrash:
            # Garbage could hit the record and its checksum at once, which nothing could tell.
            self.fs = self.fs.crash(seed, KINDS_WITHOUT_GARBAGE)
            self.open()
            found = self.store.get(topic, queue_id, stored, 1).messages
            if found:
                assert found[0].body == body
                self.learn(Stored(topic, queue_id, body, None, (), found[0].physical_offset, found[0].store_timestamp))
        self.fs.faults = []

    @precondition(lambda self: self.store.max_physical_offset > LOG_FILE)
    @rule()
    def let_everything_expire(self) -> None:
        self.clock.advance((self.options.file_reserved_time + 1) * 3_600_000)
        self.store.delete_expired()
        self.log_first = self.store.min_physical_offset
        assert self.log_first % LOG_FILE == 0
        assert self.log_first <= self.store.max_physical_offset
        for queue in self.queues.values():
            while queue.first < queue.end and queue.messages[queue.first].physical_offset < self.log_first:
                queue.first += 1

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        for (topic, queue_id), queue in self.queues.items():
            assert self.store.max_offset(topic, queue_id) == queue.end
            if queue.end:
                assert self.store.min_offset(topic, queue_id) == queue.first
        assert not self.fs.violations

    def teardown(self) -> None:
        if hasattr(self, "store"):
            for (topic, queue_id), queue in self.queues.items():
                for number in range(queue.first, queue.end):
                    found = self.store.read(queue.messages[number].physical_offset)
                    assert found is not None and found.body == queue.messages[number].body
                    assert (found.topic, found.queue_id, found.queue_offset) == (topic, queue_id, number)
            self.store.close()


_EXAMPLES = int(os.environ.get("FLAREMQ_MODEL_EXAMPLES", "300"))
_SOAK_EXAMPLES = int(os.environ.get("FLAREMQ_MODEL_EXAMPLES", "5000"))
_COMMON = settings(
    deadline=None,
    stateful_step_count=50,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
def test_the_store_answers_as_the_model_does() -> None:
    run_state_machine_as_test(StoreMachine, settings=settings(_COMMON, max_examples=_EXAMPLES, derandomize=True))


@pytest.mark.soak
def test_the_store_answers_as_the_model_does_for_many_programs() -> None:
    run_state_machine_as_test(StoreMachine, settings=settings(_COMMON, max_examples=_SOAK_EXAMPLES))

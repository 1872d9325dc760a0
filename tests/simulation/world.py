"""One store on a simulated disk, driven by named operations, with the history of what it was asked and
answered.

Everything is decided by the seed: the store runs without threads, time moves only when told, the disk is in
memory. The suites differ only in which operations they run and when they pull the plug.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from flaremq.clock import ManualClock
from flaremq.errors import FlareMQError, StoreIOError, UnavailableError
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus
from tests.support import oracle
from tests.support.crash_choices import ALL_KINDS, KINDS_WITHOUT_GARBAGE, Chooser, PageKind, SubsetChooser
from tests.support.crash_fs import CrashFS
from tests.support.oracle import ROOT, Entry, History, OracleViolation, Rules
from tests.support.raw_store import SCHEDULE_TOPIC, numbered, parse_record
from tests.support.readable import readable_dispatch

LOG_FILE = 16 * 1024
QUEUE_FILE = 20 * 10
TOPICS = ("orders", "bills")
LARGE_BODY = 9 * 1024  # two do not fit in one log file
HOUR_MS = 3_600_000

# Refused before anything was written; any other failure leaves the outcome open.
REFUSALS = {
    PutMessageStatus.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.CREATE_MAPPED_FILE_FAILED,
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
    PutMessageStatus.OS_PAGE_CACHE_BUSY,
}


def small_options(**changes: object) -> StoreOptions:
    """A geometry in which a handful of messages rolls files of every kind."""
    settings: dict[str, object] = {
        "mapped_file_size_commit_log": LOG_FILE,
        "mapped_file_size_consume_queue": QUEUE_FILE,
        "max_hash_slot_num": 8,
        "max_index_num": 20,
        "flush_disk_type": "SYNC_FLUSH",
        "enabled_append_prop_crc": True,
        "transient_store_pool_size": 2,
    }
    settings.update(changes)
    return StoreOptions(**settings)  # type: ignore[arg-type]


@dataclass(slots=True)
class Answer:
    """What an operation said, for suites that look at errors."""

    operation: str
    status: PutMessageStatus | None = None
    error: FlareMQError | None = None


class World:
    """A store, its disk, its clock and its history."""

    def __init__(self, seed: int | str, options: StoreOptions, *, filesystem: CrashFS | None = None) -> None:
        self.chance = random.Random(f"world {seed}")
        self.options = options
        self.clock = ManualClock()
        self.fs = filesystem or CrashFS()
        self.fs.now_ms = self.clock.now_ms
        self.history = History()
        self.store: MessageStore | None = None
        self.answers: list[Answer] = []
        self.check_visibility = True
        self.readable = False  # recovery goes record by record, by the readable rules
        self.state_seen: set[tuple[str, bytes]] = set()  # contents the small state files ever had
        self.was_sealed = options.enabled_append_prop_crc  # in the life that wrote what is not durable yet
        self.index_was_off = False
        self.clock_jumped = False  # the wall clock said nothing reliable since
        self._unseen: list[Entry] = []  # acknowledged, bytes not yet found in the file

    # -- lives -----------------------------------------------------------------------------------------------

    def fork(self, filesystem: CrashFS) -> World:
        """The same history on another disk: what a crash image is checked with."""
        twin = World(0, self.options, filesystem=filesystem)
        twin.clock.jump(self.clock.now_ms() - twin.clock.now_ms())
        twin.chance.setstate(self.chance.getstate())
        twin.history = self.history.snapshot()
        twin.readable, twin.index_was_off = self.readable, self.index_was_off
        self.note_state_files()
        twin.state_seen = self.state_seen
        twin.was_sealed, twin.clock_jumped = self.was_sealed, self.clock_jumped
        return twin

    @property
    def log_file(self) -> int:
        return self.options.mapped_file_size_commit_log

    @property
    def is_sync(self) -> bool:
        return self.options.flush_disk_type == "SYNC_FLUSH"

    @property
    def kinds(self) -> tuple[PageKind, ...]:
        return ALL_KINDS if self.was_sealed else KINDS_WITHOUT_GARBAGE

    @property
    def rules(self) -> Rules:
        return Rules(index=self.options.message_index_enable, sealed=self.was_sealed)

    def open(self) -> MessageStore:
        self.fs.failed_syncs.clear()
        with readable_dispatch(self.readable):
            self.store = MessageStore.open(ROOT, self.options, filesystem=self.fs, clock=self.clock, threads=False)
        if not self.options.message_index_enable:
            self.index_was_off = True
            for entry in self.history.entries:
                entry.indexed = False
        return self.store

    def open_and_check(self) -> None:
        """A new life: everything promised is there; go on from what is there."""
        store = self.open()
        store.wait_for_dispatch(0)
        log = oracle.check(store, self.fs.files(), self.history, self.rules)
        self.history.rebase(log)
        self._unseen.clear()
        self.was_sealed = self.options.enabled_append_prop_crc
        self.history.promise(min(store.flushed_offset, log.end))
        if self.fs.violations:
            raise OracleViolation(f"disk: {self.fs.violations[0]}")

    def check_open_store(self) -> None:
        """The same promises on the store as it runs."""
        assert self.store is not None
        self.store.wait_for_dispatch(0)
        oracle.check(self.store, self.fs.files(), self.history, self.rules)

    def check_open_store_reads(self) -> None:
        """Every durable message dispatched so far can be read, whatever else is wrong."""
        store = self._running()
        for entry in self.history.entries:
            if entry.state == "acked" and entry.end <= min(store.flushed_offset, store.dispatched_offset):
                found = store.get(entry.topic, entry.queue_id, entry.queue_offset, 1)
                if [bytes(message.body) for message in found.messages] != [entry.body]:
                    raise OracleViolation(f"I18: message {entry.number} cannot be read now: {found.status}")

    def note_state_files(self) -> None:
        """Take down what the small state files were replaced with so far."""
        self.state_seen |= {(path.removeprefix(f"{ROOT}/"), content) for path, content in self.fs.renamed}

    def crash(self, seed: int | str | Chooser) -> World:
        """The world after a power cut.

        Where the format has no means to tell the damage, everything unsynced is lost instead: an unanswered record
        altered outside its body and without its whole-record checksum, because the option is off, or because the
        checksum itself was hit and nothing remembers that there was one.
        """
        after = self.fork(self.fs.crash(seed, self.kinds))
        if oracle.has_unseen_damage(after.fs.files(), after.history, sealed=self.was_sealed):
            after = self.fork(self.fs.crash(SubsetChooser(0)))
        return after

    def check_image(self) -> None:
        """What the bytes on a crashed disk must not say; before anybody opens it."""
        files = self.fs.files()
        oracle.check_state_files(files, self.state_seen)
        if not self.clock_jumped:
            oracle.check_image(files, self.history)

    def check_recovers_again(self) -> None:
        """I11: a second recovery of the same disk changes no byte of log, queues or index."""
        # A life without the index leaves its file as it was, torn or not; putting it right may take a second look.
        index = not self.index_was_off
        first = oracle.derived_bytes(self.fs.files(), index=index)
        again = self.fork(self.fs.kill())
        again.open()
        second = oracle.derived_bytes(again.fs.files(), index=index)
        for path in sorted(first.keys() | second.keys()):
            if first.get(path) != second.get(path):
                raise OracleViolation(f"I11: a second recovery changed {path}")

    # -- operations ------------------------------------------------------------------------------------------

    def run(self, name: str) -> Answer:
        """Run one operation by name; errors of the declared kinds are answers, anything else escapes."""
        self.clock.advance(7)
        answer = Answer(name)
        self.answers.append(answer)
        try:
            OPERATIONS[name](self, answer)
            if self.store is not None:
                self._after()
        except (StoreIOError, UnavailableError) as error:
            answer.error = error
        return answer

    def _after(self) -> None:
        assert self.store is not None
        self._find_unseen()
        self.note_state_files()
        self.history.promise(min(self.store.flushed_offset, self.store.max_physical_offset))
        if self.check_visibility and self.is_sync:
            oracle.check_visible(self.store)

    def put(self, answer: Answer, size: int, *, delay_level: int = 0, wait: bool = True) -> None:
        assert self.store is not None
        entry, message = self._message(size, delay_level)
        message.wait_store_msg_ok = wait
        try:
            result = self.store.put(message, self._queue_of(entry, delay_level))
        except FlareMQError:
            entry.state = "unknown"
            raise
        answer.status = result.status
        self._answered([entry], result.status, result.physical_offset, result.queue_offset, wait)

    def put_batch(self, answer: Answer, count: int) -> None:
        assert self.store is not None
        topic, queue_id = self.chance.choice(TOPICS), self.chance.randrange(2)
        pairs = [self._message(self.chance.randrange(20, 200), 0, topic, queue_id) for _ in range(count)]
        entries = [entry for entry, _ in pairs]
        try:
            result = self.store.put_batch([message for _, message in pairs], queue_id)
        except FlareMQError:
            for entry in entries:
                entry.state = "unknown"
            raise
        answer.status = result.status
        self._answered(entries, result.status, result.physical_offset, result.queue_offset, True)

    def _queue_of(self, entry: Entry, delay_level: int) -> int:
        return 1 if delay_level else entry.queue_id

    def _message(
        self, size: int, delay_level: int, topic: str | None = None, queue_id: int | None = None
    ) -> tuple[Entry, Message]:
        topic = topic or self.chance.choice(TOPICS)
        queue_id = self.chance.randrange(2) if queue_id is None else queue_id
        number = self.history.counter
        body = f"<{number}>".encode() + self.chance.randbytes(size)
        keys = (f"k{number}",) if number % 3 else (f"k{number}", "shared")
        tags = self.chance.choice((None, "TagA", "TagB"))
        message = Message(topic, body, keys=list(keys), tags=tags, delay_level=delay_level)
        if delay_level:
            topic, queue_id = SCHEDULE_TOPIC, delay_level - 1
        entry = self.history.invoke(topic, queue_id, body, keys, tags)
        entry.indexed = self.options.message_index_enable
        entry.asked_ms = self.clock.now_ms()
        return entry, message

    def _answered(
        self,
        entries: list[Entry],
        status: PutMessageStatus,
        physical_offset: int,
        queue_offset: int,
        wait: bool,
    ) -> None:
        if status in REFUSALS:
            for entry in entries:
                self.history.refuse(entry)
            return
        if status is not PutMessageStatus.PUT_OK:
            for entry in entries:
                entry.state = "unknown"
            return
        failed = [path for path in self.fs.failed_syncs if "/commitlog/" in path]
        if failed:
            raise OracleViolation(f"I17: a put was acknowledged after the sync of {failed[0]} had failed")
        for entry in entries:
            entry.state = "unknown"  # until its bytes are seen in the log's file
            entry.physical_offset = entry.queue_offset = -1
        entries[0].physical_offset, entries[0].queue_offset = physical_offset, queue_offset
        self._unseen += entries
        self._find_unseen()
        if self.is_sync:
            if self._unseen:
                raise OracleViolation(f"I1: acknowledged at {physical_offset}, but no record is there")
            if wait:
                self.history.promise(entries[-1].end)

    def _find_unseen(self) -> None:
        """Take down the bytes of acknowledged records; with the transient pool they reach the file later."""
        if not self._unseen:
            return
        segments = numbered(self.fs.files(), f"{ROOT}/commitlog")
        place = queue_offset = -1
        while self._unseen:
            entry = self._unseen[0]
            if entry.physical_offset >= 0:
                place, queue_offset = entry.physical_offset, entry.queue_offset
            base = place - place % self.log_file
            record = parse_record(segments.get(base, b""), place - base, place)
            if record is None:
                entry.physical_offset, entry.queue_offset = place, queue_offset
                return
            if record.body != entry.body:
                raise OracleViolation(f"I1: the record at {place} is not message {entry.number}")
            if queue_offset < self.history.next_queue_offset.get((entry.topic, entry.queue_id), 0):
                raise OracleViolation(f"I16: queue offset {queue_offset} of {entry.topic} is given out again")
            entry.state = "acked"
            entry.physical_offset, entry.queue_offset = place, queue_offset
            entry.size, entry.raw = record.size, record.raw
            place, queue_offset = record.end, queue_offset + 1
            del self._unseen[0]

    def expire(self, *, hours: int) -> None:
        """Let time pass, then clean: only whole files of expired messages may go, never the last."""
        self.clock.advance(hours * HOUR_MS)
        self._clean(lambda: self._running().delete_expired())

    def tick(self) -> None:
        self._clean(lambda: self._running().tick())

    def _clean(self, work: Callable[[], object]) -> None:
        before = self._running().min_physical_offset
        allowed = max(self._expired_below(), before)
        self.history.deleted_below = max(self.history.deleted_below, allowed)
        work()
        after = self._running().min_physical_offset
        if after > allowed:
            raise OracleViolation(f"I16: the log now starts at {after}, allowed was {allowed}")
        self.history.deleted_below = after

    def _expired_below(self) -> int:
        """The start of the first file that holds a message still to be kept, or of the last file."""
        limit = self.clock.now_ms() - self.options.file_reserved_time * HOUR_MS
        bound = self._running().max_physical_offset
        if self.clock_jumped:  # then store times say nothing about age
            return bound // self.log_file * self.log_file
        place = 0
        for entry in self.history.entries:
            place = max(place, entry.end)
            if entry.asked_ms > limit:
                return min(bound, place) // self.log_file * self.log_file
        return bound // self.log_file * self.log_file

    def _running(self) -> MessageStore:
        assert self.store is not None
        return self.store

    def jump(self, milliseconds: int | None = None) -> None:
        """Somebody sets the clock, by seconds or by years."""
        if milliseconds is None:
            distance = self.chance.choice((1_000, 5_000_000, 10 * 365 * 24 * HOUR_MS))
            milliseconds = self.chance.choice((-1, 1)) * distance
        self.clock.jump(milliseconds)
        self.clock_jumped = True


def _reopen(world: World, answer: Answer) -> None:
    if world.store is not None:
        store, world.store = world.store, None
        promised = store.max_physical_offset
        store.close()
        world._find_unseen()
        world.history.promise(min(promised, store.flushed_offset))
    world.open()


OPERATIONS: dict[str, Callable[[World, Answer], object]] = {
    "put": lambda world, answer: world.put(answer, world.chance.randrange(0, 300)),
    "large": lambda world, answer: world.put(answer, LARGE_BODY),
    "batch": lambda world, answer: world.put_batch(answer, 3),
    "delay": lambda world, answer: world.put(answer, world.chance.randrange(0, 300), delay_level=2),
    # WAIT=false: answered before it is durable, and not to be seen by anybody until it is.
    "hasty": lambda world, answer: world.put(answer, world.chance.randrange(0, 300), wait=False),
    "flush": lambda world, answer: world._running().flush(),
    "tick": lambda world, answer: world.tick(),
    "reopen": _reopen,
    "expire": lambda world, answer: world.expire(hours=world.options.file_reserved_time + 1),
    "clean": lambda world, answer: world.expire(hours=0),
    "jump": lambda world, answer: world.jump(),
    "back": lambda world, answer: world.jump(-5_000_000),
}
BOUNDED_OPERATIONS = ("put", "large", "batch", "delay", "flush", "tick", "reopen", "expire")


def changed(options: StoreOptions, **changes: object) -> StoreOptions:
    return replace(options, **changes)  # type: ignore[arg-type]

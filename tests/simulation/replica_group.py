"""A replica group on a simulated network and simulated disks: three brokers, a controller or none, clients.

A history is a seed: messages come in while brokers are killed, lose power or freeze, ways are cut in one direction or
both, disks and the network become slow, the controller goes away. Then everything heals. What must hold:

* what was answered as stored is in the log of every later master, and in every log at the end;
* whatever a reader saw stays, and is the same at every broker (``committed``, the one history that was shown);
* whoever may be elected holds everything that was shown; in classic mode as many brokers as were promised do;
* a master takes nothing when no controller has confirmed it for the length of its lease;
* healed, the group has one master, everybody in sync, logs equal byte for byte, and takes messages.

``python -m tests.simulation.replay group SEED`` repeats one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from flaremq.controller.groups import Member, ReplicaGroup
from flaremq.controller.outcomes import Outcome
from flaremq.controller.state import ControllerState
from flaremq.message.record.layout import BLANK, MAGIC_BLANK
from flaremq.protocol.bodies.controller import SyncStateSet
from flaremq.protocol.headers import controller as headers
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader
from flaremq.replication.frames import REPORT
from flaremq.replication.membership.requests import Ask, GroupView, Kind, Reply
from flaremq.replication.source import SourceSettings
from flaremq.replication.sync_rules import SyncMode, SyncRules
from tests.simulation.replica_group_broker import SETTINGS, Broker, Link
from tests.simulation.replica_group_parts import GroupLog, Loop, MemoryGroupLog, Network
from tests.support.crash_fs import SimulatedCrash

CONTROLLER = 0  # its place in the network
CLUSTER, NAME = "cluster", "group"
HEAL_S = 40.0  # of simulated time at most until a healed group is whole


class GroupViolation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Tally:
    histories: int = 0
    events: int = 0
    messages: int = 0
    answered: int = 0
    elections: int = 0
    cuts: int = 0
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """What a history is like, drawn from its seed."""

    mode: SyncMode
    copies: int
    is_sync_flush: bool
    duration: float
    batch_size: int
    shared_host: bool
    naive_controller: bool  # as the original's: does not notice that a master it is told of anew has been away
    past: int = 0  # records from before there was a controller: all in broker 1, the first of them in the others
    tail_bytes: int = 256


def draw_shape(chance: random.Random) -> Shape:
    is_sync = chance.random() < 0.7
    if chance.random() < 0.75:
        mode, copies = SyncMode.SET, chance.choice((1, 1, 2))
    else:
        mode, copies = chance.choice(((SyncMode.ANY_SLAVE, 2), (SyncMode.COPIES, 2), (SyncMode.COPIES, 3)))
    return Shape(
        mode=mode,
        copies=copies,
        is_sync_flush=is_sync,
        duration=chance.uniform(1.0, 6.0),
        batch_size=chance.choice((90, 400, 4000)),
        shared_host=chance.random() < 0.5,
        naive_controller=chance.random() < 0.3,
        past=chance.choice((0, 0, 0, 3, 30)) if mode is SyncMode.SET else 0,
    )


@dataclass
class Group:
    """Three brokers and what clients and readers know of them."""

    chance: random.Random
    shape: Shape
    make_log: Callable[[int], GroupLog] = lambda number: MemoryGroupLog()
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        shape = self.shape
        self.loop = Loop()
        self.network = Network(self.loop, self.chance)
        self.rules = SyncRules(mode=shape.mode, copies=shape.copies, not_caught_up_max_s=3.0)
        self.source_settings = SourceSettings(batch_size=shape.batch_size, heartbeat_s=1.0, silence_max_s=3.0)
        self.has_controller = shape.mode is SyncMode.SET
        self.is_sync_flush = shape.is_sync_flush
        self.tail_bytes = shape.tail_bytes
        self.slow_disk: set[int] = set()
        self.committed = bytearray()  # everything that was ever shown
        self.answered: dict[int, int] = {}  # number of a message: end of its record
        self.numbers = 0
        self.refusals: dict[int, str] = {}
        self.losses = 0  # times a classic master may have lost what slaves have
        self.brokers = {number: Broker(self, number, self.make_log(number)) for number in (1, 2, 3)}
        self._is_controller_up = True
        members = {number: Member(number, "", f"code {number}") for number in self.brokers}
        group = ReplicaGroup(cluster=CLUSTER, broker_name=NAME, next_broker_id=4, members=members)
        self._state = ControllerState([group], now=self.loop.now, grace_seconds=2.0)
        if shape.past:
            self._write_past()
        for broker in self.brokers.values():
            broker.log.sends_durable_only = not self.has_controller and self.is_sync_flush
            if broker.number == 1 or not shape.past:
                broker.start()
            else:
                self.loop.at(self.loop.now + 1.0, self.revive, broker)  # the one with everything asks first
        if self.has_controller:
            self._scan()

    def _write_past(self) -> None:
        """What a classic master and its slaves had, without epochs."""
        first = self.brokers[1].log
        first.lead()
        ends = [0] + [first.put(number) for number in range(self.shape.past)]
        self.numbers = self.shape.past
        first.sync()
        first.kill()
        for number in (2, 3):
            log, end = self.brokers[number].log, self.chance.choice(ends)
            at = 0
            while at < end:  # a file at a time
                part = min(end, at - at % log.file_size + log.file_size)
                log.append_replica(at, first.read(at, part))
                at = part
            log.sync()

    # The controller

    @property
    def controlled(self) -> ReplicaGroup:
        return self._state.groups[NAME]

    def ask_controller(self, broker: Broker, ask: Ask) -> None:
        way = broker.number, CONTROLLER
        self.network.datagram(way, self._serve, broker, broker.life, ask)

    def _serve(self, broker: Broker, life: int, ask: Ask) -> None:
        if not self._is_controller_up:
            return
        reply = self._handle(broker, ask)
        way = CONTROLLER, broker.number
        self.network.datagram(way, broker.when_awake, life, broker.answered, ask.token, reply)

    def _handle(self, broker: Broker, ask: Ask) -> Reply:
        state, now = self._state, self.loop.now
        if ask.kind is Kind.GET_METADATA:
            return Reply(leader="controller")
        if ask.kind is Kind.GET_REPLICA_INFO:
            return Reply(group=self._view())
        if ask.kind is Kind.REGISTER_BROKER:
            register = headers.RegisterBrokerToControllerRequestHeader(
                cluster_name=CLUSTER,
                broker_name=NAME,
                broker_id=ask.broker_id,
                broker_address=f"broker {broker.number}",
            )
            if self.shape.naive_controller and self.controlled.master_id == broker.number:
                return Reply(group=self._view())
            reply = self._commit(state.register_broker(register, now))
            has_master = getattr(reply.header, "master_broker_id", None) is not None
            return Reply(reply.code, group=self._view() if has_master else None)
        if ask.kind is Kind.ELECT_MASTER:
            elect = headers.ElectMasterRequestHeader(cluster_name=CLUSTER, broker_name=NAME, broker_id=ask.broker_id)
            reply = self._commit(state.elect_master(elect, now))
            return Reply(reply.code, group=self._view() if reply.header is not None else None)
        assert ask.kind is Kind.ALTER_SYNC_STATE_SET
        alter = headers.AlterSyncStateSetRequestHeader(
            broker_name=NAME, master_broker_id=ask.broker_id, master_epoch=ask.master_epoch
        )
        body = SyncStateSet(sync_state_set=ask.members, sync_state_set_epoch=ask.set_epoch)
        reply = self._commit(state.alter_sync_state_set(alter, body, now))
        return Reply(reply.code, group=self._view() if reply.code == 0 else None)

    def _commit(self, outcome: Outcome) -> object:
        reply = self._state.commit(outcome, self.loop.now)
        if outcome.after is not None:
            self.check_electable()
        notice = self._state.notice(outcome, self.loop.now)
        if notice is not None:
            self.tally.elections += 1
            for broker in self.brokers.values():
                way = CONTROLLER, broker.number
                epoch = notice.header.master_epoch
                self.network.datagram(way, broker.when_awake, broker.life, broker.notified, epoch)
        return reply

    def _view(self) -> GroupView:
        group = self.controlled
        master = group.master
        address = "" if master is None else master.address
        return GroupView(group.master_id, address, group.master_epoch, group.sync_state_set, group.sync_state_set_epoch)

    def heartbeat(self, broker: Broker) -> None:
        header = BrokerHeartbeatRequestHeader(
            cluster_name=CLUSTER,
            broker_addr=f"broker {broker.number}",
            broker_name=NAME,
            broker_id=broker.number,
            epoch=broker.epochs.last_epoch,
            max_offset=broker.log.own_end,
            confirm_offset=broker.confirmed,
            heartbeat_timeout_millis=int(SETTINGS.lease_seconds * 1000),
        )
        source = broker.number, broker.life
        self.network.datagram((broker.number, CONTROLLER), self._heard, header, source)

    def _heard(self, header: BrokerHeartbeatRequestHeader, source: tuple[int, int]) -> None:
        if self._is_controller_up and source[1] == self.brokers[source[0]].life:
            self._state.heartbeat(header, self.loop.now, source)

    def _scan(self) -> None:
        if self._is_controller_up:
            for name in self._state.abandoned(self.loop.now):
                self._commit(self._state.elect_by_itself(name, self.loop.now))
        self.loop.at(self.loop.now + 0.5, self._scan)

    def _source_closed(self, source: tuple[int, int]) -> None:
        if self._is_controller_up:
            self._state.source_closed(source)

    # What may fail

    def is_reachable(self, one: int, other: int) -> bool:
        return (one, other) not in self.network.cut and (other, one) not in self.network.cut

    def disk_delay(self, broker: Broker) -> float:
        return self.chance.random() * (0.8 if broker.number in self.slow_disk else 0.005)

    def host_of(self, broker: Broker) -> int:
        return 1 if self.shape.shared_host else broker.number

    def crash(self, broker: Broker, *, power_cut: bool) -> None:
        if not broker.is_up:
            return
        self.tally.crashes += 1
        source = broker.number, broker.life
        if power_cut and not self.has_controller and broker.number == 1 and broker.log.durable < broker.log.own_end:
            self.losses += 1
        tells = not power_cut or self.chance.random() < 0.5
        broker.stop(power_cut=power_cut, tells=tells)
        if tells and self.has_controller:
            self.network.datagram((broker.number, CONTROLLER), self._source_closed, source)

    def revive(self, broker: Broker) -> None:
        if not broker.is_up:
            try:
                broker.start()
            except SimulatedCrash:
                self.crash(broker, power_cut=True)

    def fail(self) -> None:
        """One random fault, with its end."""
        chance, loop = self.chance, self.loop
        masters = [broker for broker in self.brokers.values() if broker.is_master]
        broker = chance.choice(masters if masters and chance.random() < 0.4 else list(self.brokers.values()))
        kind = chance.randrange(11)
        until = loop.now + chance.choice((0.05, 0.5, 1.5, 3.0)) * (0.5 + chance.random())
        if kind in (0, 1, 2):
            self.crash(broker, power_cut=self.may_lose_power(broker) and chance.random() < 0.6)
            loop.at(until, self.revive, broker)
        elif kind == 3 and broker.is_up:
            broker.frozen_until = max(broker.frozen_until, until)
        elif kind in (4, 5, 6):
            self._cut_way(broker.number, until)
        elif kind == 7:
            self.slow_disk.add(broker.number)
            loop.at(until, self.slow_disk.discard, broker.number)
        elif kind == 8 and self.has_controller:
            self._fail_controller(broker, until)
        elif kind == 8:
            self._lie()
        elif kind == 10:
            self._depose(broker, until)
        elif kind == 9:
            way = broker.number, chance.choice([place for place in range(4) if place != broker.number])
            self.network.slow[way] = chance.random()
            loop.at(until, self.network.slow.pop, way, None)

    def may_lose_power(self, broker: Broker) -> bool:
        # What is answered before it is synced can be lost in a power cut; that was the owner's choice. A classic master
        # does it anyway here: its slaves must notice.
        return self.is_sync_flush or (not self.has_controller and broker.number == 1)

    def _cut_way(self, place: int, until: float) -> None:
        chance = self.chance
        others = [other for other in range(4) if other != place]
        if chance.random() < 0.6:
            others = [chance.choice(others)]
        for other in others:
            ways = [(place, other), (other, place)]
            for way in ways if chance.random() < 0.5 else [chance.choice(ways)]:
                self.network.cut.add(way)
                self.loop.at(until, self.network.heal, way)

    def _lie(self) -> None:
        """A stranger at the master's HA port says that it has more than there is (less, nobody could tell)."""
        master = self.brokers[1]
        if master.is_up:
            link = Link(self.brokers[2], master)
            link.is_lie = True
            master.accept(link)
            report = REPORT.pack(master.log.own_end + self.chance.choice((10_000, 1 << 40)) + 10_000)
            for _ in range(self.chance.randint(1, 2)):
                link.up.send(report)

    def _depose(self, broker: Broker, until: float) -> None:
        """It goes on taking messages that nobody else gets, and then it is gone."""
        for other in self.brokers.keys() - {broker.number}:
            for way in ((broker.number, other), (other, broker.number)):
                self.network.cut.add(way)
                self.loop.at(until, self.network.heal, way)
        gone = self.loop.now + self.chance.random() * 0.8
        power_cut = self.may_lose_power(broker) and self.chance.random() < 0.5
        self.loop.at(gone, lambda: self.crash(broker, power_cut=power_cut))
        self.loop.at(max(gone, until), self.revive, broker)

    def _fail_controller(self, broker: Broker, until: float) -> None:
        if self.chance.random() < 0.5:  # its connection to one broker breaks
            self._source_closed((broker.number, broker.life))
            return
        self._is_controller_up = False
        self.loop.at(until, self._restart_controller)

    def _restart_controller(self) -> None:
        if not self._is_controller_up:
            self._is_controller_up = True
            self._state = ControllerState(self._state.groups.values(), now=self.loop.now, grace_seconds=2.0)

    # Clients

    def send(self) -> None:
        """A message, at whoever takes it; often two clients with different ideas of who is master."""
        order = list(self.brokers.values())
        self.chance.shuffle(order)
        for broker in order:
            if broker.put(self.numbers):
                self.numbers += 1
                self.tally.messages += 1
                if self.chance.random() < 0.7:
                    return

    # What must hold

    def check_lease(self, broker: Broker) -> None:
        if self.has_controller and self.loop.now - broker.lease_asked_at > SETTINGS.lease_seconds:
            raise GroupViolation(f"broker {broker.number} takes messages without a lease")

    @property
    def is_lossy(self) -> bool:
        """A master that answers before it syncs lost power: what it showed may be gone, by its owner's choice."""
        return self.losses > 0 and not self.is_sync_flush

    def check_confirmed(self, broker: Broker, confirmed: int) -> None:
        """``broker`` shows readers what lies below ``confirmed``."""
        log, committed = broker.log, self.committed
        if confirmed > log.own_end:
            raise GroupViolation(f"broker {broker.number} shows {confirmed}, its log ends at {log.own_end}")
        if self.is_lossy:
            # Where a classic slave begins counts as held; that its bytes there are others shows a moment later.
            if not self.refusals and not any(b.follower and b.follower.is_comparing for b in self.brokers.values()):
                self._check_copies(0, log.read(0, confirmed))
            return
        known = min(confirmed, len(committed))
        if log.read(0, known) != committed[:known]:
            raise GroupViolation(f"broker {broker.number} shows another history below {known}")
        if confirmed > known:
            committed += log.read(known, confirmed)
            self._check_copies(known, bytes(committed[known:]))

    def _check_copies(self, start: int, shown: bytes) -> None:
        end = start + len(shown)
        holders = {other.number for other in self.brokers.values() if self._holds(other, start, end, shown)}
        electable = self.controlled.sync_state_set if self.has_controller else set()
        if not electable <= holders:
            raise GroupViolation(f"shown up to {end}, held by {sorted(holders)}, electable {sorted(electable)}")
        if len(holders) < self.shape.copies:
            raise GroupViolation(f"shown up to {end}, held by {sorted(holders)}: {self.shape.copies} copies are due")

    def _holds(self, broker: Broker, start: int, end: int, data: bytes) -> bool:
        held = broker.log.durable if self.is_sync_flush else broker.log.own_end
        return held >= end and broker.log.read(start, end) == data

    def check_electable(self) -> None:
        """Whoever may be elected has all that was shown."""
        size = len(self.committed)
        for number in self.controlled.sync_state_set:
            if not self._holds(self.brokers[number], 0, size, self.committed):
                raise GroupViolation(f"broker {number} may be elected and does not hold what was shown, up to {size}")

    def check_master(self, broker: Broker) -> None:
        if self.is_lossy:
            return
        size = len(self.committed)
        if broker.log.read(0, size) != self.committed:
            raise GroupViolation(f"master {broker.number} does not have what was shown, up to {size}")

    def check_cut(self, broker: Broker, offset: int) -> None:
        self.tally.cuts += 1
        known = min(len(self.committed), broker.log.own_end)
        # The rest of a file is the same whoever left it empty: what a deposed master left may be, byte for byte, what
        # its successor shows.
        is_filler = self.committed[offset + 4 : offset + 8] == BLANK.pack(0, MAGIC_BLANK)[4:]
        if is_filler and known <= offset - offset % broker.log.file_size + broker.log.file_size:
            return
        if offset < known and broker.log.read(0, known) == self.committed[:known]:
            raise GroupViolation(f"broker {broker.number} is cut at {offset}, shown was {known}")

    def check_answered(self, broker: Broker, number: int, end: int) -> None:
        if end > len(self.committed) and not self.is_lossy:
            raise GroupViolation(f"broker {broker.number} answered message {number} before it was confirmed")
        if number in self.answered:
            raise GroupViolation(f"message {number} was answered twice")
        self.answered[number] = end
        self.tally.answered += 1

    def note_refusal(self, broker: Broker, error: Exception) -> None:
        self.refusals[broker.number] = str(error)

    # A history

    def run(self) -> None:
        chance, loop = self.chance, self.loop
        end = loop.now + self.shape.duration
        next_put = next_fault = loop.now + (1.5 if self.shape.past else 0.0)
        pace = chance.choice((0.02, 0.1, 0.3))
        calm = chance.choice((0.3, 0.8, 2.0))
        while loop.now < end:
            if next_put <= next_fault:
                loop.run(min(next_put, end))
                self.send()
                next_put = loop.now + chance.expovariate(1 / pace)
            else:
                loop.run(min(next_fault, end))
                self.fail()
                next_fault = loop.now + chance.expovariate(1 / calm)
        self._heal()
        if not loop.run(loop.now + HEAL_S, self._is_whole):
            raise GroupViolation(f"not whole {HEAL_S} s after everything healed: {self._describe()}")
        self._check_end()
        self.tally.histories += 1
        self.tally.events += loop.events

    def _heal(self) -> None:
        self.network.loss = 0.0
        for way in list(self.network.cut) + list(self.network.slow):
            self.network.heal(way)
        self.slow_disk.clear()
        self._restart_controller()
        for broker in self.brokers.values():
            broker.frozen_until = min(broker.frozen_until, self.loop.now)
            self.revive(broker)
        self._last = -1
        self._proof()

    def _proof(self) -> None:
        """Healed, the group takes messages again."""
        if self._last not in self.answered:
            for broker in self.brokers.values():
                if broker.put(self.numbers):
                    self._last = self.numbers
                    self.numbers += 1
                    break
            self.loop.at(self.loop.now + 1.0, self._proof)

    def _is_whole(self) -> bool:
        if self._last not in self.answered:
            return self._is_refused()
        if self.has_controller and len(self.controlled.sync_state_set) < 3:
            return False
        if len({broker.log.own_end for broker in self.brokers.values()}) > 1:
            return self._is_refused()
        # A slave whose connection died without a word may be as long as its master's new log, and not know it yet.
        return not self.is_lossy or self._is_refused() or self._are_logs_equal()

    def _are_logs_equal(self) -> bool:
        return len({broker.log.read(0, broker.log.own_end) for broker in self.brokers.values()}) == 1

    def _is_refused(self) -> bool:
        """A classic slave that has what its master lost says so and takes nothing more."""
        return self.is_lossy and bool(self.refusals)

    def _check_end(self) -> None:
        if self._is_refused():
            return
        if not self._are_logs_equal():
            raise GroupViolation(f"logs differ: {self._describe()}")
        whole = self.brokers[1].log.read(0, self.brokers[1].log.own_end)
        if self.is_lossy:
            return
        if whole[: len(self.committed)] != self.committed:
            raise GroupViolation("what was shown is gone")
        for number, end in self.answered.items():
            if number.to_bytes(8, "big") not in whole[max(0, end - 1200) : end]:
                raise GroupViolation(f"message {number} was answered as stored at {end} and is gone")

    def _describe(self) -> str:
        lines = [
            f"{broker.number}: {'up' if broker.is_up else 'down'}{' master' if broker.is_master else ''} "
            f"[{broker.log.durable}, {broker.log.own_end}) shown {broker.confirmed} {broker.epochs} follows "
            f"{broker.master_id} {'linked' if broker.link else ''} {self.refusals.get(broker.number, '')}"
            for broker in self.brokers.values()
        ]
        return "\n".join([f"set {sorted(self.controlled.sync_state_set)} master {self.controlled.master_id}", *lines])


def run_history(seed: int, tally: Tally | None = None) -> Tally:
    """One history; raises on the first broken promise."""
    tally = Tally() if tally is None else tally
    chance = random.Random(f"group {seed}")
    shape = draw_shape(chance)
    try:
        Group(chance, shape, tally=tally).run()
    except Exception as error:
        raise AssertionError(f"{error}\n{shape}\nrepeat: python -m tests.simulation.replay group {seed}") from error
    return tally

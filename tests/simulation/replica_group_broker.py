"""One broker of a simulated group: the shell around the replication core, as the real one is, without sockets.

The core is the product's: Membership, Replicas, SyncState, Source, Follower, EpochTable. What is here does their steps
in the order the broker does them, and says ``group`` what a client or a reader would see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flaremq.errors import FlareMQError
from flaremq.replication.epochs import EpochTable
from flaremq.replication.follower import AddEpoch, Append, Begin, Confirm, Cut, Follower, FollowerSettings
from flaremq.replication.follower import Step as LogStep
from flaremq.replication.membership.membership import Identity, Membership, MembershipSettings
from flaremq.replication.membership.requests import Ask, Reply
from flaremq.replication.membership.steps import BecomeMaster, BecomeSlave, Heartbeat, SetSettled, Step
from flaremq.replication.replicas import Replicas
from flaremq.replication.source import Source
from flaremq.replication.sync_state import SyncState
from tests.simulation.replica_group_parts import GroupLog
from tests.support.crash_fs import SimulatedCrash

if TYPE_CHECKING:
    from tests.simulation.replica_group import Group

RETRY_S = 0.3
SETTINGS = MembershipSettings(
    controllers=("controller",),
    check_code="simulated",
    heartbeat_seconds=0.5,
    lease_seconds=2.0,
    info_seconds=0.5,
    search_seconds=5.0,
    retry_seconds=0.2,
    request_seconds=0.7,
    settle_seconds=2.5,
)


class Link:
    """A connection from a slave to its master; each end knows only what has reached it."""

    def __init__(self, slave: Broker, master: Broker) -> None:
        self.slave, self.slave_life = slave, slave.life
        self.master, self.master_life = master, master.life
        network = slave.group.network
        self.up = network.pipe((slave.number, master.number), self._at_master)
        self.down = network.pipe((master.number, slave.number), self._at_slave)
        self.is_counted = False
        self.is_lie = False  # made by a stranger

    def _at_master(self, data: bytes | None) -> None:
        self.master.when_awake(self.master_life, self.master.receive_report, self, data)

    def _at_slave(self, data: bytes | None) -> None:
        self.slave.when_awake(self.slave_life, self.slave.receive_log, self, data)


class Broker:
    """A broker that lives, dies and lives again on the same disk."""

    def __init__(self, group: Group, number: int, log: GroupLog) -> None:
        self.group = group
        self.number = number
        self.log = log
        self.epochs = EpochTable()  # on disk whenever it is set
        self.life = 0
        self.is_up = False
        self.frozen_until = 0.0
        self.lease_asked_at = -1.0  # of the last question a controller answered with our name; for the invariant
        self._reset()

    def _reset(self) -> None:
        self.is_master = False
        self.membership: Membership | None = None
        self.replicas = Replicas(self.group.rules)
        self.sources: dict[Link, Source] = {}
        self.pending: list[tuple[int, int]] = []  # end of the record, number of the message
        self.link: Link | None = None
        self.follower: Follower | None = None
        self.confirmed = 0
        self.master_id: int | None = None
        self.epoch_min = 0
        self._is_connecting = False
        self._is_syncing = False
        self._is_cutting = False
        self._tick_at = float("inf")
        self._asked_at: dict[int, float] = {}

    # Life

    @property
    def now(self) -> float:
        return self.group.loop.now

    def post(self, delay: float, call: Callable[..., None], *args: Any) -> None:
        """Do this later, if this life lasts."""
        self.group.loop.at(self.now + delay, self.when_awake, self.life, call, *args)

    def when_awake(self, life: int, call: Callable[..., None], *args: Any) -> None:
        if life != self.life or not self.is_up:
            return
        if self.frozen_until > self.now:
            self.group.loop.at(self.frozen_until, self.when_awake, life, call, *args)
            return
        try:
            call(*args)
        except SimulatedCrash:  # the power went at a call to the disk
            self.group.crash(self, power_cut=True)

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.frozen_until = 0.0
        self._reset()
        if self.group.has_controller:
            identity = Identity(self.number)
            self.membership = Membership(SETTINGS, identity, epoch=self.epochs.last_epoch, now=self.now)
            self._tick()
        elif self.number == 1:
            self.log.lead()
            self.is_master = True
            self.group.check_master(self)
        else:
            self.master_id = 1
            self._connect()
        self._look_regularly()

    def stop(self, *, power_cut: bool, tells: bool) -> None:
        """Die. ``tells``: the connections are closed, so that the others know at once."""
        if tells:
            for link in self.sources:
                link.down.send(None)
            if self.link is not None:
                self.link.up.send(None)
        self.is_up = False
        self.life += 1
        self._reset()
        if power_cut:
            self.log.power_cut(self.group.chance)
        else:
            self.log.kill()

    # The controller

    def _tick(self) -> None:
        assert self.membership is not None
        self._tick_at = float("inf")
        self.carry_out(self.membership.tick(self.now))

    def carry_out(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if type(step) is Ask:
                self._asked_at[step.token] = self.now
                self.group.ask_controller(self, step)
            elif type(step) is Heartbeat:
                self.group.heartbeat(self)
            elif type(step) is BecomeMaster or type(step) is BecomeSlave:
                self._change_role(step)
            elif type(step) is SetSettled:
                self._settle(step)
        assert self.membership is not None
        due = self.membership.due()
        if due < self._tick_at:
            self._tick_at = due
            self.post(max(0.0, due - self.now), self._tick)

    def answered(self, token: int, reply: Reply) -> None:
        assert self.membership is not None
        asked_at = self._asked_at.pop(token, None)
        view = reply.group
        if asked_at is not None and view is not None and view.master_id == self.number:
            self.lease_asked_at = max(self.lease_asked_at, asked_at)
        self.carry_out(self.membership.answered(token, reply, self.now))

    def notified(self, epoch: int) -> None:
        assert self.membership is not None
        self.carry_out(self.membership.notified(epoch, self.now))

    def _change_role(self, step: BecomeMaster | BecomeSlave) -> None:
        self.is_master = False
        self.pending.clear()  # answered with an error: nobody knows what becomes of them
        self.master_id = None
        self._drop_link()
        self.post(self.group.chance.random() * 0.1, self._take_role, step)

    def _take_role(self, step: BecomeMaster | BecomeSlave) -> None:
        membership = self.membership
        assert membership is not None
        if self._is_cutting:
            self.post(0.05, self._take_role, step)
            return
        for link in list(self.sources):
            self._close_source(link)
        if type(step) is BecomeMaster:
            self._add_epoch(step.epoch, self.log.own_end if self.epochs.entries else self.log.min_offset)
            self.replicas.begin_term(SyncState(self.number, step.members, step.set_epoch))
            self.log.lead()
            self.is_master = True
            self.group.check_master(self)
            self._start_sync()
        else:
            assert type(step) is BecomeSlave
            self.replicas.begin_term(None)
            self.log.follow()
            self.epoch_min = step.epoch
            self.master_id = step.master_id
            self._connect()
        self.carry_out(membership.role_taken(self.now))
        self._progress()

    def _add_epoch(self, epoch: int, start: int) -> None:
        if epoch != self.epochs.last_epoch:
            self.epochs = self.epochs.append(epoch, start)

    def _look_at_set(self) -> None:
        membership, state = self.membership, self.replicas.sync_state
        if membership is None or state is None or not membership.is_master or membership.proposed is not None:
            return
        start = self.epochs.entries[-1].start_offset
        wanted = self.replicas.proposal(self.now, own_end=self.log.own_end, epoch_start=start)
        if wanted is None:
            return
        steps = membership.propose(wanted, self.now)
        if membership.proposed != wanted:
            state.refuse(wanted)
        self.carry_out(steps)

    def _settle(self, step: SetSettled) -> None:
        state = self.replicas.sync_state
        if state is None:
            return
        if step.set_epoch > state.epoch:
            state.accept(step.members, step.set_epoch)
        elif state.last_proposed is not None:
            state.refuse(state.last_proposed)
        self._progress()

    def _look_regularly(self) -> None:
        self._look_at_set()
        self._progress()
        for link in list(self.sources):
            self._pump(link)
            source = self.sources.get(link)
            if source is not None:
                try:
                    source.check(self.now)
                except FlareMQError:
                    self._close_source(link)
        if self.follower is not None and self.link is not None:
            try:
                report = self.follower.tick(self.now)
                if report:
                    self.link.up.send(report)
            except FlareMQError:
                self._drop_link()
                self._connect()
        self.post(0.5, self._look_regularly)

    # Messages

    def put(self, number: int) -> bool:
        """A client's message; False if it is refused."""
        if not self.is_up or not self.is_master or self.frozen_until > self.now:
            return False
        if self.membership is not None and self.membership.refusal(self.now) is not None:
            return False
        if self.replicas.refusal(self.log.own_end) is not None:
            return False
        self.group.check_lease(self)
        self.when_awake(self.life, self._put, number)
        return True

    def _put(self, number: int) -> None:
        self.pending.append((self.log.put(number), number))
        self._start_sync()
        for link in list(self.sources):
            self._pump(link)
        self._progress()

    def _start_sync(self) -> None:
        if not self._is_syncing and self.log.durable < self.log.own_end:
            self._is_syncing = True
            self.post(self.group.disk_delay(self), self._synced)

    def _synced(self) -> None:
        self._is_syncing = False
        self.log.sync()
        for link in list(self.sources):
            self._pump(link)
        self._progress()
        self._report()
        self._start_sync()

    @property
    def held(self) -> int:
        return self.log.durable if self.group.is_sync_flush else self.log.own_end

    def _progress(self) -> None:
        """More may be confirmed."""
        if not self.is_master:
            return
        confirmed = self.replicas.confirmed(self.held)
        if confirmed > self.confirmed:
            self.confirmed = confirmed
            self.log.show(confirmed)
            self.group.check_confirmed(self, confirmed)
        while self.pending and self.pending[0][0] <= confirmed:
            end, number = self.pending.pop(0)
            self.group.check_answered(self, number, end)

    # The master's end of connections

    def accept(self, link: Link) -> None:
        group = self.group
        epochs = (lambda: self.epochs if self.is_master else None) if group.has_controller else None
        self.sources[link] = Source(self.log, group.source_settings, now=self.now, epochs=epochs)

    def receive_report(self, link: Link, data: bytes | None) -> None:
        source = self.sources.get(link)
        if source is None:
            return
        if data is None:
            self._close_source(link, tells=False)
            return
        before = source.acknowledged
        try:
            answer = source.receive(data, self.now)
        except FlareMQError as error:
            if not link.is_lie:
                self.group.note_refusal(link.slave, error)
            self._close_source(link)
            return
        if answer:
            link.down.send(answer)
        if source.acknowledged >= 0:
            if not link.is_counted:
                link.is_counted = True
                address = f"10.0.0.{9 if link.is_lie else self.group.host_of(link.slave)}:{id(link)}"
                self.replicas.connected(
                    link, address=address, broker_id=source.broker_id, is_learner=source.is_learner, now=self.now
                )
            if source.acknowledged != before:
                self.replicas.acknowledged(link, source.acknowledged, self.now)
        self._pump(link)
        self._progress()
        self._look_at_set()

    def _pump(self, link: Link) -> None:
        source = self.sources.get(link)
        if source is None:
            return
        try:
            while (span := source.next_span(self.now, self.confirmed)) is not None:
                link.down.send(span.header + self.log.read(span.offset, span.offset + span.length))
                if link.is_counted:
                    self.replicas.sent(link, source.next_offset)
        except FlareMQError:
            self._close_source(link)

    def _close_source(self, link: Link, *, tells: bool = True) -> None:
        del self.sources[link]
        if link.is_counted:
            self.replicas.disconnected(link)
        if tells:
            link.down.send(None)
        self._look_at_set()

    # The slave's end

    def _connect(self) -> None:
        if self._is_connecting or self.link is not None or self.master_id is None:
            return
        self._is_connecting = True
        self.post(self.group.chance.random() * RETRY_S, self._open_link)

    def _open_link(self) -> None:
        self._is_connecting = False
        if self.link is not None or self.master_id is None or self._is_cutting:
            return
        master = self.group.brokers[self.master_id]
        if self.held < self.log.own_end:
            self._start_sync()
            self._connect()
        elif not master.is_up or not self.group.is_reachable(self.number, master.number):
            self._connect()
        else:
            self.link = link = Link(self, master)
            self.follower = self._make_follower()
            master.when_awake(master.life, master.accept, link)
            link.up.send(self.follower.hello())

    def _make_follower(self) -> Follower:
        group, end = self.group, self.log.own_end
        settings = FollowerSettings(
            file_size=self.log.file_size, heartbeat_s=1.0, silence_max_s=3.0, master_epoch_min=self.epoch_min
        )
        return Follower(
            settings,
            log_end=end,
            is_empty=not end,
            now=self.now,
            epochs=self.epochs if group.has_controller else None,
            broker_id=self.number,
            tail=self.log.read(end - min(group.tail_bytes, max(0, end - 1)), end),
        )

    def receive_log(self, link: Link, data: bytes | None) -> None:
        follower = self.follower
        if link is not self.link or follower is None:
            return
        if data is None:
            self._drop_link(tells=False)
            self._connect()
            return
        try:
            self._do(follower.receive(data, self.now))
            if follower.failure is not None:
                raise follower.failure
        except FlareMQError as error:
            self.group.note_refusal(self, error)
            self._drop_link()
            self._connect()
            return
        self._start_sync()
        self._report()

    def _do(self, steps: Iterable[LogStep]) -> None:
        for step in steps:
            if type(step) is Append:
                self.log.append_replica(step.offset, step.data)
                self.group.refusals.pop(self.number, None)
            elif type(step) is Confirm:
                self.confirmed = max(self.confirmed, step.offset)
                self.log.show(step.offset)
                self.group.check_confirmed(self, step.offset)
            elif type(step) is AddEpoch:
                self._add_epoch(step.epoch, step.start_offset)
            elif type(step) is Begin:
                assert step.offset == self.log.own_end
            elif type(step) is Cut:
                self._is_cutting = True
                self.post(self.group.chance.random() * 0.2, self._make_cut, step.offset)

    def _make_cut(self, offset: int) -> None:
        self.group.check_cut(self, offset)
        self.log.cut(offset)
        self.post(self.group.chance.random() * 0.01, self._cut_epochs, offset)

    def _cut_epochs(self, offset: int) -> None:
        self.epochs = self.epochs.without_from(offset)
        self._is_cutting = False
        self._connect()

    def _report(self) -> None:
        if self.link is not None and self.follower is not None:
            report = self.follower.report(min(self.held, self.follower.log_end), self.now)
            if report:
                self.link.up.send(report)

    def _drop_link(self, *, tells: bool = True) -> None:
        if self.link is not None and tells:
            self.link.up.send(None)
        self.link = self.follower = None

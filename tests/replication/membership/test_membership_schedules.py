"""Three brokers and a controller on a network that loses, delays and doubles what it likes: what must hold anyway."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest

from flaremq.replication.membership.membership import Identity, Membership, MembershipSettings
from flaremq.replication.membership.requests import Ask, Kind
from flaremq.replication.membership.steps import (
    BecomeMaster,
    BecomeSlave,
    Heartbeat,
    SaveId,
    SaveTemporaryId,
    SetSettled,
    Step,
)
from tests.support.model_controller import ModelController

ADDRESS = "controller:1"
DELAY_MAX = 20.0  # below the time after which a proposal counts as lost


class Broker:
    """One broker's membership, its identity file, and what a shell would do with the steps."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.identity = Identity()
        self.epoch = 0  # in the epoch file: written when a master begins
        self.lives = 0
        self.born()

    def born(self) -> None:
        self.lives += 1
        settings = MembershipSettings(controllers=(ADDRESS,), check_code=f"{self.name};{self.lives}")
        self.membership = Membership(settings, self.identity, epoch=self.epoch, now=self.world.now)
        self.last_role = 0
        self.confirmed = float("-inf")  # newest question whose answer named us
        self.do(self.membership.tick(self.world.now))

    def do(self, steps: list[Step]) -> None:
        for step in steps:
            self._do(step)
        self.world.check(self)

    def _do(self, step: Step) -> None:
        world = self.world
        if isinstance(step, Ask):
            world.send(self, step)
        elif isinstance(step, SaveTemporaryId):
            self.identity = Identity(None, step.broker_id, step.check_code)
        elif isinstance(step, SaveId):
            self.identity = Identity(step.broker_id)
        elif isinstance(step, Heartbeat):
            if not world.loses():
                world.at(world.delay(), lambda: world.heard(self, self.membership.broker_id or 0))
        elif isinstance(step, BecomeMaster | BecomeSlave):
            self._change_role(step)
        elif isinstance(step, SetSettled):
            assert step.set_epoch >= self.membership.set_epoch

    def _change_role(self, step: BecomeMaster | BecomeSlave) -> None:
        assert step.epoch > self.last_role or (isinstance(step, BecomeSlave) and step.epoch == self.last_role)
        assert step.epoch >= self.epoch
        self.last_role = step.epoch
        life = self.lives
        if isinstance(step, BecomeMaster):
            assert self.world.masters.setdefault(step.epoch, (self.name, life)) == (self.name, life)

        def taken() -> None:
            if life == self.lives:
                if isinstance(step, BecomeMaster):
                    self.epoch = step.epoch
                self.do(self.membership.role_taken(self.world.now))

        self.world.at(self.world.random.random() * 0.3, taken)


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.controller = ModelController(address=ADDRESS)
        self.masters: dict[int, tuple[str, int]] = {}
        self.faults = True
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._last_heard: dict[int, float] = {}
        self.brokers = [Broker(self, name) for name in ("a", "b", "c")]

    def at(self, delay: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, event))

    def loses(self) -> bool:
        return self.faults and self.random.random() < 0.15

    def delay(self) -> float:
        if not self.faults or self.random.random() < 0.8:
            return self.random.random() * 0.05
        return self.random.random() * self.random.choice([1.0, 5.0, DELAY_MAX])

    def send(self, broker: Broker, ask: Ask) -> None:
        life, sent = broker.lives, self.now

        def arrive() -> None:
            if self.faults and self.random.random() < 0.05:
                self.controller.is_leader = not self.controller.is_leader
            reply = self.controller.handle(ask, broker.name)
            if not self.loses():
                self.at(self.delay(), lambda: back(reply))

        def back(reply: object) -> None:
            if life == broker.lives:
                view = getattr(reply, "group", None)
                named = view is not None and view.master_id == broker.membership.broker_id
                if named and ask.kind is not Kind.GET_METADATA:
                    broker.confirmed = max(broker.confirmed, sent)
                broker.do(broker.membership.answered(ask.token, reply, self.now))  # type: ignore[arg-type]

        if self.loses():
            self.at(self.delay(), lambda: life == broker.lives and fail())
        else:
            self.at(self.delay(), arrive)

        def fail() -> None:
            broker.do(broker.membership.failed(ask.token, self.now))

    def heard(self, broker: Broker, broker_id: int) -> None:
        if broker_id:
            self.controller.alive.add(broker_id)
            self._last_heard[broker_id] = self.now

    def check(self, broker: Broker) -> None:
        membership, controller = broker.membership, self.controller
        if membership.refusal(self.now) is None:
            assert self.now - broker.confirmed <= 10.0, "writes are taken without a lease"
        role = membership.role
        if isinstance(role, BecomeMaster) and role.epoch == controller.epoch:
            counted = membership.members | (membership.proposed or frozenset())
            assert controller.members <= counted, "somebody may be elected whose copy nobody waits for"

    def step(self) -> None:
        """The next event, or the next time that a broker waits for."""
        times = [broker.membership.due() for broker in self.brokers]
        first = min(range(len(times)), key=times.__getitem__)
        if self._events and self._events[0][0] <= times[first]:
            when, _, event = heapq.heappop(self._events)
            self.now = max(self.now, when)
            event()
        else:
            self.now = max(self.now, times[first])
            self.brokers[first].do(self.brokers[first].membership.tick(self.now))
        for broker_id in [one for one, heard in self._last_heard.items() if self.now - heard > 10.0]:
            del self._last_heard[broker_id]
            self.controller.lose(broker_id)

    def disturb(self) -> None:
        """What else goes wrong: a process ends, a proposal, a hint out of nowhere."""
        broker = self.random.choice(self.brokers)
        kind = self.random.random()
        if kind < 0.2:
            broker.born()
        elif kind < 0.7:
            ids = sorted(self.controller.ids)
            chosen = frozenset(one for one in ids if self.random.random() < 0.7) | {broker.membership.broker_id or 0}
            broker.do(broker.membership.propose(chosen, self.now))
        elif kind < 0.9:
            broker.do(broker.membership.notified(self.random.randrange(20), self.now))
        else:
            broker.do(broker.membership.doubted(self.now))


@pytest.mark.parametrize("seed", range(40))
def test_what_must_hold_holds_and_the_group_finds_together_when_the_faults_end(seed: int) -> None:
    world = World(seed)
    for _ in range(1500):
        world.step()
        if world.random.random() < 0.05:
            world.disturb()
    world.faults = False
    world.controller.is_leader = True
    until = world.now + 120.0
    while world.now < until:
        world.step()
    roles = [broker.membership.role for broker in world.brokers]
    assert {role.epoch for role in roles if role is not None} == {world.controller.epoch}
    assert sum(isinstance(role, BecomeMaster) for role in roles) == 1
    assert all(role is not None for role in roles)
    master = next(broker for broker in world.brokers if isinstance(broker.membership.role, BecomeMaster))
    assert master.membership.refusal(world.now) is None

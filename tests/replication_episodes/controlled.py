"""Episodes of brokers under a controller: the master changes by itself, and nothing that was acknowledged is lost.

As in ``classic``, and: the master is killed, frozen for longer than the controller waits, or cut off from everybody but
its clients; the controller is killed or frozen. Besides the producers that ask the name server for the master, one
sends to each broker no matter what it is: a second master that takes its messages promises what is lost later.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from tests.interop.replication import store_files
from tests.interop.replication.controller_group import ControllerGroup
from tests.interop.replication.group import FILE_SIZE, Member
from tests.interop.replication.talk import OK, Talk
from tests.interop.wire import probe
from tests.replication_episodes.classic import knows_topic
from tests.replication_episodes.ledger import QUEUES, TOPIC, Ledger
from tests.replication_episodes.traffic import Find, Traffic
from tests.support.tcp_proxy import DOWN, UP, TcpProxy

_PRODUCERS = 2
_HEALED_S = 90.0
_ROUTE_S = 0.1  # a client asks for the master so often
_LOST_S = 4.5  # longer than the controller waits for a heartbeat, and a master for its controller
_SHORT = {
    "slaveTimeout": "1500",
    "haHousekeepingInterval": "4000",
    "haSendHeartbeatInterval": "500",
    "flushDiskType": "ASYNC_FLUSH",
    "registerNameServerPeriod": "10000",
}


class Fault(ABC):
    name: ClassVar[str]

    def __init__(self, group: ControllerGroup, chance: random.Random) -> None:
        self.group = group
        self.chance = chance
        master = group.wait_master()
        self.master = master
        self.other = chance.choice([member for member in group.members if member is not master])
        self.lasts_s = chance.choice((0.0, 0.2, 1.0))

    @abstractmethod
    def begin(self) -> None: ...

    def undo(self) -> None:
        self.group.heal()
        self.group.start_brokers()


class MasterKilled(Fault):
    name = "master killed"

    def begin(self) -> None:
        self.master.kill()


class MasterStopped(Fault):
    name = "master stopped"

    def begin(self) -> None:
        self.master.stop()


class OtherKilled(Fault):
    name = "slave killed"

    def begin(self) -> None:
        self.other.kill()


class AllKilled(Fault):
    name = "all brokers killed"

    def begin(self) -> None:
        members = list(self.group.members)
        self.chance.shuffle(members)
        for member in members:
            member.kill()


class _Frozen(Fault):
    frozen: Member

    def begin(self) -> None:
        self.frozen.freeze()

    def undo(self) -> None:
        self.frozen.thaw()
        super().undo()


class MasterFrozen(_Frozen):
    name = "master frozen"

    def __init__(self, group: ControllerGroup, chance: random.Random) -> None:
        super().__init__(group, chance)
        self.frozen = self.master
        self.lasts_s = chance.choice((0.5, _LOST_S))


class OtherFrozen(_Frozen):
    name = "slave frozen"

    def __init__(self, group: ControllerGroup, chance: random.Random) -> None:
        super().__init__(group, chance)
        self.frozen = self.other
        self.lasts_s = chance.choice((0.5, _LOST_S))


class _Isolated(Fault):
    member: Member

    def begin(self) -> None:
        cut = self.chance.random() < 0.5
        for link in self.group.links_of(self.member):
            if cut:
                link.cut()
            else:
                link.silence()


class MasterIsolated(_Isolated):
    name = "master cut off from all but its clients"

    def __init__(self, group: ControllerGroup, chance: random.Random) -> None:
        super().__init__(group, chance)
        self.member = self.master
        self.lasts_s = chance.choice((1.0, _LOST_S, _LOST_S))


class OtherIsolated(_Isolated):
    name = "slave cut off"

    def __init__(self, group: ControllerGroup, chance: random.Random) -> None:
        super().__init__(group, chance)
        self.member = self.other
        self.lasts_s = chance.choice((1.0, _LOST_S))


class MasterWithoutController(Fault):
    name = "master cut off from its controller only"

    def begin(self) -> None:
        self.lasts_s = self.chance.choice((1.0, _LOST_S))
        self.group.controller_links[self.group.members.index(self.master)].cut()


class LinksBroken(Fault):
    name = "links broken"

    def begin(self) -> None:
        links: list[TcpProxy] = list(self.group.ha_links.values())
        for link in links:
            way = self.chance.choice(("drop", "limit", "slow", "cut", "one-way"))
            if way == "drop":
                link.drop()
            elif way == "limit":
                link.limit(self.chance.choice((UP, DOWN)), self.chance.randrange(1, 100_000))
            elif way == "slow":
                link.delay_s = 0.02
            elif way == "cut":
                link.cut()
            else:
                link.silence(self.chance.choice((UP, DOWN)))


class ControllerKilled(Fault):
    name = "controller killed"

    def begin(self) -> None:
        self.group.kill_controller()

    def undo(self) -> None:
        self.group.start_controller()
        super().undo()


class ControllerAndMasterKilled(ControllerKilled):
    name = "controller and master killed"

    def begin(self) -> None:
        super().begin()
        self.master.kill()


class ControllerFrozen(Fault):
    name = "controller frozen"

    def begin(self) -> None:
        self.lasts_s = self.chance.choice((1.0, _LOST_S))
        os.kill(self.group.controller_pid, signal.SIGSTOP)

    def undo(self) -> None:
        os.kill(self.group.controller_pid, signal.SIGCONT)
        super().undo()


FAULTS: tuple[type[Fault], ...] = (
    MasterKilled,
    MasterKilled,
    MasterStopped,
    OtherKilled,
    AllKilled,
    MasterFrozen,
    OtherFrozen,
    MasterIsolated,
    OtherIsolated,
    MasterWithoutController,
    LinksBroken,
    ControllerKilled,
    ControllerAndMasterKilled,
    ControllerFrozen,
)


class ControlledRun:
    """One group through many episodes; the seed decides all but the timing of processes."""

    def __init__(self, folder: Path, kinds: str, controller: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.ledger = Ledger()
        self.history: list[str] = []
        self.masters: list[str] = []
        self.group = ControllerGroup(kinds, folder / "group", controller=controller, options=_SHORT)
        try:
            self.group.start()
            self.group.wait_in_sync(seconds=_HEALED_S)
            self._make_topic()
        except BaseException:
            self.group.close()
            raise
        fixed: list[Find] = [lambda address=member.address: address for member in self.group.members]  # type: ignore[misc]
        finds: list[Find] = [_RouteFind(self.group.name_server) for _ in range(_PRODUCERS)] + fixed
        readers: list[Find] = [_RouteFind(self.group.name_server), *fixed]
        self._traffic = Traffic(self.ledger, finds, readers, seed=seed)

    def close(self) -> None:
        self._traffic.close()
        self.group.close()

    def episode(self) -> None:
        fault = self.chance.choice(FAULTS)(self.group, self.chance)
        self.history.append(fault.name)
        self._traffic.resume()
        self._work(self.chance.choice((1, 30, 100)))
        fault.begin()
        time.sleep(fault.lasts_s)
        fault.undo()
        self._work(20)
        self._traffic.pause()
        self.group.wait_in_sync(seconds=_HEALED_S)
        self.masters.append(self.group.master.folder.name)
        self.check()

    def check(self) -> None:
        end = self.group.wait_caught_up(seconds=_HEALED_S)
        master = self.group.master
        for member in self.group.members:
            if member is not master:
                store_files.assert_same_bytes(master.store, member.store, 0, end, file_size=FILE_SIZE)
        self.group.wait("topic", partial(knows_topic, master))
        ends = self.ledger.check(master.talk)
        for member in self.group.members:
            if member is not master:
                self.group.wait("topic", partial(knows_topic, member))
                # A slave hears with the next frame what of its log is confirmed, and shows nothing else.
                self.group.wait("what is confirmed", partial(_shows, member, ends), seconds=_HEALED_S)
                self.ledger.check(member.talk)

    def _work(self, count: int) -> None:
        """Until so many more sends were acknowledged: of the work, not of the clock."""
        enough = len(self.ledger.acknowledged) + count
        what = f"{count} more acknowledged sends, {dict(self.ledger.codes)}"
        self.group.wait(what, lambda: len(self.ledger.acknowledged) >= enough, seconds=_HEALED_S)

    def _make_topic(self) -> None:
        master = self.group.master

        def is_made() -> bool:
            try:
                probe.create_topic(master.address, TOPIC, queues=QUEUES)
                return master.talk.send("other", b"hello").code == OK
            except (OSError, RuntimeError):
                return False

        self.group.wait("topic", is_made)
        # Tables are copied every few seconds, by the original and by ours: what was made just now may be lost.
        for member in self.group.members:
            self.group.wait("topic", partial(knows_topic, member))


def _shows(member: Member, ends: Mapping[int, int]) -> bool:
    """Whether readers of a slave get as far as those of its master."""
    return all(member.talk.max_offset(TOPIC, queue_id) >= end for queue_id, end in ends.items())


class _RouteFind:
    """The master as the name server tells it, asked for now and then, as clients do."""

    def __init__(self, name_server: str) -> None:
        self._talk = Talk(name_server, timeout_s=2.0)
        self._asked = 0.0
        self._address: str | None = None

    def __call__(self) -> str | None:
        now = time.monotonic()
        if self._address is None or now - self._asked > _ROUTE_S:
            self._asked = now
            try:
                self._address = self._talk.master_address()
            except OSError:
                self._address = None
        return self._address


def run(folder: Path, kinds: str, controller: str, seed: int, episodes: int) -> ControlledRun:
    done = ControlledRun(folder, kinds, controller, seed)
    try:
        for _ in range(episodes):
            done.episode()
    except BaseException:
        print(f"seed {seed}, {kinds}, after: {'; '.join(done.history)}\n{done.group.logs()}", file=sys.stderr)
        raise
    finally:
        done.close()
    return done

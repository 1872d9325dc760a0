"""Episodes of a master and its slaves in classic mode: nobody becomes the master but by an operator.

An episode: traffic runs, something goes wrong, it goes on for a moment, everything is put right; then the traffic
pauses, the slaves catch up, and the oracle looks: everything that was promised or delivered is at its place on the
master and on every slave, and the logs are equal byte for byte. In some episodes the master is lost for good and a
slave is restarted as the master, as an operator does it: what was acknowledged must be there.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.interop.replication import store_files
from tests.interop.replication.combinations import sync_master
from tests.interop.replication.group import FILE_SIZE, Group, Member
from tests.interop.replication.talk import NO_TOPIC, OK
from tests.interop.wire import probe
from tests.replication_episodes import faults
from tests.replication_episodes.faults import Fault
from tests.replication_episodes.ledger import QUEUES, TOPIC, Ledger
from tests.replication_episodes.traffic import Traffic

_PRODUCERS = 3
_HEALED_S = 60.0
_PROMOTION_CHANCE = 0.1
_DISK_CHANCE = 0.1
_SHORT = {
    "slaveTimeout": "1000",
    "haHousekeepingInterval": "5000",
    "flushDiskType": "ASYNC_FLUSH",
    "diskSpaceWarningLevelRatio": "99",
    # A full disk must not cost the oldest messages here.
    "cleanFileForciblyEnable": "false",
}


class ClassicRun:
    """One group through many episodes; the seed decides all but the timing of processes."""

    def __init__(self, folder: Path, kinds: str, seed: int, *, small_disks: bool = False) -> None:
        self.kinds = kinds
        self.chance = random.Random(seed)
        self.ledger = Ledger()
        self.history: list[str] = []
        self._generation = 0
        self._folder = folder
        self._checked: dict[str, dict[int, int]] = {}  # by the member's folder: how far its queues were looked at
        self._compared = 0
        self._unmounts: list[Callable[[], None]] = []
        self.has_small_disks = small_disks
        self.group = self._new_group()
        master = lambda: self.group.master.address  # noqa: E731  # the group changes with a promotion
        slave = lambda: self.group.slave.address  # noqa: E731
        self.group.start()
        self._wait_served()
        self._traffic = Traffic(self.ledger, [master] * _PRODUCERS, [master, slave], seed=seed)

    def close(self) -> None:
        self._traffic.close()
        self.group.close()
        for unmount in self._unmounts:
            unmount()

    def episode(self) -> None:
        chosen = self._choose()
        if chosen is None:
            self.history.append("slave promoted")
            self._traffic.resume()
            self._work(50)
            self._promote()
        else:
            self.history.append(" and ".join(fault.name for fault in chosen))
            self._traffic.resume()
            self._work(self.chance.choice((0, 10, 100)))
            for fault in chosen:
                fault.begin()
            time.sleep(self.chance.choice((0.0, 0.1, 0.5, 1.5)))
            for fault in reversed(chosen):
                fault.undo()
        self._work(20)
        self._traffic.pause()
        self.check()

    def check(self, *, everything: bool = False) -> None:
        """With nothing under way: all members have what they must."""
        end = self.group.wait_caught_up(seconds=_HEALED_S)
        since = 0 if everything else self._compared
        for slave in self.group.slaves:
            store_files.assert_same_bytes(self.group.master.store, slave.store, since, end, file_size=FILE_SIZE)
        self._compared = end
        for member in self.group.members:
            # An empty slave gets the log first and the table of topics some seconds later.
            self.group.wait(f"topic at {member.folder.name}", partial(knows_topic, member), seconds=_HEALED_S)
            key = str(member.folder)
            before = None if everything else self._checked.get(key)
            self._checked[key] = self.ledger.check(member.talk, since=before)

    def finish(self) -> None:
        """Everything once more, and the files of stores that were closed in order."""
        self.check(everything=True)
        self.group.assert_equal_stores()

    # Parts of an episode

    def _choose(self) -> list[Fault] | None:
        kinds = list(faults.CLASSIC)
        if self.kinds == "flaremq>flaremq" and self.chance.random() < _PROMOTION_CHANCE:
            return None
        if self.has_small_disks and self.chance.random() < _DISK_CHANCE:
            return [faults.DiskFull(self.group, self.chance)]
        first = self.chance.choice(kinds)(self.group, self.chance)
        # A second one that the first does not contradict: links fail at any time.
        second = self.chance.choice((faults.LinkCut, faults.LinkSlow, faults.LinkBroken, faults.LinkDropped))
        return [second(self.group, self.chance), first] if self.chance.random() < 0.25 else [first]

    def _work(self, count: int) -> None:
        """Until so many more sends were acknowledged: of the work, not of the clock."""
        enough = len(self.ledger.acknowledged) + count
        what = f"{count} more acknowledged sends"
        self.group.wait(what, lambda: len(self.ledger.acknowledged) >= enough, seconds=_HEALED_S)

    def _promote(self) -> None:
        """The master is lost with its disk; the slave is restarted as the master, and an empty slave joins."""
        old = self.group
        self.group.wait("topic at the slave", partial(knows_topic, old.slave))
        old.master.kill()
        # What the slave has got by now is all there is. Clients must not meet the old group any more.
        self._traffic.pause()
        old.slave.kill()
        old.close()
        self._compared = 0
        self._checked.clear()
        self.group = self._new_group(store=old.slave.store)
        self.group.start()
        self._wait_served()
        self._checked[str(self.group.master.folder)] = self.ledger.check(self.group.master.talk)
        self._traffic.resume()

    def _new_group(self, store: Path | None = None) -> Group:
        self._generation += 1
        folder = self._folder / f"group-{self._generation}"
        group = Group(self.kinds, folder, options=_SHORT, master_options=sync_master(self.kinds))
        if self.has_small_disks:
            unmounts = [faults.small_disk(member.folder) for member in group.members]
            self.has_small_disks = None not in unmounts
            self._unmounts += [unmount for unmount in unmounts if unmount is not None]
        if store is not None:
            shutil.copytree(store, group.master.store, dirs_exist_ok=True)
        return group

    def _wait_served(self) -> None:
        """The topic exists, and a send is acknowledged."""
        self.group.wait("route", lambda: probe.has_route(self.group.name_server))
        if self._generation == 1:
            probe.create_topic(self.group.master.address, TOPIC, queues=QUEUES)
        with self.ledger.lock:
            self.ledger.invoked.add(b"hello")

        def is_taken() -> bool:
            return self.group.master.talk.send("other", b"hello").code == OK

        self.group.wait("acknowledged send", is_taken, seconds=_HEALED_S)


def knows_topic(member: Member) -> bool:
    return member.talk.pull(TOPIC, 0).code != NO_TOPIC


def run(folder: Path, kinds: str, seed: int, episodes: int, *, small_disks: bool = False) -> ClassicRun:
    """So many episodes with one group; whatever is wrong is raised with the history that led to it."""
    done = ClassicRun(folder, kinds, seed, small_disks=small_disks)
    try:
        for _ in range(episodes):
            done.episode()
        done.finish()
    except BaseException:
        logs = "\n".join(
            f"--- {member.folder.name}, {member.kind}:\n{member.log_tail()}" for member in done.group.members
        )
        print(f"seed {seed}, {kinds}, after: {'; '.join(done.history)}\n{logs}", file=sys.stderr)
        raise
    finally:
        done.close()
    return done

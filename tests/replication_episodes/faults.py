"""What goes wrong in an episode: each fault is begun, lasts a while under traffic, and is undone."""

from __future__ import annotations

import os
import random
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from tests.interop.replication.group import Group
from tests.support.tcp_proxy import DOWN, UP

_DISK_BYTES = 256 << 20


class Fault(ABC):
    """One thing that goes wrong. ``name`` is what replays and failures call it."""

    name: ClassVar[str]

    def __init__(self, group: Group, chance: random.Random) -> None:
        self.group = group
        self.chance = chance
        number = chance.randrange(len(group.slaves))
        self.slave, self.link = group.slaves[number], group.links[number]

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def undo(self) -> None: ...


class SlaveKilled(Fault):
    name = "slave killed"

    def begin(self) -> None:
        self.slave.kill()

    def undo(self) -> None:
        self.group.start_slaves()


class SlaveEmptied(SlaveKilled):
    name = "slave killed, its disk lost"

    def begin(self) -> None:
        self.slave.kill()
        self.slave.wipe()


class SlaveRestarted(Fault):
    name = "slave restarted"

    def begin(self) -> None:
        self.slave.stop()

    def undo(self) -> None:
        self.group.start_slaves()


class SlaveFrozen(Fault):
    name = "slave frozen"

    def begin(self) -> None:
        self.slave.freeze()

    def undo(self) -> None:
        self.slave.thaw()


class MasterKilled(Fault):
    name = "master killed"

    def begin(self) -> None:
        self.group.master.kill()

    def undo(self) -> None:
        self.group.start_master()


class MasterRestarted(Fault):
    name = "master restarted"

    def begin(self) -> None:
        self.group.master.stop()

    def undo(self) -> None:
        self.group.start_master()


class MasterFrozen(Fault):
    name = "master frozen"

    def begin(self) -> None:
        self.group.master.freeze()

    def undo(self) -> None:
        self.group.master.thaw()


class AllKilled(Fault):
    name = "all killed"

    def begin(self) -> None:
        members = list(self.group.members)
        self.chance.shuffle(members)
        for member in members:
            member.kill()

    def undo(self) -> None:
        self.group.start()


class _LinkFault(Fault):
    def undo(self) -> None:
        self.link.heal()


class LinkCut(_LinkFault):
    name = "link cut"

    def begin(self) -> None:
        self.link.cut()


class LinkDropped(_LinkFault):
    name = "link dropped again and again"

    def begin(self) -> None:
        for _ in range(3):
            self.link.drop()


class LinkSilent(_LinkFault):
    name = "link silent"

    def begin(self) -> None:
        self.link.silence(*self.chance.choice(((UP,), (DOWN,), (UP, DOWN))))


class LinkSlow(_LinkFault):
    name = "link slow"

    def begin(self) -> None:
        self.link.delay_s = self.chance.choice((0.005, 0.05))
        self.link.bytes_per_second = self.chance.choice((None, 2e5, 2e6))


class LinkBroken(_LinkFault):
    name = "link broken inside a frame"

    def begin(self) -> None:
        self.link.limit(self.chance.choice((DOWN, DOWN, UP)), self.chance.randrange(1, 100_000))


class DiskFull(Fault):
    """Of a member whose store is on a small disk of its own: see :func:`small_disk`."""

    name = "disk full"

    def __init__(self, group: Group, chance: random.Random) -> None:
        super().__init__(group, chance)
        self._member = chance.choice(group.members)

    def begin(self) -> None:
        fill_disk(self._member.folder)

    def undo(self) -> None:
        (self._member.folder / "ballast").unlink(missing_ok=True)


CLASSIC: tuple[type[Fault], ...] = (
    SlaveKilled,
    SlaveEmptied,
    SlaveRestarted,
    SlaveFrozen,
    MasterKilled,
    MasterRestarted,
    MasterFrozen,
    AllKilled,
    LinkCut,
    LinkDropped,
    LinkSilent,
    LinkSlow,
    LinkBroken,
)


def small_disk(folder: Path) -> Callable[[], None] | None:
    """Put a small disk of memory at the folder; how to take it away again, or None where that is not permitted."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        return None

    def take_away() -> None:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)

    return take_away


def fill_disk(folder: Path, *, left_bytes: int = 0) -> None:
    """Fill what is free with a ballast file, up to a rest."""
    free = os.statvfs(folder)
    count = free.f_bavail * free.f_frsize - left_bytes
    with (folder / "ballast").open("wb") as file:
        try:
            while count > 0:
                count -= file.write(bytes(min(count, 1 << 20)))
        except OSError:
            pass  # full

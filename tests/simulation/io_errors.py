"""The k-th call to the disk fails: for every k, with every error, once and for ever, also while recovering.

Whatever happens, the store answers with its own errors or a status, acknowledges nothing after a failed
sync, and opens again afterwards with every promise kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from flaremq.errors import CorruptionError, FlareMQError
from tests.simulation.world import World, small_options
from tests.support.crash_choices import SubsetChooser
from tests.support.crash_fs import Fault
from tests.support.oracle import OracleViolation

SCRIPT = (
    *("put", "batch", "tick", "large", "delay", "flush", "put", "large", "tick", "put", "reopen"),
    *("put", "large", "expire", "put", "batch", "tick", "put", "reopen", "put", "tick"),
)
Kind = Literal["eio", "enospc", "short"]
KINDS: tuple[Kind, ...] = ("eio", "enospc", "short")


@dataclass(frozen=True, slots=True)
class Case:
    mode: str
    kind: Kind
    forever: bool
    at: int
    script: tuple[str, ...] = SCRIPT

    def __str__(self) -> str:
        return f"{self.mode} {self.kind} {'forever' if self.forever else 'once'} {self.at}"


def run_script(case: Case) -> World | None:
    """The script with the fault of this case; None if it has fewer calls than that."""
    world = World("faults", small_options(flush_disk_type=case.mode))
    world.fs.faults = [Fault(kind=case.kind, at=case.at, forever=case.forever)]
    for name in ("open", *case.script):
        if name == "open" or world.store is None:
            try_open(world)
        if name != "open" and world.store is not None:
            world.run(name)
    if not world.fs.fired:
        return None
    if not case.forever and case.kind != "eio":
        check_service_returns(world)
    return world


def try_open(world: World) -> None:
    try:
        world.open()
    except CorruptionError as error:
        raise OracleViolation(f"an I/O error was taken for damage: {error}") from error
    except FlareMQError:
        world.store = None
        world.fs.locks.clear()  # a process that could not open its store ends


def check_service_returns(world: World) -> None:
    """I18: a full disk that is full no more is no reason to refuse, and no restart is needed."""
    if world.store is None:
        try_open(world)
    if world.fs.failed_syncs:
        return
    for _ in range(3):
        world.run("tick")
    answer = world.run("put")
    if answer.status is None or answer.status.name != "PUT_OK":
        raise OracleViolation(f"I18: the disk is well again, a put is answered {answer.status or answer.error}")


def aftermaths(world: World, case: Case) -> Iterator[World]:
    """The process goes down, or the whole machine; the disk works again."""
    world.fs.faults = []
    yield world.crash(f"after {case}")
    if not case.forever:
        yield world.fork(world.fs.kill())


def check_aftermath(after: World) -> int:
    """The next life keeps every promise; and so does the one after it, if the power fails in between."""
    after.open_and_check()
    after.fork(after.fs.crash(SubsetChooser(0))).open_and_check()
    return 2


def check_case(case: Case) -> int | None:
    """Images checked, or None when the script has no such call any more."""
    try:
        world = run_script(case)
        if world is None:
            return None
        return sum(check_aftermath(after) for after in aftermaths(world, case))
    except Exception as error:
        raise AssertionError(f"{error}\nrepeat: python -m tests.simulation.replay fault {case}") from error


def crashed_disk(mode: str) -> World:
    """A disk with a torn end of log, lost queue pages and lost names: recovery has work to do."""
    world = World("recovery", small_options(flush_disk_type=mode))
    world.open()
    for name in [
        "put",
        "batch",
        "tick",
        "large",
        "delay",
        "put",
        "large",
        "put",
        "batch",
        "put",
        "delay",
        "put",
    ]:
        world.run(name)
    return world.crash("recovery")


def check_recovery_case(case: Case) -> int | None:
    """The fault strikes while the store is being opened after a crash; the next opening succeeds."""
    try:
        world = crashed_disk(case.mode)
        world.fs.faults = [Fault(kind=case.kind, at=case.at, forever=case.forever)]
        try_open(world)
        if not world.fs.fired:
            return None
        return sum(check_aftermath(after) for after in aftermaths(world, case))
    except Exception as error:
        raise AssertionError(f"{error}\nrepeat: python -m tests.simulation.replay recovery-fault {case}") from error

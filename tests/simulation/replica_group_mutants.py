"""Deliberate bugs in the replication core, one at a time; the simulated group must find each of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from flaremq.replication import follower as following
from flaremq.replication.epochs import EpochTable
from flaremq.replication.follower import Confirm, Follower
from flaremq.replication.membership.lease import Lease
from flaremq.replication.membership.membership import Membership
from flaremq.replication.record_gate import RecordGate
from flaremq.replication.replicas import Replicas, _Link
from flaremq.replication.source import Source
from flaremq.replication.sync_rules import SyncMode
from flaremq.replication.sync_state import SyncState
from tests.simulation.replica_group import Group, Shape, draw_shape

Infect = Callable[[pytest.MonkeyPatch], None]
IsMeant = Callable[[Shape], bool]


@dataclass(frozen=True, slots=True)
class GroupMutant:
    name: str
    infect: Infect
    is_meant: IsMeant  # histories in which it can show


def hunt(mutant: GroupMutant, first_seed: int = 0) -> Iterator[int]:
    """Run the histories it can show in; yields their seeds."""
    seed = first_seed
    while True:
        chance = random.Random(f"group {seed}")
        shape = draw_shape(chance)
        if mutant.is_meant(shape):
            Group(chance, shape).run()
            yield seed
        seed += 1


def controlled(shape: Shape) -> bool:
    return shape.mode is SyncMode.SET


def naive(shape: Shape) -> bool:
    return controlled(shape) and shape.naive_controller


def classic(shape: Shape) -> bool:
    return shape.mode is not SyncMode.SET


def three_copies_on_one_host(shape: Shape) -> bool:
    return classic(shape) and shape.copies == 3 and shape.shared_host


def classic_async_flush(shape: Shape) -> bool:
    return classic(shape) and not shape.is_sync_flush


def replace(owner: type, name: str, make: Callable[[Any], Any]) -> Infect:
    """Put ``make(original)`` in its place."""

    def infect(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, name, make(getattr(owner, name)))

    return infect


def always(value: Any) -> Callable[[Any], Any]:
    return lambda original: lambda *args, **kwargs: value


def _confirms_what_it_has(original: Any) -> Any:
    return lambda self, own: own


def _slave_forgets_an_epoch(original: Any) -> Any:
    def add(self: Follower, entry: Any, steps: list[Any]) -> None:
        original(self, entry, [])

    return add


def _master_forgets_an_epoch(original: Any) -> Any:
    return lambda self, epoch, start: original(self, epoch, start) if not self.entries else self


def _cuts_nothing(original: Any) -> Any:
    return lambda self, master, *, own_end, master_end: own_end


def _cuts_to_the_masters_end_only(original: Any) -> Any:
    return lambda self, master, *, own_end, master_end: min(own_end, master_end)


def _serves_unconfirmed(original: Any) -> Any:
    def follow_up(self: Follower, steps: list[Any]) -> None:
        original(self, steps)
        if self.epochs is not None and self.log_end > self._confirmed:
            self._confirmed = self.log_end
            steps.append(Confirm(self.log_end))

    return follow_up


def _believes_every_report(original: Any) -> Any:
    def take(self: Source, offset: int) -> None:
        if self.requested < 0:
            self.requested = self._start = self.next_offset = offset
        self.acknowledged = offset

    return take


def _takes_the_proposed_set_at_once(original: Any) -> Any:
    def propose(self: SyncState, members: Any) -> Any:
        self.members = frozenset(members) | {self.own_id}
        return original(self, members)

    return propose


def _lets_half_records_in(original: Any) -> Any:
    def take(self: RecordGate, data: memoryview, runs: list[Any]) -> None:
        runs.append((self.offset, bytes(data)))
        self.offset += len(data)

    return take


def _joins_when_near(original: Any) -> Any:
    return lambda self, broker_id, link, now, epoch_start: link.acknowledged >= epoch_start


def _compares_nothing(original: Any) -> Any:
    def init(self: Follower, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, "tail": b""})

    return init


def _believes_deposed_masters(original: Any) -> Any:
    def shake(self: Follower, head: bytes, steps: list[Any]) -> None:
        before, self._settings = self._settings, following.replace(self._settings, master_epoch_min=0)
        try:
            original(self, head, steps)
        finally:
            self._settings = before

    return shake


def _leases_for_long(original: Any) -> Any:
    return lambda self, asked_at: original(self, asked_at + 1000.0)


GROUP_MUTANTS = [
    GroupMutant("acknowledges before the replica", replace(Replicas, "confirmed", _confirms_what_it_has), controlled),
    GroupMutant("acknowledges before any slave", replace(Replicas, "confirmed", _confirms_what_it_has), classic),
    GroupMutant("slave forgets an epoch", replace(Follower, "_add_epoch", _slave_forgets_an_epoch), controlled),
    GroupMutant("master forgets an epoch", replace(EpochTable, "append", _master_forgets_an_epoch), controlled),
    GroupMutant("cuts nothing", replace(EpochTable, "cut_for", _cuts_nothing), controlled),
    GroupMutant("cuts too little", replace(EpochTable, "cut_for", _cuts_to_the_masters_end_only), controlled),
    GroupMutant("serves unconfirmed", replace(Follower, "_follow_up", _serves_unconfirmed), controlled),
    GroupMutant(
        "counts a reconnected slave twice",
        replace(_Link, "counts", lambda original: property(lambda self: True)),
        three_copies_on_one_host,
    ),
    GroupMutant("believes a report above the log", replace(Source, "_take_report", _believes_every_report), classic),
    GroupMutant("master without lease", replace(Lease, "confirm", _leases_for_long), controlled),
    GroupMutant(
        "forgets who may be elected by an open change",
        replace(SyncState, "union", lambda original: property(lambda self: self.members)),
        controlled,
    ),
    GroupMutant(
        "takes a proposed set at once", replace(SyncState, "propose", _takes_the_proposed_set_at_once), controlled
    ),
    GroupMutant("lets a slave join that lacks something", replace(Replicas, "_joins", _joins_when_near), controlled),
    GroupMutant("compares no ends", replace(Follower, "__init__", _compares_nothing), classic_async_flush),
    GroupMutant("lets half records in", replace(RecordGate, "take", _lets_half_records_in), classic),
    GroupMutant("leads an epoch twice", replace(Membership, "_is_of_earlier_life", always(False)), naive),
]

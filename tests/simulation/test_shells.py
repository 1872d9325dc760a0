"""The code that drives replication, on a simulated loop; FLAREMQ_SHELLS and FLAREMQ_FIRST_SEED choose the seeds."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from flaremq.broker.replication.ha_connection import HAConnection
from flaremq.broker.replication.ha_server import HAServer
from flaremq.broker.replication.master_link import MasterLink
from flaremq.broker.replication.replica_log import ReplicaLog
from flaremq.broker.replication.sendable_log import SendableLog
from flaremq.broker.store_loop.durability import Durability
from flaremq.storage.status import PutMessageStatus
from tests.simulation.shell_group import Tally, run_history

_FIRST = int(os.environ.get("FLAREMQ_FIRST_SEED", "1"))
_CHUNKS = 4
_SHELLS = int(os.environ.get("FLAREMQ_SHELLS", "60"))
_SOAK_SHELLS = int(os.environ.get("FLAREMQ_SHELLS", "20000"))
_HISTORIES_MAX = 100  # in which a deliberate bug may hide


def _run(first: int, count: int, record_property: Callable[[str, object], None]) -> None:
    tally = Tally()
    for seed in range(first, first + count):
        run_history(seed, tally)
    record_property("shell histories", tally.histories)
    record_property("answered messages", tally.answered)
    record_property("crashes", tally.crashes)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_shells_keep_every_promise(chunk: int, record_property: Callable[[str, object], None]) -> None:
    share = -(-_SHELLS // _CHUNKS)
    _run(_FIRST + chunk * share, share, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(100))
def test_many_shells_keep_every_promise(chunk: int, record_property: Callable[[str, object], None]) -> None:
    share = -(-_SOAK_SHELLS // 100)
    _run(1_000_000 + _FIRST + chunk * share, share, record_property)


def test_a_seed_is_a_history_of_shells() -> None:
    """The same seed gives the same turns, messages and crashes."""
    assert run_history(7) == run_history(7)


async def _no_sync(self: ReplicaLog) -> None:
    pass


def _appended_is_held(self: ReplicaLog) -> int:
    return self.end


def _sends_what_is_not_durable(self: SendableLog) -> int:
    return self.own_end


def _waits_for_nobody(self: Durability) -> int:
    return self._own()


def _answers_when_it_sends(self: Durability, end_offset: int, group: object) -> None:
    self._progressed()
    self._next_waiting()(PutMessageStatus.PUT_OK)


def _tells_nobody(self: HAServer) -> None:
    pass


def _appends_out_of_order(self: MasterLink, data: memoryview) -> None:
    self.has_received = True
    steps = self._follower.receive(data, self._loop.time())
    if len(data) >= 600:
        self._append_beside(steps, memoryview(bytearray(data)))
    else:
        self._log.apply(steps)
    self._applied()


def _never_reads_again(self: MasterLink, why: str) -> None:
    self._holds.discard(why)


def _never_writes_again(self: HAConnection) -> None:
    pass


MUTANTS: dict[str, tuple[type, str, object]] = {
    "a slave reports what is not on its disk": (ReplicaLog, "held", property(_appended_is_held)),
    "a slave that connects again has not synced": (ReplicaLog, "sync", _no_sync),
    "a master sends what it may lose": (SendableLog, "end_offset", property(_sends_what_is_not_durable)),
    "answered without slaves": (Durability, "_acknowledged", _waits_for_nobody),
    "who sends alone waits for no report": (Durability, "_grew_alone", _answers_when_it_sends),
    "reports wake nobody": (HAServer, "_acknowledged", _tells_nobody),
    "pieces overtake each other": (MasterLink, "_take", _appends_out_of_order),
    "reading held for a piece is never resumed": (MasterLink, "_release", _never_reads_again),
    "a full socket is never written to again": (HAConnection, "resume_writing", _never_writes_again),
}


@pytest.mark.parametrize("name", MUTANTS, ids=lambda name: name.replace(" ", "-"))
def test_a_deliberate_bug_in_the_shells_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, bug = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, bug)
    with pytest.raises(AssertionError, match=r"repeat: .* shells"):
        for seed in range(1, 1 + _HISTORIES_MAX):
            run_history(seed)

"""Which copies count, and who belongs to the SyncStateSet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import InvalidArgumentError
from flaremq.replication.replicas import JOIN_AGAIN_S, JOIN_HOLD_S, Replicas
from flaremq.replication.sync_rules import PutRefusal, SyncMode, SyncRules
from flaremq.replication.sync_state import SyncState


def _replicas(mode: SyncMode, **rules: Any) -> Replicas:
    return Replicas(SyncRules(mode=mode, **rules))


def _connect(replicas: Replicas, key: str, held: int = -1, *, address: str = "", broker_id: int | None = None) -> None:
    replicas.connected(key, address=address or f"{key}:1", broker_id=broker_id, now=0.0)
    if held >= 0:
        replicas.acknowledged(key, held, 0.0)


def test_an_async_master_waits_for_nobody() -> None:
    replicas = _replicas(SyncMode.ASYNC, copies=3, copies_min=2)
    assert (replicas.confirmed(500), replicas.refusal(500), replicas.is_unavailable(500)) == (500, None, False)
    assert not replicas.rules.waits


def test_any_one_slave_will_do_by_the_rules_of_4_9() -> None:
    replicas = _replicas(SyncMode.ANY_SLAVE, gap_max=1000)
    assert replicas.is_unavailable(10)
    assert replicas.confirmed(10) == -1
    _connect(replicas, "a")
    assert not replicas.is_unavailable(999)
    assert replicas.is_unavailable(1000)
    replicas.acknowledged("a", 300, 0.0)
    _connect(replicas, "b", 400)
    assert replicas.confirmed(350) == 350
    assert replicas.confirmed(900) == 400
    assert not replicas.is_unavailable(1399)
    assert replicas.is_unavailable(1400)
    replicas.disconnected("b")
    assert replicas.is_unavailable(1300)
    assert replicas.confirmed(900) == 400  # told is told


def test_k_copies_include_the_master() -> None:
    replicas = _replicas(SyncMode.COPIES, copies=3)
    _connect(replicas, "a", 700)
    assert replicas.confirmed(900) == -1
    _connect(replicas, "b", 500)
    _connect(replicas, "c", 600)
    assert replicas.confirmed(900) == 600
    assert _replicas(SyncMode.COPIES, copies=1).confirmed(900) == 900


def test_acknowledgements_vanish_with_their_connection() -> None:
    replicas = _replicas(SyncMode.COPIES, copies=2)
    _connect(replicas, "a", 700)
    replicas.disconnected("a")
    assert replicas.confirmed(900) == -1
    replicas.disconnected("a")
    _connect(replicas, "b", 100)
    assert replicas.confirmed(900) == 100


def test_fewer_copies_will_do_where_that_is_wished_but_not_fewer_than_the_least() -> None:
    replicas = _replicas(SyncMode.COPIES, copies=3, copies_min=2, is_auto=True, gap_max=100)
    assert replicas.refusal(1000) is PutRefusal.IN_SYNC_REPLICAS_NOT_ENOUGH
    _connect(replicas, "a")
    assert replicas.refusal(10) is PutRefusal.IN_SYNC_REPLICAS_NOT_ENOUGH  # no report yet: who knows what it has
    replicas.acknowledged("a", 950, 0.0)
    assert replicas.refusal(1000) is None
    assert replicas.confirmed(1000) == 950
    _connect(replicas, "b", 940)
    assert replicas.confirmed(1000) == 950
    assert replicas.in_sync(1000) == 3
    replicas.acknowledged("a", 1000, 0.0)
    assert replicas.confirmed(1000) == 950
    replicas.acknowledged("b", 1000, 0.0)
    assert replicas.confirmed(1000) == 1000


def test_r7_a_slave_that_reconnected_counts_once() -> None:
    replicas = _replicas(SyncMode.COPIES, copies=3)
    replicas.connected("old", address="10.0.0.1:5000", now=0.0)
    replicas.sent("old", 500)
    replicas.acknowledged("old", 500, 0.0)
    replicas.connected("new", address="10.0.0.1:5001", now=1.0)
    replicas.sent("old", 900)  # the master goes on sending on a connection nobody reads
    replicas.sent("new", 900)
    replicas.acknowledged("new", 800, 1.0)
    assert replicas.confirmed(900) == -1
    replicas.disconnected("new")
    assert [line.counts for line in replicas.lines(900)] == [False]


def test_r7_two_java_slaves_on_one_machine_count_twice_once_both_acknowledge_new_bytes() -> None:
    replicas = _replicas(SyncMode.COPIES, copies=3)
    replicas.connected("a", address="10.0.0.1:5000", now=0.0)
    replicas.sent("a", 500)
    replicas.acknowledged("a", 500, 0.0)
    replicas.connected("b", address="10.0.0.1:5001", now=1.0)
    replicas.sent("a", 900)
    replicas.sent("b", 900)
    replicas.acknowledged("b", 900, 1.0)
    assert replicas.confirmed(900) == -1
    replicas.acknowledged("a", 700, 1.0)
    assert replicas.confirmed(900) == 700
    replicas.disconnected("b")
    assert [line.counts for line in replicas.lines(900)] == [True]


def test_of_a_broker_id_only_the_newest_connection_counts() -> None:
    replicas = _replicas(SyncMode.COPIES, copies=2)
    _connect(replicas, "old", 500, broker_id=7)
    replicas.connected("new", address="elsewhere:1", broker_id=7, now=0.0)
    replicas.sent("old", 900)
    replicas.acknowledged("old", 800, 0.0)
    assert replicas.confirmed(900) == -1
    replicas.acknowledged("new", 300, 0.0)
    assert replicas.confirmed(900) == 300


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(1, 100)), max_size=60))
def test_r7_k_copies_are_k_machines_whatever_connects_and_reconnects(events: list[tuple[int, int, int]]) -> None:
    """Two real slaves, each reading its newest connection only; what is confirmed with k=3 both must hold."""
    replicas = _replicas(SyncMode.COPIES, copies=3)
    held, own, number = [0, 0], 0, 0
    current: list[str | None] = [None, None]
    sent: dict[str, int] = {}
    for slave, event, size in events:
        if event == 0:
            number += 1
            current[slave] = key = f"link{number}"
            replicas.connected(key, address=f"10.0.0.1:{number}", now=0.0)
            sent[key] = held[slave]
            replicas.acknowledged(key, held[slave], 0.0)
        elif event == 1:
            own += size
            for key in sent:
                sent[key] = own
                replicas.sent(key, own)
        elif (key := current[slave]) is not None:
            held[slave] = min(held[slave] + size, sent[key])
            replicas.acknowledged(key, held[slave], 0.0)
        assert replicas.confirmed(own) <= min(held)


def test_rules_that_cannot_be_are_refused() -> None:
    for wrong in ({"copies": 0}, {"copies_min": 0}, {"gap_max": -1}):
        with pytest.raises(InvalidArgumentError):
            SyncRules(**wrong)


class TestSyncStateSet:
    def _master(self, *members: int, **rules: Any) -> Replicas:
        return Replicas(SyncRules(mode=SyncMode.SET, **rules), sync_state=SyncState(1, members, 5))

    def _join(self, replicas: Replicas, key: str, broker_id: int, held: int, now: float = 0.0) -> None:
        replicas.connected(key, address=f"{key}:1", broker_id=broker_id, now=now)
        replicas.acknowledged(key, held, now)

    def test_every_member_must_hold_it(self) -> None:
        replicas = self._master(1, 2, 3)
        self._join(replicas, "b", 2, 500)
        assert replicas.confirmed(900) == -1
        self._join(replicas, "c", 3, 400)
        self._join(replicas, "d", 4, 900)  # no member
        assert replicas.confirmed(900) == 400
        replicas.disconnected("c")
        replicas.acknowledged("b", 900, 0.0)
        assert replicas.confirmed(900) == 400

    def test_without_a_set_nothing_is_confirmed_or_taken(self) -> None:
        replicas = Replicas(SyncRules(mode=SyncMode.SET))
        assert replicas.confirmed(100) == -1
        assert replicas.refusal(100) is PutRefusal.IN_SYNC_REPLICAS_NOT_ENOUGH
        replicas.begin_term(SyncState(1))
        assert (replicas.confirmed(100), replicas.refusal(100)) == (100, None)

    def test_copies_are_counted_among_the_members(self) -> None:
        replicas = self._master(1, copies=2)
        self._join(replicas, "b", 2, 500)
        assert replicas.confirmed(900) == -1
        assert replicas.sync_state is not None
        replicas.sync_state.accept({1, 2}, 6)
        assert replicas.confirmed(900) == 500

    def test_a_set_that_is_or_may_become_too_small_takes_nothing(self) -> None:
        replicas = self._master(1, 2, copies_min=2)
        self._join(replicas, "b", 2, 0)
        assert replicas.refusal(0) is None
        replicas.disconnected("b")
        assert replicas.proposal(0.0, own_end=0) is None  # never looked at before: it gets time to come
        self._join(replicas, "b2", 2, 0)
        assert replicas.proposal(1.0, own_end=0) is None
        replicas.disconnected("b2")
        assert replicas.proposal(2.0, own_end=0) == {1}
        assert replicas.refusal(0) is PutRefusal.IN_SYNC_REPLICAS_NOT_ENOUGH

    def test_a_slave_that_has_everything_joins_and_counts_before_the_controller_answers(self) -> None:
        replicas = self._master(1)
        state = replicas.sync_state
        assert state is not None
        assert replicas.confirmed(500) == 500
        self._join(replicas, "b", 2, 400)
        assert replicas.proposal(0.0, own_end=500) is None
        replicas.acknowledged("b", 500, 1.0)
        assert replicas.proposal(1.0, own_end=500) == {1, 2}
        assert replicas.confirmed(600) == 500
        assert replicas.proposal(2.0, own_end=600) is None  # one change at a time
        state.refuse({1, 2})
        assert replicas.confirmed(600) == 600

    def test_while_a_change_is_open_the_union_counts(self) -> None:
        replicas = self._master(1, 2, 3)
        state = replicas.sync_state
        assert state is not None
        self._join(replicas, "b", 2, 500)
        self._join(replicas, "c", 3, 500)
        assert replicas.proposal(0.0, own_end=500) is None
        replicas.disconnected("c")
        assert replicas.proposal(1.0, own_end=500) == {1, 2}
        replicas.acknowledged("b", 900, 1.0)
        assert replicas.confirmed(900) == -1
        state.accept({1, 2}, 6)
        assert replicas.confirmed(900) == 900

    def test_a_request_without_an_answer_stays_open_beside_the_next(self) -> None:
        replicas = self._master(1, 2)
        state = replicas.sync_state
        assert state is not None
        self._join(replicas, "b", 2, 500)
        replicas.proposal(0.0, own_end=500)
        replicas.disconnected("b")
        assert replicas.proposal(1.0, own_end=500) == {1}
        self._join(replicas, "b2", 2, 500, now=2.0)
        assert state.propose({1, 2, 3}) == state.last_proposed == {1, 2, 3}
        assert (state.union, state.smallest) == ({1, 2, 3}, 1)
        assert not state.accept({1, 2}, 4)
        assert state.accept({1, 2}, 5)  # nothing new: both may still be taken
        assert state.is_changing
        assert state.accept({1}, 6)
        assert (state.members, state.union, state.is_changing) == ({1}, {1}, False)

    def test_a_member_behind_for_too_long_leaves(self) -> None:
        replicas = self._master(1, 2, not_caught_up_max_s=15.0)
        self._join(replicas, "b", 2, 500)
        assert replicas.proposal(0.0, own_end=500) is None
        for now in range(1, 16):
            replicas.acknowledged("b", 500 + now, float(now))
            assert replicas.proposal(float(now), own_end=900 + now) is None
        assert replicas.proposal(15.5, own_end=1000) == {1}

    def test_a_member_that_is_always_a_little_behind_stays(self) -> None:
        replicas = self._master(1, 2, not_caught_up_max_s=15.0)
        self._join(replicas, "b", 2, 100)
        for now in range(1, 100):
            replicas.acknowledged("b", now * 100, float(now))
            assert replicas.proposal(float(now), own_end=now * 100 + 150) is None

    def test_a_member_that_never_came_leaves_after_its_time(self) -> None:
        replicas = self._master(1, 2, not_caught_up_max_s=15.0)
        assert replicas.proposal(100.0, own_end=500) is None
        assert replicas.proposal(115.0, own_end=500) is None
        assert replicas.proposal(115.1, own_end=500) == {1}

    def test_a_learner_never_joins_or_counts(self) -> None:
        replicas = self._master(1)
        replicas.connected("b", address="b:1", broker_id=2, is_learner=True, now=0.0)
        replicas.acknowledged("b", 500, 0.0)
        assert replicas.proposal(0.0, own_end=500) is None

    def test_a_slave_below_the_start_of_the_epoch_does_not_join(self) -> None:
        replicas = self._master(1)
        self._join(replicas, "b", 2, 500)
        assert replicas.proposal(0.0, own_end=500, epoch_start=501) is None
        assert replicas.proposal(0.0, own_end=500, epoch_start=500) == {1, 2}

    def test_under_load_what_is_confirmed_waits_a_moment_for_a_slave_that_is_nearly_there(self) -> None:
        replicas = self._master(1)
        assert replicas.confirmed(1000) == 1000
        self._join(replicas, "b", 2, 900)
        assert replicas.proposal(0.0, own_end=1000) is None  # not known yet how far behind in time
        assert replicas.confirmed(1050) == 1050
        replicas.acknowledged("b", 1000, 0.1)
        assert replicas.proposal(0.1, own_end=1060) is None
        assert replicas.confirmed(1100) == 1050  # waits
        replicas.acknowledged("b", 1060, 0.2)
        assert replicas.proposal(0.2, own_end=1200) == {1, 2}
        assert replicas.confirmed(1200) == 1060

    def test_the_wait_for_one_that_does_not_come_is_short_and_rare(self) -> None:
        replicas = self._master(1)
        replicas.confirmed(1000)
        self._join(replicas, "b", 2, 900)
        replicas.proposal(0.0, own_end=1000)
        replicas.confirmed(1050)
        replicas.acknowledged("b", 1000, 0.1)
        replicas.proposal(0.1, own_end=1060)
        assert replicas.confirmed(1100) == 1050
        replicas.proposal(0.2 + JOIN_HOLD_S, own_end=1100)
        assert replicas.confirmed(1200) == 1200
        assert JOIN_AGAIN_S >= 10 * JOIN_HOLD_S

    def test_nobody_is_waited_for_while_another_change_is_open(self) -> None:
        replicas = self._master(1)
        replicas.confirmed(1000)
        self._join(replicas, "b", 2, 900)
        replicas.proposal(0.0, own_end=1000)
        replicas.confirmed(1050)
        replicas.acknowledged("b", 1000, 0.1)
        replicas.proposal(0.1, own_end=1060)
        assert replicas.confirmed(1100) == 1050  # broker 2 is nearly there
        self._join(replicas, "c", 3, 1100, now=0.2)
        assert replicas.proposal(0.2, own_end=1100) == {1, 3}
        assert replicas.confirmed(1100) == 1100

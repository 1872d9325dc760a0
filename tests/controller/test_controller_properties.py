"""Whatever brokers, administrators and strangers ask in whatever order: what the controller promises stays true."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flaremq.controller.groups import ReplicaGroup, groups_from_json, groups_to_json
from flaremq.controller.outcomes import Outcome
from flaremq.controller.state import ControllerState
from tests.support.controller_lab import NAME, ControllerLab

IDS = st.integers(0, 5)
OFFSETS = st.sampled_from([0, 5, 2**31, 2**32 + 5, 2**62])


class WatchedLab(ControllerLab):
    """Checks each decision against the state it was made upon."""

    def __init__(self, *, unclean: bool) -> None:
        super().__init__(unclean=unclean)
        self.masters: dict[int, int] = {}  # by epoch

    def _commit(self, outcome: Outcome):  # type: ignore[no-untyped-def]
        before, after = outcome.before, outcome.after
        if after is not None:
            self._watch(before, after)
        return super()._commit(outcome)

    def _watch(self, before: ReplicaGroup | None, after: ReplicaGroup) -> None:
        if after.master_id is not None:
            assert self.masters.setdefault(after.master_epoch, after.master_id) == after.master_id
            assert after.master_id in after.sync_state_set
        assert after.sync_state_set <= after.members.keys()
        if before is None:
            return
        assert after.master_epoch >= before.master_epoch
        assert after.sync_state_set_epoch >= before.sync_state_set_epoch
        if after.sync_state_set != before.sync_state_set:
            assert after.sync_state_set_epoch > before.sync_state_set_epoch
        if after.master_epoch > before.master_epoch:
            assert after.master_epoch == before.master_epoch + 1
            if before.has_elected and not self.state.unclean:
                assert after.master_id in before.sync_state_set
        elif after.master_id != before.master_id:
            assert after.master_id is None


class Controllers(RuleBasedStateMachine):
    """Five brokers of one name, their controller, and time."""

    @initialize(unclean=st.booleans())
    def begin(self, unclean: bool) -> None:
        self.lab = WatchedLab(unclean=unclean)

    @rule(broker_id=IDS, code=st.sampled_from(["x", "y"]))
    def apply(self, broker_id: int, code: str) -> None:
        self.lab.apply(broker_id, f"{code}{broker_id}")

    @rule(broker_id=IDS)
    def join(self, broker_id: int) -> None:
        if self.lab.next_id() == broker_id:
            self.lab.join(broker_id)

    @rule(broker_id=IDS, address=st.sampled_from(["", "127.0.0.1:7"]))
    def register(self, broker_id: int, address: str) -> None:
        self.lab.register(broker_id, address)

    @rule(broker_id=IDS, epoch=st.integers(-1, 4), offset=OFFSETS, timeout=st.sampled_from([100, 10_000, 2**40]))
    def heartbeat(self, broker_id: int, epoch: int, offset: int, timeout: int) -> None:
        self.lab.heartbeat(broker_id, epoch, offset, timeout_ms=timeout)

    @rule(broker_id=IDS)
    def lose(self, broker_id: int) -> None:
        self.lab.lose(broker_id)

    @rule(seconds=st.sampled_from([0.05, 1.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.lab.now += seconds
        self.lab.look()

    @rule(broker_id=st.integers(-1, 5), designate=st.booleans())
    def elect(self, broker_id: int, designate: bool) -> None:
        self.lab.elect(broker_id, designate=designate)

    @rule(master=IDS, members=st.sets(IDS), epoch=st.integers(-1, 4), set_epoch=st.integers(-1, 9))
    def alter(self, master: int, members: set[int], epoch: int, set_epoch: int) -> None:
        self.lab.alter(master, members, epoch=epoch, set_epoch=set_epoch)

    @rule(members=st.sets(IDS))
    def alter_by_the_master(self, members: set[int]) -> None:
        if self.lab.master is not None:
            self.lab.alter(self.lab.master, members | {self.lab.master})

    @rule(ids=st.sampled_from([None, "1", "1;2", "3", ";"]), living=st.booleans())
    def clean(self, ids: str | None, living: bool) -> None:
        self.lab.clean(ids, living=living)

    @rule()
    def restart(self) -> None:
        state = self.lab.state
        restored = groups_from_json(groups_to_json(state.groups.values()))
        assert restored == dict(state.groups)
        self.lab.state = ControllerState(restored.values(), now=self.lab.now, unclean=state.unclean)

    @invariant()
    def master_is_a_member_in_sync(self) -> None:
        group = self.lab.state.group(NAME) if hasattr(self, "lab") else None
        if group is not None and group.master_id is not None:
            assert group.master_id in group.sync_state_set <= group.members.keys()

    @invariant()
    def no_dead_master_is_left_when_time_has_come(self) -> None:
        if hasattr(self, "lab"):
            self.lab.look()
            assert self.lab.state.abandoned(self.lab.now) == []


TestControllers = Controllers.TestCase
TestControllers.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

"""A broker under a controller, event by event."""

from __future__ import annotations

import pytest

from flaremq.replication.membership.membership import Identity, Membership, MembershipSettings
from flaremq.replication.membership.requests import Ask, Code, GroupView, Kind, Reply
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
SETTINGS = MembershipSettings(controllers=(ADDRESS,), check_code="broker:10911;1")


class Life:
    """One membership with a controller that answers at once; roles are taken at once too."""

    def __init__(self, controller: ModelController, identity: Identity | None = None, *, epoch: int = 0) -> None:
        self.controller = controller
        self.now = 100.0
        self.membership = Membership(SETTINGS, identity or Identity(), epoch=epoch, now=self.now)
        self.done: list[Step] = []
        self.answers = True

    def run(self, seconds: float = 0.0) -> list[Step]:
        """Let time pass; the steps that were carried out."""
        before = len(self.done)
        until = self.now + seconds
        self._carry_out(self.membership.tick(self.now))
        while self.membership.due() <= until:
            self.now = max(self.now, self.membership.due())
            self._carry_out(self.membership.tick(self.now))
        self.now = until
        return self.done[before:]

    def _carry_out(self, steps: list[Step]) -> None:
        for step in steps:
            self.done.append(step)
            if isinstance(step, Ask):
                if self.answers:
                    self._carry_out(self.membership.answered(step.token, self.controller.handle(step), self.now))
            elif isinstance(step, Heartbeat):
                if self.answers and self.membership.broker_id is not None:
                    self.controller.alive.add(self.membership.broker_id)
            elif isinstance(step, BecomeMaster | BecomeSlave):
                self._carry_out(self.membership.role_taken(self.now))

    def kinds(self, steps: list[Step]) -> list[Kind]:
        return [step.kind for step in steps if isinstance(step, Ask)]


def _second(controller: ModelController) -> None:
    """Broker 2 is there, live, and a member of the set."""
    controller.ids[2] = "other"
    controller.addresses[2] = "broker:2"
    controller.alive.add(2)
    controller.members = frozenset({1, 2})
    controller.set_epoch += 1


def test_a_new_broker_gets_an_id_registers_and_is_elected() -> None:
    life = Life(ModelController())
    steps = life.run()
    assert life.kinds(steps) == [
        Kind.GET_METADATA,
        Kind.GET_NEXT_BROKER_ID,
        Kind.APPLY_BROKER_ID,
        Kind.REGISTER_BROKER,
        Kind.ELECT_MASTER,
    ]
    saves = [step for step in steps if isinstance(step, SaveTemporaryId | SaveId)]
    assert saves == [SaveTemporaryId(1, SETTINGS.check_code), SaveId(1)]
    assert BecomeMaster(1, frozenset({1}), 1) in steps
    assert life.membership.is_master
    assert life.membership.refusal(life.now) is None


def test_the_temporary_id_is_saved_before_it_is_applied_for() -> None:
    steps = Life(ModelController()).run()
    order = [type(step) if isinstance(step, SaveTemporaryId) else getattr(step, "kind", None) for step in steps]
    assert order.index(SaveTemporaryId) < order.index(Kind.APPLY_BROKER_ID)


def test_an_application_that_was_interrupted_is_repeated_with_its_own_check_code() -> None:
    controller = ModelController(ids={3: "before"})
    life = Life(controller, Identity(None, 3, "before"))
    life.run()
    assert life.membership.broker_id == 3


def test_an_id_that_somebody_else_took_is_given_up_for_the_next() -> None:
    controller = ModelController(ids={1: "somebody else"})
    life = Life(controller, Identity(None, 1, "ours"))
    life.run()
    assert life.membership.broker_id == 2


def test_a_broker_that_finds_a_master_follows_it() -> None:
    controller = ModelController(ids={1: "x"}, alive={1}, master_id=1, epoch=4, addresses={1: "broker:1"})
    life = Life(controller)
    steps = life.run()
    assert BecomeSlave(4, 1, "broker:1") in steps
    assert "broker:1" in str(life.membership.refusal(life.now))


def test_heartbeats_and_questions_go_on() -> None:
    life = Life(ModelController())
    life.run()
    steps = life.run(5.0)
    assert sum(isinstance(step, Heartbeat) for step in steps) == 5
    assert life.kinds(steps).count(Kind.GET_REPLICA_INFO) == 5


def test_a_master_without_controller_refuses_writes_when_its_lease_ends_and_takes_them_again_when_it_hears() -> None:
    life = Life(ModelController())
    life.run(1.0)
    life.answers = False
    life.run(8.5)
    assert life.membership.refusal(life.now) is None
    life.run(1.6)
    assert "controller" in str(life.membership.refusal(life.now))
    life.answers = True
    life.run(2.0)
    assert life.membership.refusal(life.now) is None
    assert life.membership.epoch == 1


def test_a_slow_answer_extends_the_lease_from_the_question_not_from_its_arrival() -> None:
    life = Life(ModelController())
    life.run()
    life.answers = False
    asks = [step for step in life.run(1.0) if isinstance(step, Ask) and step.kind is Kind.GET_REPLICA_INFO]
    sent = life.now
    life.now += 2.5
    life.membership.answered(asks[-1].token, life.controller.handle(asks[-1]), life.now)
    assert life.membership.refusal(sent + SETTINGS.lease_seconds - 0.01) is None
    assert life.membership.refusal(sent + SETTINGS.lease_seconds + 0.01) is not None


def test_a_notification_is_verified_with_the_controller_that_is_known() -> None:
    life = Life(ModelController())
    life.run()
    steps = life.membership.notified(99, life.now)
    assert [step.kind for step in steps if isinstance(step, Ask)] == [Kind.GET_REPLICA_INFO]
    assert not any(isinstance(step, BecomeMaster | BecomeSlave) for step in steps)
    assert life.membership.is_master


def test_a_notification_during_a_question_leads_to_another_one() -> None:
    life = Life(ModelController())
    life.run()
    life.answers = False
    (first,) = life.membership.notified(7, life.now)
    assert isinstance(first, Ask)
    assert life.membership.notified(8, life.now) == []
    (second,) = life.membership.answered(first.token, life.controller.handle(first), life.now)
    assert isinstance(second, Ask)
    assert second.kind is Kind.GET_REPLICA_INFO


def test_a_higher_epoch_demotes_a_master() -> None:
    controller = ModelController()
    life = Life(controller)
    life.run()
    _second(controller)
    controller.lose(1)
    steps = life.run(1.0)
    assert BecomeSlave(2, 2, "broker:2") in steps
    assert not life.membership.is_master


def test_a_lower_epoch_is_ignored_with_an_alarm() -> None:
    controller = ModelController(ids={1: "x", 2: "y"}, alive={2}, master_id=2, epoch=3, addresses={2: "broker:2"})
    life = Life(controller, Identity(1), epoch=5)
    steps = life.run(2.0)
    assert not any(isinstance(step, BecomeMaster | BecomeSlave) for step in steps)
    assert "epoch 3" in life.membership.alarm


def test_a_restarted_master_stays_silent_until_its_earlier_life_is_noticed() -> None:
    controller = ModelController(
        ids={1: "x"}, alive={1}, master_id=1, epoch=3, addresses={1: "broker:1"}, members=frozenset({1}), set_epoch=5
    )
    life = Life(controller, Identity(1), epoch=3)
    steps = life.run(5.0)
    assert not any(isinstance(step, Heartbeat | BecomeMaster) for step in steps)
    controller.lose(1)
    assert BecomeMaster(4, frozenset({1}), 6) in life.run(2.0)


def test_a_view_that_comes_while_a_role_is_being_taken_is_taken_afterwards() -> None:
    membership = Membership(SETTINGS, Identity(1), epoch=0, now=0.0)
    (search,) = membership.tick(0.0)
    assert isinstance(search, Ask)
    (register,) = membership.answered(search.token, Reply(leader=ADDRESS), 0.0)
    assert isinstance(register, Ask)
    view = GroupView(1, "broker:1", 2, frozenset({1}), 3)
    steps = membership.answered(register.token, Reply(group=view), 0.0)
    assert BecomeMaster(2, frozenset({1}), 3) in steps
    (info,) = membership.notified(3, 0.0)
    assert isinstance(info, Ask)
    newer = GroupView(2, "broker:2", 3, frozenset({2}), 4)
    assert not any(isinstance(step, BecomeSlave) for step in membership.answered(info.token, Reply(group=newer), 0.1))
    assert not membership.has_term
    assert membership.propose(frozenset({1, 2}), 0.1) == []
    assert BecomeSlave(3, 2, "broker:2") in membership.role_taken(0.2)


def test_a_set_is_proposed_and_settled_while_the_role_of_master_is_still_being_taken() -> None:
    membership = Membership(SETTINGS, Identity(1), epoch=0, now=0.0)
    (search,) = membership.tick(0.0)
    assert isinstance(search, Ask)
    (register,) = membership.answered(search.token, Reply(leader=ADDRESS), 0.0)
    assert isinstance(register, Ask)
    membership.answered(register.token, Reply(group=GroupView(1, "broker:1", 2, frozenset({1}), 3)), 0.0)
    assert not membership.is_master
    assert membership.has_term
    (ask,) = (step for step in membership.propose(frozenset({1, 2}), 0.1) if isinstance(step, Ask))
    assert (ask.kind, ask.master_epoch, ask.set_epoch) == (Kind.ALTER_SYNC_STATE_SET, 2, 3)
    view = GroupView(1, "broker:1", 2, frozenset({1, 2}), 4)
    assert SetSettled(frozenset({1, 2}), 4) in membership.answered(ask.token, Reply(group=view), 0.2)
    membership.role_taken(0.3)
    assert membership.is_master
    assert membership.members == {1, 2}


def test_a_group_without_master_is_asked_to_elect() -> None:
    controller = ModelController(
        ids={1: "x", 2: "y"}, alive={2}, master_id=2, epoch=3, addresses={2: "b:2"}, members=frozenset({1, 2})
    )
    life = Life(controller, Identity(1), epoch=3)
    life.run()
    controller.alive.discard(2)
    controller.master_id = None
    steps = life.run(1.5)
    assert Kind.ELECT_MASTER in life.kinds(steps)
    assert life.membership.is_master
    assert life.membership.epoch == 4


def test_not_leader_leads_to_a_search() -> None:
    life = Life(ModelController())
    life.run()
    life.controller.is_leader = False
    steps = life.run(1.5)
    assert Kind.GET_METADATA in life.kinds(steps)
    life.controller.is_leader = True
    assert Kind.GET_REPLICA_INFO in life.kinds(life.run(2.0))


def test_a_controller_that_names_itself_is_believed_before_one_that_names_another() -> None:
    settings = MembershipSettings(controllers=("a:1", "b:2", "c:3"), check_code="x;1")
    membership = Membership(settings, Identity(1), epoch=0, now=0.0)
    asks = {step.to: step for step in membership.tick(0.0) if isinstance(step, Ask)}
    membership.answered(asks["b:2"].token, Reply(leader="b:2"), 0.0)
    membership.answered(asks["a:1"].token, Reply(leader="c:3"), 0.0)
    assert membership.leader == "b:2"


# The SyncStateSet


def _master() -> Life:
    life = Life(ModelController())
    life.run()
    controller = life.controller
    controller.ids[2] = "other"
    controller.addresses[2] = "broker:2"
    controller.alive.add(2)
    return life


def test_a_proposal_that_is_taken_settles_the_set() -> None:
    life = _master()
    (ask,) = life.membership.propose(frozenset({1, 2}), life.now)
    assert isinstance(ask, Ask)
    assert (ask.master_epoch, ask.set_epoch) == (1, 1)
    steps = life.membership.answered(ask.token, life.controller.handle(ask), life.now)
    assert steps[0] == SetSettled(frozenset({1, 2}), 2)


def test_a_refused_proposal_settles_the_old_set() -> None:
    life = _master()
    (ask,) = life.membership.propose(frozenset({1, 3}), life.now)
    assert isinstance(ask, Ask)
    steps = life.membership.answered(ask.token, life.controller.handle(ask), life.now)
    assert steps[0] == SetSettled(frozenset({1}), 1)


def test_a_proposal_without_answer_stays_open_although_the_controller_shows_the_old_set() -> None:
    life = _master()
    life.answers = False
    (lost,) = life.membership.propose(frozenset({1, 2}), life.now)
    assert isinstance(lost, Ask)
    life.membership.failed(lost.token, life.now)
    life.controller.alive.discard(2)  # so that a second copy is refused, which proves nothing about the first
    life.answers = True
    steps = life.run(5.0)
    assert not any(isinstance(step, SetSettled) for step in steps)
    life.controller.alive.add(2)
    life.controller.handle(lost)  # the first copy comes through after all
    assert SetSettled(frozenset({1, 2}), 2) in life.run(2.0)


def test_a_proposal_without_answer_is_settled_when_no_copy_can_be_under_way_any_more() -> None:
    life = _master()
    (lost,) = life.membership.propose(frozenset({1, 2}), life.now)
    assert isinstance(lost, Ask)
    life.membership.failed(lost.token, life.now)
    life.controller.alive.discard(2)
    steps = life.run(SETTINGS.settle_seconds + 3.0)
    assert SetSettled(frozenset({1}), 1) in steps


def test_a_role_change_drops_the_proposal() -> None:
    life = _master()
    life.answers = False
    (ask,) = life.membership.propose(frozenset({1, 2}), life.now)
    assert isinstance(ask, Ask)
    life.answers = True
    life.controller.members = frozenset({1, 2})
    life.controller.lose(1)
    life.run(1.5)
    assert not life.membership.is_master
    late = life.membership.answered(ask.token, Reply(Code.FENCED_MASTER_EPOCH), life.now)
    assert not any(isinstance(step, SetSettled) for step in late)


@pytest.mark.parametrize("members", [frozenset({2}), frozenset({1})])
def test_a_set_without_the_master_or_without_change_is_not_proposed(members: frozenset[int]) -> None:
    life = _master()
    assert life.membership.propose(members, life.now) == []


def test_who_resigns_shows_no_sign_of_life_for_the_length_of_the_lease() -> None:
    life = _master()
    life.membership.resign("the disk is gone", life.now)
    assert life.membership.refusal(life.now) is not None
    assert not any(isinstance(step, Heartbeat) for step in life.run(SETTINGS.lease_seconds - 0.5))


def test_a_copy_of_a_broker_that_is_alive_elsewhere_gets_no_role_and_says_why() -> None:
    membership = Membership(SETTINGS, Identity(1), epoch=0, now=0.0)
    (search,) = membership.tick(0.0)
    assert isinstance(search, Ask)
    (register,) = membership.answered(search.token, Reply(leader=ADDRESS), 0.0)
    assert isinstance(register, Ask)
    assert membership.answered(register.token, Reply(Code.BROKER_ID_INVALID), 0.0) == []
    assert "another address" in membership.alarm
    assert membership.role is None

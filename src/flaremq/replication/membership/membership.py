"""Membership: one broker of a group whose master a controller chooses.

Order of a life: find the leading controller; get an id (once in the life of a store); register; hear who is master,
or ask for an election; take the role; then a heartbeat each second, and the question who is master as often.

What holds whatever the network does:

- The epochs of the roles taken only grow, and none is below the last epoch in the store's own history.
- A role is taken because a controller that we asked said so. A notification (1008) only makes us ask now.
- A role of master is taken at most once per epoch. A broker that comes back and hears that it is still the master of
  an epoch in its own history may have lost the end of its log while others have it: it shows no sign of life until the
  controller has noticed that its earlier life ended, and then takes what the election gives.
- A master refuses writes when it has not been confirmed for the length of its lease (see ``lease``).

Calls return the steps to carry out. ``now`` is steady time in seconds; nothing here waits or sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flaremq.replication.membership.leader_search import LeaderSearch
from flaremq.replication.membership.lease import Lease
from flaremq.replication.membership.requests import Ask, Code, GroupView, Kind, Reply
from flaremq.replication.membership.set_proposal import SetProposal
from flaremq.replication.membership.steps import (
    BecomeMaster,
    BecomeSlave,
    Heartbeat,
    SaveId,
    SaveTemporaryId,
    SetSettled,
    Step,
)

_NEVER = float("inf")
_AT_ONCE = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """Times in seconds. ``check_code`` tells this process's application for an id from another's."""

    controllers: tuple[str, ...]
    check_code: str
    heartbeat_seconds: float = 1.0
    lease_seconds: float = 10.0  # what heartbeats tell the controller as their timeout
    info_seconds: float = 1.0
    search_seconds: float = 10.0
    retry_seconds: float = 0.5
    request_seconds: float = 3.0
    settle_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Identity:
    """What the identity files say: our id, or one that we may have applied for (with its check code)."""

    broker_id: int | None = None
    temporary_id: int | None = None
    temporary_code: str = ""


class Membership:
    """One owner, no threads. Every event and every ``due`` leads to a call; its steps are carried out in order."""

    def __init__(self, settings: MembershipSettings, identity: Identity, *, epoch: int, now: float) -> None:
        self._settings = settings
        self._temporary = identity
        self._search = LeaderSearch(
            settings.controllers, period=settings.search_seconds, retry=settings.retry_seconds, now=now
        )
        self._lease = Lease(settings.lease_seconds)
        self._proposal = SetProposal(settings.settle_seconds)
        self._asked: dict[int, tuple[Ask, float]] = {}  # by token, with the time it was sent
        self._tokens = 0
        self._main: int | None = None  # token of the request that the next one waits for
        self._altering: int | None = None
        self._main_due = now
        self._alter_due = now
        self._info_due = now
        self._heartbeat_due = _NEVER  # until registered
        self._is_registered = False
        self._wants_election = False
        self._is_changing = False
        self._next_view: tuple[GroupView, float] | None = None  # came while a role was being taken
        self._role: BecomeMaster | BecomeSlave | None = None
        self.broker_id = identity.broker_id
        self.epoch = epoch  # highest one taken or found in the store's history; 0 before the first
        self.members: frozenset[int] = frozenset()  # of the set as settled; means something to a master
        self.set_epoch = 0
        self.alarm = ""  # why there is no role, or a doubtful one, where waiting will not help

    # What the owner asks

    @property
    def is_master(self) -> bool:
        """Whether the role of master is taken, lease or not."""
        return isinstance(self._role, BecomeMaster) and not self._is_changing

    @property
    def has_term(self) -> bool:
        """Whether the SyncStateSet is this broker's to change: it is the master, or becomes it, of the newest epoch."""
        return isinstance(self._role, BecomeMaster) and self._next_view is None

    @property
    def role(self) -> BecomeMaster | BecomeSlave | None:
        """The role taken, or being taken."""
        return self._role

    @property
    def leader(self) -> str | None:
        return self._search.leader

    @property
    def proposed(self) -> frozenset[int] | None:
        """The set that a master has proposed and that may be the controller's by now, or yet become it."""
        return self._proposal.members

    def refusal(self, now: float) -> str | None:
        """Why writes are refused; None if they are not."""
        if self._role is None or self._is_changing:
            return "the broker has not heard its role from the controller yet"
        if isinstance(self._role, BecomeSlave):
            return f"the broker follows {self._role.master_address}"
        if not self._lease.holds(now):
            return "the master has not heard of its controller for too long; another one may have been elected"
        return None

    def due(self) -> float:
        """When ``tick`` has something to do at the latest."""
        times = [self._heartbeat_due, self._search.due]
        times += [sent + self._settings.request_seconds for _, sent in self._asked.values()]
        if self._search.leader is not None and self._main is None:
            idle = self._is_registered and (self._is_changing or not self._wants_election)
            times.append(max(self._main_due, self._info_due) if idle else self._main_due)
        if self._search.leader is not None and self._altering is None and self._proposal.is_open:
            times.append(self._alter_due)
        if self.is_master:
            times.append(self._lease.due)
        return min(times)

    # What happens

    def tick(self, now: float) -> list[Step]:
        """Time has passed."""
        steps: list[Step] = []
        limit = self._settings.request_seconds
        for token in [token for token, (_, sent) in self._asked.items() if sent + limit <= now]:
            steps += self.failed(token, now)
        self._lease.look(now)
        if now >= self._heartbeat_due:
            self._heartbeat_due = now + self._settings.heartbeat_seconds
            steps.append(Heartbeat(self._search.everybody))
        return steps + self._go_on(now)

    def answered(self, token: int, reply: Reply, now: float) -> list[Step]:
        """The answer to an ``Ask``; one that was given up is ignored."""
        ask, sent = self._asked.pop(token, (None, now))
        if ask is None:
            return []
        steps: list[Step] = []
        if ask.kind is Kind.GET_METADATA:
            self._search.answered(ask.to, reply.leader if reply.code == Code.SUCCESS else "")
        elif ask.kind is Kind.ALTER_SYNC_STATE_SET:
            if token == self._altering:  # else it was settled meanwhile
                self._altering = None
                steps = self._alter_answered(ask, reply, sent, now)
        else:
            self._main = None
            if reply.code == Code.NOT_LEADER:
                self._search.lost(ask.to, now)
            else:
                steps = self._main_answered(ask, reply, sent, now)
        return steps + self._go_on(now)

    def failed(self, token: int, now: float) -> list[Step]:
        """No answer will come: no connection, a lost one, or too late."""
        ask, _ = self._asked.pop(token, (None, 0.0))
        if ask is None or ask.kind is Kind.GET_METADATA:
            return []
        self._search.lost(ask.to, now)
        if ask.kind is not Kind.ALTER_SYNC_STATE_SET:
            self._main = None
        elif token == self._altering:
            self._altering = None
            self._proposal.unanswered(now)
            self._alter_due = now + self._settings.retry_seconds
            self._info_due = _AT_ONCE
        return self._go_on(now)

    def notified(self, epoch: int, now: float) -> list[Step]:
        """Somebody says that roles have changed, or the master cannot be reached: ask the controller, now."""
        if epoch > self.epoch or self._role is None:
            self._info_due = _AT_ONCE
        return self._go_on(now)

    def doubted(self, now: float) -> list[Step]:
        """The master's connection is gone: perhaps the controller knows more."""
        self._info_due = _AT_ONCE
        return self._go_on(now)

    def propose(self, members: frozenset[int], now: float) -> list[Step]:
        """A master wants this SyncStateSet. Ignored while a proposal is open; ``SetSettled`` closes it.

        A broker that is still taking the role may propose as soon as it keeps the set that came with it.
        """
        if not self.has_term or self._proposal.is_open or members == self.members or self.broker_id not in members:
            return []
        self._proposal.open(members)
        self._alter_due = now
        return self._go_on(now)

    def role_taken(self, now: float) -> list[Step]:
        """The last role step is carried out."""
        assert self._is_changing
        self._is_changing = False
        waiting, self._next_view = self._next_view, None
        steps = self._take(*waiting, now) if waiting is not None else []
        return steps + self._go_on(now)

    def resign(self, reason: str, now: float) -> None:
        """The role cannot be filled (a disk failed, say): no sign of life any more, so that another one is elected."""
        self.alarm = reason
        self._role = None
        self._is_changing = False
        self._next_view = None
        self._proposal.close()
        self._altering = None
        self._lease.drop()
        self._heartbeat_due = _NEVER
        self._is_registered = self._wants_election = False
        self._main_due = now + self._settings.lease_seconds

    # Requests

    def _ask(self, kind: Kind, to: str, now: float) -> Ask:
        self._tokens += 1
        ask = Ask(self._tokens, kind, to, broker_id=self.broker_id or 0)
        if kind is Kind.APPLY_BROKER_ID:
            wanted = self._temporary
            ask = replace(ask, broker_id=wanted.temporary_id or 0, check_code=wanted.temporary_code)
        elif kind is Kind.ALTER_SYNC_STATE_SET:
            members = self._proposal.members or frozenset()
            ask = replace(ask, master_epoch=self.epoch, members=members, set_epoch=self.set_epoch)
        self._asked[ask.token] = (ask, now)
        return ask

    def _go_on(self, now: float) -> list[Step]:
        """Send what is due."""
        steps: list[Step] = [self._ask(Kind.GET_METADATA, to, now) for to in self._search.begin(now)]
        leader = self._search.leader
        if leader is None:
            return steps
        if self._main is None and now >= self._main_due:
            steps += self._next_main(leader, now)
        if self._proposal.is_open and self._altering is None and now >= self._alter_due:
            alter = self._ask(Kind.ALTER_SYNC_STATE_SET, leader, now)
            self._altering = alter.token
            steps.append(alter)
        return steps

    def _next_main(self, leader: str, now: float) -> list[Step]:
        """The next step of enrolment, or the regular question."""
        if self.broker_id is None:
            kind = Kind.GET_NEXT_BROKER_ID if self._temporary.temporary_id is None else Kind.APPLY_BROKER_ID
        elif not self._is_registered:
            kind = Kind.REGISTER_BROKER
        elif self._wants_election and not self._is_changing:
            kind = Kind.ELECT_MASTER
        elif now >= self._info_due:
            kind = Kind.GET_REPLICA_INFO
            self._info_due = now + self._settings.info_seconds
        else:
            return []
        ask = self._ask(kind, leader, now)
        self._main = ask.token
        return [ask]

    # Answers

    def _main_answered(self, ask: Ask, reply: Reply, sent: float, now: float) -> list[Step]:
        code, kind = reply.code, ask.kind
        if kind is Kind.GET_NEXT_BROKER_ID and code == Code.SUCCESS and reply.next_id > 0:
            check_code = self._settings.check_code
            self._temporary = Identity(None, reply.next_id, check_code)
            return [SaveTemporaryId(reply.next_id, check_code)]
        if kind is Kind.APPLY_BROKER_ID and code == Code.SUCCESS:
            self.broker_id = ask.broker_id
            return [SaveId(ask.broker_id)]
        if kind is Kind.APPLY_BROKER_ID and code == Code.BROKER_ID_INVALID:
            self._temporary = Identity()  # another broker took it: try the next id
            return []
        if kind is Kind.REGISTER_BROKER and code == Code.SUCCESS:
            return self._registered(reply, sent, now)
        if kind is Kind.ELECT_MASTER and code in (Code.SUCCESS, Code.MASTER_STILL_EXIST) and reply.group is not None:
            self._wants_election = False
            return self._take(reply.group, sent, now)
        if kind is Kind.GET_REPLICA_INFO and code == Code.SUCCESS and reply.group is not None:
            return self._take(reply.group, sent, now)
        if kind is Kind.GET_REPLICA_INFO and code == Code.BROKER_METADATA_NOT_EXIST:
            self._is_registered = False  # the controller has been started afresh
        self._main_due = now + self._settings.retry_seconds
        if code == Code.BROKER_NEED_TO_BE_REGISTERED:
            self._is_registered = False
            self.alarm = (
                f"the controller at {ask.to} does not know broker id {self.broker_id}: it has lost its state, "
                "or this store belongs to another cluster"
            )
        elif kind is Kind.REGISTER_BROKER and code == Code.BROKER_ID_INVALID:
            self.alarm = f"broker id {self.broker_id} is alive at another address: two brokers have copies of one store"
        elif kind is Kind.ELECT_MASTER:
            self._wants_election = False  # another broker may have been elected meanwhile: look first
            self._info_due = _AT_ONCE
        return []

    def _registered(self, reply: Reply, sent: float, now: float) -> list[Step]:
        view = reply.group
        self.alarm = ""
        if view is not None and self._is_of_earlier_life(view):
            self.alarm = f"the controller has not noticed yet that the earlier life of master {self.broker_id} ended"
            self._main_due = now + self._settings.retry_seconds
            return []
        self._is_registered = True
        self._heartbeat_due = now + self._settings.heartbeat_seconds
        steps: list[Step] = [Heartbeat(self._search.everybody)]
        if view is None or view.master_id is None:
            self._wants_election = True
            return steps
        return steps + self._take(view, sent, now)

    def _is_of_earlier_life(self, view: GroupView) -> bool:
        return self._role is None and view.master_id == self.broker_id and view.master_epoch <= self.epoch

    def _take(self, view: GroupView, asked_at: float, now: float) -> list[Step]:
        """A controller's word about the group."""
        if self._info_due != _AT_ONCE:
            self._info_due = max(self._info_due, asked_at + self._settings.info_seconds)
        if view.master_id is None:
            self._wants_election = True
            return []
        if self._is_of_earlier_life(view):
            self._is_registered = False
            self._heartbeat_due = _NEVER
            self._main_due = now + self._settings.retry_seconds
            return []
        role = self._role
        if view.master_epoch < self.epoch:
            self.alarm = f"the controller speaks of epoch {view.master_epoch}, this broker has seen {self.epoch}"
            return []
        if role is not None and view.master_epoch == role.epoch:
            return self._confirmed(role, view, asked_at)
        if self._is_changing:
            self._next_view = (view, asked_at)
            return []
        return self._change_role(view, asked_at)

    def _confirmed(self, role: BecomeMaster | BecomeSlave, view: GroupView, asked_at: float) -> list[Step]:
        """The controller says what we know, or a little more."""
        master_id = self.broker_id if isinstance(role, BecomeMaster) else role.master_id
        if master_id != view.master_id:
            self.alarm = f"two masters in epoch {role.epoch}: {master_id} and {view.master_id}"
            return []
        self.alarm = ""
        if isinstance(role, BecomeMaster):
            self._lease.confirm(asked_at)
            return [] if self._is_changing else self._note_set(view, asked_at)
        if role.master_address != view.master_address and not self._is_changing:
            return self._change_role(view, asked_at)
        return []

    def _change_role(self, view: GroupView, asked_at: float) -> list[Step]:
        assert view.master_id is not None
        self._is_changing = True
        self._wants_election = False
        self._proposal.close()  # the controller refuses what names an older epoch
        self._altering = None
        self._lease.drop()
        self.alarm = ""
        self.epoch = view.master_epoch
        if view.master_id == self.broker_id:
            self.members, self.set_epoch = view.members, view.set_epoch
            self._role = BecomeMaster(view.master_epoch, view.members, view.set_epoch)
            self._lease.confirm(asked_at)
        else:
            self._role = BecomeSlave(view.master_epoch, view.master_id, view.master_address)
        return [self._role]

    # The SyncStateSet

    def _note_set(self, view: GroupView, asked_at: float) -> list[Step]:
        """The set as the controller has it at this moment; an open proposal may still change it."""
        if view.set_epoch < self.set_epoch:
            self.alarm = f"the controller has SyncStateSet {view.set_epoch}, this master has seen {self.set_epoch}"
            return []
        # A copy that is under way may have been applied after this answer was given: then silence proves nothing.
        is_certain = self._proposal.is_open and self._altering is None
        is_news = view.set_epoch > self.set_epoch
        if not is_news and not (is_certain and self._proposal.is_settled_by_silence(asked_at)):
            return []
        return self._settle(view.members, view.set_epoch)

    def _settle(self, members: frozenset[int], set_epoch: int) -> list[Step]:
        self._proposal.close()
        self._altering = None  # an answer that still comes is ignored
        self.members, self.set_epoch = members, set_epoch
        return [SetSettled(members, set_epoch)]

    def _alter_answered(self, ask: Ask, reply: Reply, sent: float, now: float) -> list[Step]:
        self._alter_due = now + self._settings.retry_seconds
        if reply.code == Code.SUCCESS and reply.group is not None:
            if reply.group.set_epoch <= self.set_epoch:
                return []
            self._lease.confirm(sent)
            return self._settle(reply.group.members, reply.group.set_epoch)
        if reply.code == Code.NOT_LEADER:
            self._search.lost(ask.to, now)
            self._proposal.unanswered(now)  # it may have been written down before the leader lost its place
            return []
        self._info_due = _AT_ONCE
        epochs = (Code.FENCED_MASTER_EPOCH, Code.FENCED_SYNC_STATE_SET_EPOCH, Code.INVALID_MASTER)
        if reply.code in epochs or not self._proposal.is_refused_for_good:
            return []  # the next answer about the group has the state to go by
        return self._settle(self.members, self.set_epoch)

"""A controller as small as can be: the rules of elections and sets, without liveness timers or a wire."""

from __future__ import annotations

from dataclasses import dataclass, field

from flaremq.replication.membership.requests import Ask, Code, GroupView, Kind, Reply


@dataclass
class ModelController:
    """One group. ``alive`` is what the test says; elections take the lowest live member of the set."""

    address: str = "controller:1"
    is_leader: bool = True
    ids: dict[int, str] = field(default_factory=dict)  # applied ids with their check codes
    addresses: dict[int, str] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    master_id: int | None = None
    epoch: int = 0
    members: frozenset[int] = frozenset()
    set_epoch: int = 0

    def view(self) -> GroupView:
        address = self.addresses.get(self.master_id, "") if self.master_id is not None else ""
        return GroupView(self.master_id, address, self.epoch, self.members, self.set_epoch)

    def handle(self, ask: Ask, address: str = "") -> Reply:
        if ask.kind is Kind.GET_METADATA:
            return Reply(leader=self.address)
        if not self.is_leader:
            return Reply(Code.NOT_LEADER)
        return getattr(self, f"_{ask.kind.name.lower()}")(ask, address)  # type: ignore[no-any-return]

    def _get_next_broker_id(self, _: Ask, __: str) -> Reply:
        return Reply(next_id=max(self.ids, default=0) + 1)

    def _apply_broker_id(self, ask: Ask, _: str) -> Reply:
        if self.ids.get(ask.broker_id, ask.check_code) != ask.check_code:
            return Reply(Code.BROKER_ID_INVALID)
        self.ids[ask.broker_id] = ask.check_code
        return Reply()

    def _register_broker(self, ask: Ask, address: str) -> Reply:
        if ask.broker_id not in self.ids:
            return Reply(Code.BROKER_NEED_TO_BE_REGISTERED)
        self.addresses[ask.broker_id] = address or f"broker:{ask.broker_id}"
        return Reply(group=self.view() if self.master_id in self.alive else None)

    def _elect_master(self, ask: Ask, _: str) -> Reply:
        self.alive.add(ask.broker_id)
        if self.master_id is not None and self.master_id in self.alive:
            return Reply(Code.MASTER_STILL_EXIST, group=self.view())
        if self.epoch == 0:
            self.members = frozenset({ask.broker_id})
        return Reply(group=self.view()) if self.elect() else Reply(Code.ELECT_MASTER_FAILED)

    def elect(self) -> bool:
        """A new master and epoch; without candidates none."""
        candidates = sorted(self.members & self.alive)
        self.master_id = candidates[0] if candidates else None
        if self.master_id is None:
            return False
        self.epoch += 1
        self.members = frozenset({self.master_id})
        self.set_epoch += 1
        return True

    def lose(self, broker_id: int) -> None:
        """A broker is gone."""
        self.alive.discard(broker_id)
        if broker_id == self.master_id:
            self.elect()

    def _get_replica_info(self, _: Ask, __: str) -> Reply:
        return Reply(group=self.view()) if self.addresses else Reply(Code.BROKER_METADATA_NOT_EXIST)

    def _alter_sync_state_set(self, ask: Ask, _: str) -> Reply:
        if ask.broker_id != self.master_id:
            return Reply(Code.INVALID_MASTER)
        if ask.master_epoch != self.epoch:
            return Reply(Code.FENCED_MASTER_EPOCH)
        if ask.set_epoch != self.set_epoch:
            return Reply(Code.FENCED_SYNC_STATE_SET_EPOCH)
        if ask.members == self.members:
            return Reply(Code.ALTER_SYNC_STATE_SET_FAILED)
        if not ask.members <= self.alive:
            return Reply(2006)
        self.members, self.set_epoch = ask.members, self.set_epoch + 1
        return Reply(group=self.view())

"""A controller's state with brokers to speak for, and a clock to move."""

from __future__ import annotations

from flaremq.controller.outcomes import Outcome, Reply
from flaremq.controller.state import ControllerState
from flaremq.protocol.bodies.controller import SyncStateSet
from flaremq.protocol.headers import controller as headers
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader

CLUSTER = "DefaultCluster"
NAME = "broker-a"


def address_of(broker_id: int) -> str:
    return f"127.0.0.1:{20901 + 10 * broker_id}"


class ControllerLab:
    """Requests by short names; every decision is committed at once."""

    def __init__(self, state: ControllerState | None = None, *, unclean: bool = False, grace: float = 10.0) -> None:
        self.now = 100.0
        self.state = state or ControllerState(now=self.now, unclean=unclean, grace_seconds=grace)
        self.outcomes: list[Outcome] = []

    def _commit(self, outcome: Outcome) -> Reply:
        self.outcomes.append(outcome)
        return self.state.commit(outcome, self.now)

    def join(self, broker_id: int, name: str = NAME) -> Reply:
        """A new broker: id, registration, first heartbeat."""
        applied = self.apply(broker_id, name=name)
        assert applied.code == 0, applied
        registered = self.register(broker_id, name=name)
        self.heartbeat(broker_id, name=name)
        return registered

    def apply(self, broker_id: int, code: str | None = None, name: str = NAME) -> Reply:
        check_code = f"{address_of(broker_id)};1" if code is None else code
        header = headers.ApplyBrokerIdRequestHeader(
            cluster_name=CLUSTER, broker_name=name, applied_broker_id=broker_id, register_check_code=check_code
        )
        return self._commit(self.state.apply_broker_id(header))

    def next_id(self, name: str = NAME) -> int:
        header = headers.GetNextBrokerIdRequestHeader(cluster_name=CLUSTER, broker_name=name)
        answer = self._commit(self.state.next_broker_id(header)).header
        assert isinstance(answer, headers.GetNextBrokerIdResponseHeader)
        return answer.next_broker_id

    def register(self, broker_id: int, address: str = "", name: str = NAME) -> Reply:
        header = headers.RegisterBrokerToControllerRequestHeader(
            cluster_name=CLUSTER,
            broker_name=name,
            broker_id=broker_id,
            broker_address=address or address_of(broker_id),
            invoke_time=0,
        )
        return self._commit(self.state.register_broker(header, self.now))

    def heartbeat(
        self,
        broker_id: int,
        epoch: int = -1,
        max_offset: int = 0,
        *,
        address: str = "",
        timeout_ms: int = 10_000,
        priority: int = 2**31 - 1,
        name: str = NAME,
    ) -> Reply:
        header = BrokerHeartbeatRequestHeader(
            cluster_name=CLUSTER,
            broker_name=name,
            broker_addr=address or address_of(broker_id),
            broker_id=broker_id,
            epoch=epoch,
            max_offset=max_offset,
            confirm_offset=0,
            heartbeat_timeout_millis=timeout_ms,
            election_priority=priority,
        )
        return self.state.heartbeat(header, self.now, source=(name, broker_id))

    def lose(self, broker_id: int, name: str = NAME) -> list[Reply]:
        """The broker's connection closes; whatever follows from that."""
        self.state.source_closed((name, broker_id))
        return self.look()

    def look(self) -> list[Reply]:
        """The controller looks for masters that are gone."""
        found = self.state.abandoned(self.now)
        return [self._commit(self.state.elect_by_itself(name, self.now)) for name in found]

    def elect(self, broker_id: int = -1, *, designate: bool = False, name: str = NAME) -> Reply:
        header = headers.ElectMasterRequestHeader(
            cluster_name=CLUSTER, broker_name=name, broker_id=broker_id, designate_elect=designate, invoke_time=0
        )
        return self._commit(self.state.elect_master(header, self.now))

    def alter(self, master: int, members: set[int], *, epoch: int = -1, set_epoch: int = -1, name: str = NAME) -> Reply:
        """Propose a set; the epochs that are in effect unless told otherwise."""
        group = self.state.group(name)
        header = headers.AlterSyncStateSetRequestHeader(
            broker_name=name,
            master_broker_id=master,
            master_epoch=epoch if epoch >= 0 or group is None else group.master_epoch,
            invoke_time=0,
        )
        old = set_epoch if set_epoch >= 0 or group is None else group.sync_state_set_epoch
        body = SyncStateSet(sync_state_set=frozenset(members), sync_state_set_epoch=old)
        return self._commit(self.state.alter_sync_state_set(header, body, self.now))

    def clean(self, ids: str | None = None, *, living: bool = False, name: str = NAME) -> Reply:
        header = headers.CleanControllerBrokerDataRequestHeader(
            cluster_name=CLUSTER, broker_name=name, broker_controller_ids_to_clean=ids, is_clean_living_broker=living
        )
        return self._commit(self.state.clean_broker_data(header, self.now))

    def in_sync(self, *broker_ids: int) -> None:
        """These brokers of the name, the first one master, all in the set."""
        for broker_id in sorted(broker_ids):
            self.join(broker_id)
        assert self.elect(broker_ids[0]).code == 0
        if len(broker_ids) > 1:
            assert self.alter(broker_ids[0], set(broker_ids)).code == 0

    @property
    def master(self) -> int | None:
        group = self.state.group(NAME)
        return None if group is None else group.master_id

    @property
    def epochs(self) -> tuple[int, int]:
        group = self.state.group(NAME)
        assert group is not None
        return group.master_epoch, group.sync_state_set_epoch

    @property
    def set_members(self) -> set[int]:
        group = self.state.group(NAME)
        return set() if group is None else set(group.sync_state_set)

"""Role: the part a broker plays in its group at this moment, and whether it takes messages.

In classic mode the role comes from the options and stays for the life of the process; under a controller it changes
while the broker runs. Whoever behaves differently on a slave asks the one Role of the broker, or is called back when it
changes. A master may also refuse messages for a time (a controller that is not heard any more): it stays the master.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flaremq.broker.options import BrokerOptions
from flaremq.errors import InvalidArgumentError
from flaremq.storage.options import StoreOptions

MASTER_ID: Final = 0
_SLAVE: Final = "SLAVE"
_NO_ACTING_MASTER: Final = (
    "acting masters do not exist here; slaves serve reads while their master is away, and with a controller one of "
    "them becomes the master"
)


class Role:
    """The role of one broker. Event loop only."""

    def __init__(self, *, is_master: bool, broker_id: int, epoch: int = 0) -> None:
        self.is_master = is_master
        self.broker_id = broker_id  # as registered at the name servers: a master is 0
        self.epoch = epoch  # of the master, under a controller; else 0
        self.on_change: list[Callable[[], None]] = []  # after the change
        self._held_for = ""

    @classmethod
    def of(cls, options: BrokerOptions, store: StoreOptions) -> Role:
        """The role that the options give, where no controller does."""
        is_master = store.broker_role != _SLAVE
        return cls(is_master=is_master, broker_id=MASTER_ID if is_master else options.broker_id)

    @property
    def refusal(self) -> str | None:
        """Why no messages are taken; None if they are."""
        if not self.is_master:
            return "this broker is a slave: messages go to its master"
        return self._held_for or None

    @property
    def accepts_writes(self) -> bool:
        return self.is_master and not self._held_for

    def become_master(self, epoch: int) -> None:
        self._change(is_master=True, broker_id=MASTER_ID, epoch=epoch)

    def become_slave(self, broker_id: int, epoch: int) -> None:
        if broker_id <= MASTER_ID:
            raise InvalidArgumentError(f"a slave's brokerId is 1 or more, not {broker_id}")
        self._change(is_master=False, broker_id=broker_id, epoch=epoch)

    def hold_writes(self, reason: str) -> None:
        """Stay what we are, and take no messages until :meth:`resume_writes`."""
        self._set_held(reason)

    def resume_writes(self) -> None:
        self._set_held("")

    def _set_held(self, reason: str) -> None:
        if self._held_for != reason:
            self._held_for = reason
            self._tell()

    def _change(self, *, is_master: bool, broker_id: int, epoch: int) -> None:
        if (is_master, broker_id, epoch) != (self.is_master, self.broker_id, self.epoch):
            self.is_master, self.broker_id, self.epoch = is_master, broker_id, epoch
            self._tell()

    def _tell(self) -> None:
        for callback in self.on_change:
            callback()


def check_role(options: BrokerOptions, store: StoreOptions) -> None:
    """InvalidArgumentError for options that contradict each other or that nobody could keep."""
    for name, is_set, sentence in (
        ("enableDLegerCommitLog", store.enable_d_leger_commit_log, "logs by consensus do not exist here"),
        ("enableSlaveActingMaster", options.enable_slave_acting_master, _NO_ACTING_MASTER),
    ):
        if is_set:
            raise InvalidArgumentError(f"option {name}='true' is not allowed: {sentence}")
    if store.broker_role == _SLAVE and options.broker_id <= MASTER_ID and not options.enable_controller_mode:
        raise InvalidArgumentError(
            "brokerRole=SLAVE needs a brokerId of 1 or more, different from that of the other slaves: 0 is the master"
        )
    if options.enable_controller_mode and not options.controller_addr.strip():
        raise InvalidArgumentError("enableControllerMode=true needs controllerAddr, the addresses of the controllers")
    if 0 < store.in_sync_replicas < store.min_in_sync_replicas:
        raise InvalidArgumentError(
            f"minInSyncReplicas={store.min_in_sync_replicas} is more than inSyncReplicas={store.in_sync_replicas}"
        )


def role_warnings(options: BrokerOptions, store: StoreOptions) -> list[str]:
    """A sentence for each option that will not do what its reader may think."""
    found, role = [], store.broker_role
    if role != _SLAVE and options.broker_id != MASTER_ID and not options.enable_controller_mode:
        found.append(f"brokerId={options.broker_id} is ignored: a broker with brokerRole={role} is 0")
    if role == "SYNC_MASTER" and store.in_sync_replicas == 1:
        found.append(
            "brokerRole=SYNC_MASTER with inSyncReplicas=1 waits for no slave: messages are answered while only this "
            "broker has them; set inSyncReplicas=2, or leave it out to wait for any one slave"
        )
    if role == "ASYNC_MASTER" and store.in_sync_replicas > 1 and not options.enable_controller_mode:
        found.append(f"inSyncReplicas={store.in_sync_replicas} has no effect: only a SYNC_MASTER waits for slaves")
    if role == "SYNC_MASTER" and not options.enable_controller_mode:
        is_auto = store.enable_auto_in_sync_replicas
        if is_auto and store.in_sync_replicas == 0:
            found.append(
                "enableAutoInSyncReplicas=true has no effect without inSyncReplicas: any one slave is waited for"
            )
        if store.min_in_sync_replicas > 1 and not (is_auto and store.in_sync_replicas):
            found.append(
                f"minInSyncReplicas={store.min_in_sync_replicas} has no effect without inSyncReplicas and "
                "enableAutoInSyncReplicas=true: sends are stored however few slaves are in sync"
            )
    if role != _SLAVE and store.ha_master_address:
        found.append(f"haMasterAddress={store.ha_master_address} has no effect: this broker is a master")
    return found

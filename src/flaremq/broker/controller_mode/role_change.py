"""What a change of role does to a broker that runs.

To lead: follow nobody, note the epoch, show all of the log, number the queues, start what only a master does, take
messages. Nothing is reopened, so it takes as long as the last bytes need to be shown.

To follow: refuse messages and answer those who wait that their message may be lost. A broker that led has services
that hold positions in a log whose end may have to go: its store is opened anew. One that never led goes on as it is.

To cut: what lies behind the common history is set aside and removed by the store when it opens.
"""

from __future__ import annotations

import logging
from typing import Protocol

from flaremq.broker.controller_mode.epoch_store import EpochStore
from flaremq.broker.ha_service import HAService
from flaremq.broker.parts import BrokerState
from flaremq.broker.role import Role
from flaremq.errors import UnavailableError
from flaremq.replication.membership.steps import BecomeMaster, BecomeSlave
from flaremq.replication.sync_state import SyncState

_log = logging.getLogger(__name__)
_CHANGING = "the broker is becoming the master"


class ControlledBroker(Protocol):
    """The broker as a change of role needs it. The parts are others after each ``reopen``."""

    @property
    def role(self) -> Role: ...

    @property
    def state(self) -> BrokerState: ...

    @property
    def ha(self) -> HAService: ...

    @property
    def is_open(self) -> bool:
        """Whether store and ports are open: False after a ``reopen`` that failed."""

    async def reopen(self, cut_at: int | None = None) -> None:
        """Close ports and store and open them again, as a slave; the log ends at ``cut_at`` then."""

    async def announce(self) -> None:
        """Register at the name servers, or tell them the role that is new."""


class RoleChange:
    """Changes of one broker, one at a time. Event loop only."""

    def __init__(self, broker: ControlledBroker, epochs: EpochStore) -> None:
        self._broker = broker
        self._epochs = epochs
        self._is_first = True

    async def lead(self, step: BecomeMaster, broker_id: int) -> None:
        """Become the master of an epoch, or go on as the master of the next one."""
        broker = self._broker
        if not broker.is_open:
            raise UnavailableError("the store is closed: it could not be opened again")
        role, ha, state = broker.role, broker.ha, broker.state
        role.hold_writes(_CHANGING)
        ha.follow(None, None)
        ha.server.drop_connections(f"this broker is the master of epoch {step.epoch} now")
        store_loop = state.store_loop
        # The first epoch of a log takes in what a classic broker wrote: else nobody could fetch it.
        driver = store_loop.driver
        self._epochs.add(step.epoch, driver.appended if self._epochs.table.entries else driver.min_offset)
        ha.replicas.begin_term(SyncState(broker_id, step.members, step.set_epoch))
        shown = {topic for topic, _ in store_loop.store.queues()}
        role.become_master(step.epoch)  # from here on what enough copies hold is shown
        if not state.has_services:
            await store_loop.run(store_loop.driver.become_writable)
            store_loop.dispatching.catch_up()
            await state.start_services(was_slave=True)
            for topic, queue_count in ha.copy.take_unknown_topics(shown):
                _log.warning("topic %s was made too late to be copied: it is made anew", topic)
                state.topics.create_on_send_back(topic, queue_count)
        self._tell(f"master of {state.options.broker_name} in epoch {step.epoch} from {store_loop.driver.appended} on")

    async def follow(self, step: BecomeSlave, broker_id: int) -> None:
        """Become a slave; the log is fetched as soon as the master says where."""
        broker = self._broker
        if not broker.is_open:
            await broker.reopen()
        # Or was to lead, and failed when its store took messages already.
        led = broker.state.has_services or not broker.state.store_loop.driver.is_replica
        broker.ha.client.master_epoch_min = step.epoch
        broker.ha.follow(None, None)
        broker.ha.server.drop_connections("this broker is not the master any more")
        broker.ha.replicas.begin_term(None)
        broker.role.become_slave(broker_id, step.epoch)
        broker.role.resume_writes()  # a slave refuses them anyway
        if led:
            broker.state.store_loop.driver.become_replica()
            await broker.reopen()
            broker.ha.client.master_epoch_min = step.epoch
        self._tell(f"slave {broker_id} of {step.master_address} in epoch {step.epoch}")

    def _tell(self, role: str) -> None:
        """A change of role is news; the first role of a process is not."""
        _log.log(logging.INFO if self._is_first else logging.WARNING, "this broker is %s", role)
        self._is_first = False

    async def cut(self, offset: int) -> None:
        """The log follows another history from ``offset`` on: set that part aside and remove it."""
        broker = self._broker
        epoch_min = broker.ha.client.master_epoch_min
        end = broker.state.store_loop.driver.appended
        _log.warning("%d bytes of the log from %d on were never confirmed: set aside and cut", end - offset, offset)
        await broker.reopen(offset)
        self._epochs.cut(offset)
        broker.ha.client.master_epoch_min = epoch_min

"""Office: the one owner of a controller's state while it leads.

Every change goes through :meth:`Office.change`, one at a time: decide upon the state as it is, make the change durable,
commit it, tell the brokers, answer. Nothing is answered before it is durable. Questions are answered from what was
committed, without waiting for a change that is under way.

A term of leadership has its own state object. When a term ends, whatever was begun in it is not committed any more:
the next leader, perhaps this very process, reads what is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable

from flaremq.clock import Clock
from flaremq.controller.groups import ReplicaGroup
from flaremq.controller.liveness import Liveness
from flaremq.controller.options import ControllerOptions
from flaremq.controller.outcomes import Notice, Outcome, Reply
from flaremq.controller.state import ControllerState, note_heartbeat
from flaremq.controller.stores.store import StateStore
from flaremq.errors import FlareMQError, UnavailableError
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader

_log = logging.getLogger(__name__)


class Office:
    """Decides while this controller leads. Event loop only."""

    def __init__(
        self, store: StateStore, options: ControllerOptions, clock: Clock, tell: Callable[[Notice], None]
    ) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        self._tell = tell
        self._liveness = Liveness()  # outlives a term: brokers send heartbeats to every controller
        self._state: ControllerState | None = None
        self._deciding = asyncio.Lock()  # guards the order: decide, make durable, commit

    def lead(self, groups: Iterable[ReplicaGroup]) -> None:
        """A term begins with this state."""
        self._state = ControllerState(
            groups,
            now=self._clock.monotonic(),
            unclean=self._options.enable_elect_unclean_master,
            liveness=self._liveness,
        )
        _log.info("this controller leads, with %d broker names", len(self._state.groups))

    def follow(self) -> None:
        """The term is over."""
        if self._state is not None:
            _log.warning("this controller does not lead any more")
        self._state = None

    def retire(self) -> None:
        """The server stops."""
        self._state = None

    @property
    def group_count(self) -> int:
        """Broker names it knows while it leads."""
        return 0 if self._state is None else len(self._state.groups)

    @property
    def state(self) -> ControllerState:
        """What was committed; RequestError (not leader) unless this controller leads at this moment."""
        state = self._state
        if state is None or not self.store.is_leading:
            raise RequestError(ResponseCode.CONTROLLER_NOT_LEADER, "this controller does not lead")
        return state

    @property
    def now(self) -> float:
        return self._clock.monotonic()

    async def change(self, decide: Callable[[ControllerState, float], Outcome]) -> Reply:
        """Decide, make it durable, commit; the reply may be sent then."""
        async with self._deciding:
            state = self.state
            state.unclean = self._options.enable_elect_unclean_master
            outcome = decide(state, self.now)
            state.check(outcome)
            if outcome.after is not None:
                try:
                    await self.store.save(outcome.after)
                except UnavailableError as error:
                    raise RequestError(ResponseCode.CONTROLLER_NOT_LEADER, str(error)) from error
                if self._state is not state:
                    raise RequestError(ResponseCode.CONTROLLER_NOT_LEADER, "this controller does not lead any more")
            reply = state.commit(outcome, self.now)
            self._note(outcome)
            notice = state.notice(outcome, self.now)
            if notice is not None and self._options.notify_broker_role_changed:
                self._tell(notice)
            return reply

    def heartbeat(self, header: BrokerHeartbeatRequestHeader, source: Hashable) -> Reply:
        """A sign of life, which every controller takes."""
        if self._state is not None:
            return self._state.heartbeat(header, self.now, source)
        return note_heartbeat(self._liveness, header, self.now, source)

    def source_closed(self, source: Hashable) -> None:
        """Whoever sent heartbeats over this connection is gone."""
        self._liveness.close(source)

    def forgive(self, seconds: float) -> None:
        """This process stood still: what brokers sent meanwhile lies in its sockets, and they get that time back."""
        self._liveness.forgive(seconds)

    async def replace_lost_masters(self) -> None:
        """Elect where a master is gone. What fails now is tried again at the next look."""
        if self._state is None or not self.store.is_leading:
            return
        for name in self._state.abandoned(self.now):
            try:
                await self.change(lambda state, now, name=name: state.elect_by_itself(name, now))  # type: ignore[misc]
            except FlareMQError as error:
                _log.error("the lost master of %s could not be replaced: %s", name, error)
                return

    def _note(self, outcome: Outcome) -> None:
        """The log of an operator: every change of a master or a set, with the numbers."""
        before, after = outcome.before, outcome.after
        if after is None:
            return
        lost = before is not None and before.master_id is not None and before.master_id != after.master_id
        if lost and after.master_id is None:
            _log.error("%s has no master: broker %s is gone", after.broker_name, before and before.master_id)
        if before is None or before.master_epoch != after.master_epoch or before.sync_state_set != after.sync_state_set:
            _log.log(
                logging.WARNING if lost else logging.INFO,
                "%s: master %s, epoch %d, in sync %s, set epoch %d",
                after.broker_name,
                after.master_id,
                after.master_epoch,
                sorted(after.sync_state_set),
                after.sync_state_set_epoch,
            )

"""ControllerMode: drives a membership with the clock, the network and the broker it belongs to.

Steps are carried out as they come; a change of role takes its time and has a task of its own, so that heartbeats and
questions go on meanwhile. Everything is on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from flaremq.broker.controller_mode.controller_client import ControllerClient
from flaremq.broker.controller_mode.epoch_store import EpochStore
from flaremq.broker.controller_mode.identity_files import IdentityFiles
from flaremq.broker.controller_mode.role_change import ControlledBroker, RoleChange
from flaremq.broker.options import BrokerOptions
from flaremq.broker.role import Role
from flaremq.clock import Clock
from flaremq.errors import FlareMQError, StoreIOError
from flaremq.remoting.address import parse_addresses
from flaremq.remoting.options import RemotingOptions
from flaremq.replication.epochs import NO_EPOCH
from flaremq.replication.membership.membership import Membership, MembershipSettings
from flaremq.replication.membership.requests import Ask
from flaremq.replication.membership.steps import (
    BecomeMaster,
    BecomeSlave,
    Heartbeat,
    SaveId,
    SaveTemporaryId,
    SetSettled,
    Step,
)

_log = logging.getLogger(__name__)
_REQUEST_SECONDS: Final = 3.0
_SET_LOOK_SECONDS: Final = 0.02  # after a report: reports come by the thousand, the set changes once a day
_MASTER_LOOK_SECONDS: Final = 0.1  # for where a master that was just elected sends its log from
_LINK_LOOK_SECONDS: Final = 1.0
FIRST_ID: Final = 1  # of the first broker of a name; stands for those that have none yet


class ControllerMode:
    """The talk of one broker with its controllers, and what follows from it."""

    def __init__(
        self,
        broker: ControlledBroker,
        options: BrokerOptions,
        remoting: RemotingOptions,
        clock: Clock,
        *,
        identity: IdentityFiles,
        epochs: EpochStore,
    ) -> None:
        self._broker = broker
        self._options = options
        self._clock = clock
        self._identity = identity
        self.epochs = epochs
        self._client = ControllerClient(options, remoting, clock, timeout=_REQUEST_SECONDS)
        self._change = RoleChange(broker, epochs)
        self._changing = asyncio.Lock()  # one change of role, or cut, at a time
        self._tasks: set[asyncio.Task[None]] = set()
        self._finder: asyncio.Task[None] | None = None  # of the master's HA address
        self._is_cutting = False  # nobody is followed until that is done
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._alarm = ""
        self._led_at = self._now()  # when a controller led last, as far as we know
        self.has_role = asyncio.Event()
        settings = MembershipSettings(
            controllers=tuple(parse_addresses(options.controller_addr)),
            check_code=f"{options.address};{clock.now_ms()}",
            heartbeat_seconds=options.broker_heartbeat_interval / 1000,
            lease_seconds=options.controller_heart_beat_timeout_mills / 1000,
            info_seconds=options.sync_broker_metadata_period / 1000,
            search_seconds=options.sync_controller_metadata_period / 1000,
            request_seconds=_REQUEST_SECONDS,
        )
        self.membership = Membership(settings, identity.load(), epoch=epochs.table.last_epoch, now=self._now())

    def first_role(self) -> Role:
        """The role of a broker that was just opened: it takes nothing until it is elected."""
        membership = self.membership
        epoch = membership.role.epoch if membership.role is not None else 0
        return Role(is_master=False, broker_id=membership.broker_id or FIRST_ID, epoch=epoch)

    def start(self) -> None:
        """Begin; the role comes when a controller has said it."""
        self._do(self.membership.tick(self._now()))

    async def stop(self) -> None:
        """Say nothing any more. The controller takes the close of the connections as our end."""
        self._is_stopped = True
        for timer in (self._timer, self._set_timer):
            if timer is not None:
                timer.cancel()
        tasks = [*self._tasks, *([self._finder] if self._finder is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def attach(self) -> None:
        """The broker has new parts: hear what happens in them."""
        ha = self._broker.ha
        ha.alarm = self._describe_alarm
        ha.server.on_acknowledged.append(self._slaves_changed)
        ha.client.log.on_epoch = self.epochs.add
        ha.client.log.on_cut = self._cut

    def _describe_alarm(self) -> str:
        if self.membership.leader is None and not self.membership.alarm:
            return f"no controller answers at {self._options.controller_addr}"
        return self.membership.alarm

    def notified(self, epoch: int) -> None:
        """NOTIFY_BROKER_ROLE_CHANGED came, from whomever."""
        self._do(self.membership.notified(epoch, self._now()))

    def _now(self) -> float:
        return self._clock.monotonic()

    # Steps

    def _do(self, steps: list[Step]) -> None:
        if self._is_stopped:
            return
        for step in steps:
            if isinstance(step, Ask):
                self._spawn(self._ask(step))
            elif isinstance(step, Heartbeat):
                for address in step.to:
                    self._spawn(self._beat(address))
            elif isinstance(step, SaveTemporaryId | SaveId):
                if not self._save(step):
                    break
            elif isinstance(step, SetSettled):
                self._settle(step)
            else:
                self._spawn(self._take_role(step))
        self._look()

    def _save(self, step: SaveTemporaryId | SaveId) -> bool:
        """Whether the id is on disk; what comes after counts on it."""
        try:
            if isinstance(step, SaveId):
                self._identity.save(step.broker_id)
                _log.info("this broker's id in %s is %d for good", self._options.broker_name, step.broker_id)
            else:
                self._identity.save_temporary(step.broker_id, step.check_code)
        except StoreIOError as error:
            self._resign(f"the broker's id cannot be saved: {error}")
            return False
        return True

    def _look(self) -> None:
        """After every event: whether messages are taken, and when to look next."""
        membership, now = self.membership, self._now()
        if membership.is_master and not self._changing.locked():
            refusal = membership.refusal(now)
            if refusal is None:
                self._broker.role.resume_writes()
            else:
                self._broker.role.hold_writes(refusal)
        self._tell_alarm(now)
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(membership.due() - now, 0.0), self._tick)

    def _tell_alarm(self, now: float) -> None:
        """Once each; that no controller answers is one only after a while."""
        if self.membership.leader is not None:
            self._led_at = now
        alarm = self.membership.alarm or (self._describe_alarm() if now - self._led_at > _REQUEST_SECONDS else "")
        if alarm != self._alarm:
            self._alarm = alarm
            if alarm:
                _log.error("%s", alarm)

    def _tick(self) -> None:
        failure = self._broker.state.store_loop.durability.failure
        if failure is not None and self.membership.is_master:
            self._resign(f"nothing can be stored here any more: {failure}")
        self._do(self.membership.tick(self._now()))
        self._look_at_set()

    def _resign(self, reason: str) -> None:
        """Let somebody else lead: no sign of life, and the connections that carried them are closed."""
        _log.critical("this broker gives up its role: %s", reason)
        self._broker.role.hold_writes(reason)
        self.membership.resign(reason, self._now())
        self._spawn(self._client.hang_up())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, ask: Ask) -> None:
        try:
            reply = await self._client.ask(ask)
        except FlareMQError as error:
            _log.debug("controller %s did not answer %s: %s", ask.to, ask.kind.name, error)
            self._do(self.membership.failed(ask.token, self._now()))
        else:
            if reply.code:
                _log.info("controller %s answered %s with code %d", ask.to, ask.kind.name, reply.code)
            self._do(self.membership.answered(ask.token, reply, self._now()))

    async def _beat(self, address: str) -> None:
        broker_id = self.membership.broker_id
        assert broker_id is not None
        driver = self._broker.state.store_loop.driver
        try:
            await self._client.beat(
                address,
                broker_id,
                epoch=self.epochs.table.last_epoch or NO_EPOCH,
                max_offset=driver.appended,
                confirm_offset=driver.readable,
            )
        except FlareMQError as error:
            _log.debug("controller %s was not told that we live: %s", address, error)

    # Roles

    async def _take_role(self, step: BecomeMaster | BecomeSlave) -> None:
        broker_id = self.membership.broker_id
        assert broker_id is not None
        try:
            async with self._changing:
                if self._finder is not None:
                    self._finder.cancel()
                if isinstance(step, BecomeMaster):
                    await self._change.lead(step, broker_id)
                else:
                    await self._change.follow(step, broker_id)
        except Exception as error:
            _log.error("while taking a role", exc_info=True)
            self._resign(f"the role of epoch {step.epoch} cannot be taken: {error}")
            self._look()
            return
        self._do(self.membership.role_taken(self._now()))
        self.has_role.set()
        if isinstance(step, BecomeSlave):
            self._finder = asyncio.get_running_loop().create_task(self._find_master(step))
        await self._broker.announce()

    async def _find_master(self, step: BecomeSlave) -> None:
        """Ask the master where its log is fetched, until it is, and again whenever it is not any more."""
        pause, was_connected = _MASTER_LOOK_SECONDS, False
        while True:
            ha = self._broker.ha
            is_connected = ha.client.facts.is_connected
            if was_connected and not is_connected:
                pause = _MASTER_LOOK_SECONDS
                self._do(self.membership.doubted(self._now()))
            was_connected = is_connected
            if not is_connected:
                try:
                    address = await self._client.find_ha_address(step.master_address)
                except FlareMQError as error:
                    _log.debug("the master at %s does not answer: %s", step.master_address, error)
                    address = None
                if address is not None and not self._is_cutting:
                    ha.follow(step.master_address, address)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LINK_LOOK_SECONDS)

    def _cut(self, offset: int) -> None:
        """Once: a second cut at the same place would take what was fetched, and promised, since the first one."""
        self._broker.ha.follow(None, None)
        if not self._is_cutting:
            self._is_cutting = True
            self._spawn(self._make_cut(offset))

    async def _make_cut(self, offset: int) -> None:
        role = self.membership.role
        try:
            async with self._changing:
                if self.membership.role is not role:
                    return  # another master by now: it will say what has to go
                await self._change.cut(offset)
                self._is_cutting = False
            await self._broker.announce()
        except Exception as error:
            _log.error("while cutting the log", exc_info=True)
            self._resign(f"the log cannot be cut at {offset}: {error}")
            self._look()
        finally:
            self._is_cutting = False

    # The SyncStateSet

    def _slaves_changed(self) -> None:
        if self._set_timer is None and self.membership.has_term:
            self._set_timer = asyncio.get_running_loop().call_later(_SET_LOOK_SECONDS, self._look_at_set)

    def _look_at_set(self) -> None:
        """Propose the set that should be, if it is not the one that is."""
        if self._set_timer is not None:
            self._set_timer.cancel()
            self._set_timer = None
        membership, role = self.membership, self._broker.role
        if not membership.has_term or membership.proposed is not None:
            return
        # A new master has its term before its services: these wait for the log to be shown, which takes slaves that
        # join the set. Until the term begins, the set at hand is that of an earlier one.
        if not role.is_master or role.epoch != membership.epoch:
            return
        replicas, now = self._broker.ha.replicas, self._now()
        state = replicas.sync_state
        if state is None:
            return
        entries = self.epochs.table.entries
        wanted = replicas.proposal(
            now, own_end=self._broker.state.store_loop.driver.appended, epoch_start=entries[-1].start_offset
        )
        if wanted is None:
            return
        steps = membership.propose(wanted, now)
        if membership.proposed != wanted:
            state.refuse(wanted)
        self._do(steps)

    def _settle(self, step: SetSettled) -> None:
        ha = self._broker.ha
        state = ha.replicas.sync_state
        if state is None:
            return
        if step.set_epoch > state.epoch:
            _log.info("in sync are brokers %s (%d)", ", ".join(map(str, sorted(step.members))), step.set_epoch)
            state.accept(step.members, step.set_epoch)
        elif state.last_proposed is not None:
            state.refuse(state.last_proposed)
        self._broker.state.store_loop.durability.group_changed()

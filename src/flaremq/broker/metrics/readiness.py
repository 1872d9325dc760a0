"""Reasons why a broker is not ready, each a sentence for the operator; none: it serves what it is there for.

A master is ready while it takes and gives messages, a slave while it follows its master. What is only slow, or behind,
is no reason: taking it out of service would make nothing better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flaremq.protocol.bodies.topic import PERM_READ, PERM_WRITE
from flaremq.storage.runtime.health import RunningFlag

if TYPE_CHECKING:
    from flaremq.broker.ha_service import HAService
    from flaremq.broker.parts import BrokerState
    from flaremq.broker.registration.name_servers import Registration


def reasons(state: BrokerState, ha: HAService, registration: Registration, *, is_controlled: bool) -> list[str]:
    """Of an open broker."""
    found = []
    role, store = state.role, state.store_loop.store
    if role.is_master:
        found += writing_reasons(state)
    elif is_controlled and not role.epoch:
        found.append("no controller has said yet what this broker is to be")
    elif not ha.client.facts.is_connected:
        found.append(f"slave without a master: {ha.client.facts.failure or 'no connection to one'}")
    if store.health & RunningFlag.NOT_READABLE:
        found.append("the store cannot be read")
    if not state.options.broker_permission & PERM_READ:
        found.append(f"brokerPermission={state.options.broker_permission}: reading is not permitted")
    if state.options.namesrv_addr.strip() and not registration.registered_at:
        found.append("no name server knows this broker: it can be reached by none")
    alarm = ha.alarm()
    if alarm:
        found.append(alarm)
    return found


def writing_reasons(state: BrokerState) -> list[str]:
    """Why a master takes no messages."""
    store, options = state.store_loop.store, state.options
    found = []
    if store.health_state.refusal is not None:
        found.append(store.health_state.refusal)
    if not options.broker_permission & PERM_WRITE:
        found.append(f"brokerPermission={options.broker_permission}: read-only")
    if state.role.refusal is not None:
        found.append(state.role.refusal)
    if state.store_loop.durability.refuses():
        found.append("too few slaves keep up for anything to be stored")
    return found

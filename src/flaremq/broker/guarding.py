"""Access control of a broker: what the guard asks it about, and the requests by which accounts are managed."""

from __future__ import annotations

import os
from collections.abc import Callable

from flaremq.access.authority import BROKER
from flaremq.access.control import AccessControl, Places
from flaremq.access.rules import Surroundings
from flaremq.broker.administration.plain_acl import PlainAclHandler
from flaremq.broker.administration.users import UserHandler
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.parts import BrokerState
from flaremq.clock import Clock
from flaremq.message import properties as names
from flaremq.message.topics import WAITING_TOPICS
from flaremq.remoting.handlers import HandlerTable


def access_control(options: BrokerOptions, path: str, clock: Clock, state: Callable[[], BrokerState]) -> AccessControl:
    """What the options ask for. Opens files: not on an event loop.

    ``state`` gives the broker's present state: it is made anew when the broker's role changes.
    """

    async def read_topic(physical_offset: int) -> str | None:
        store_loop = state().store_loop
        if physical_offset < 0:
            return None
        if physical_offset >= store_loop.store.max_physical_offset:
            return ""  # nobody's yet: a message that comes before the handler looks must not be handed out unasked
        store_loop.dispatching.catch_up()
        message = await store_loop.run_cold(store_loop.store.read, physical_offset)
        if message is None:
            return None
        is_waiting = message.topic in WAITING_TOPICS
        return message.properties.get(names.REAL_TOPIC, message.topic) if is_waiting else message.topic

    around = Surroundings(
        options.broker_cluster_name,
        has_topic=lambda name: state().topics.find(name) is not None,
        has_group=lambda name: state().groups.get(name) is not None,
    )
    places = Places(home=path, users=os.path.join(path, "config"), state=path)
    return AccessControl(options.access, places, BROKER, around, clock, read_topic=read_topic)


def install(access: AccessControl, options: BrokerOptions, table: HandlerTable, producers: ProducerTable) -> None:
    """Answer the requests about accounts, and stand before all handlers of the table and what is pushed to clients."""
    if access.plain is not None:
        PlainAclHandler(access.plain, options).register(table)
    if access.users is not None:
        UserHandler(access.users).register(table)
    access.install(table)
    producers.account_of, producers.may_send = access.guard.account_of, access.guard.may_send

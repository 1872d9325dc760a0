"""Connected producers and consumers, for metrics: how many of which language and version."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from flaremq.broker.metrics import catalogue as told
from flaremq.protocol.codes import LANGUAGE_CODES, version_text

if TYPE_CHECKING:
    from flaremq.broker.members.client_info import ClientInfo
    from flaremq.broker.parts import BrokerState
    from flaremq.metrics.samples import Samples

_REMOTING: Final = "remoting"
_MODES: Final = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}


async def tell_clients(state: BrokerState, samples: Samples) -> None:
    """Both families."""
    if samples.wants(told.PRODUCER_CONNECTIONS):
        producers: Counter[tuple[str, str]] = Counter()
        for number, group in enumerate(state.producers.groups()):
            producers.update(map(_release, state.producers.connections(group)))
            if not number & 63:
                await samples.turns.take()
        for (language, version), count in sorted(producers.items()):
            samples.add(told.PRODUCER_CONNECTIONS, count, language, _REMOTING, version)
    if samples.wants(told.CONSUMER_CONNECTIONS):
        for number, name in enumerate(state.consumers.groups()):
            found = state.consumers.find_group(name)
            if found is None:
                continue
            mode = _MODES.get(found.consume_type, "unknown")
            is_system = "true" if name.lower().startswith("cid_rmq_sys_") else "false"
            for (language, version), count in Counter(map(_release, found.connections.values())).items():
                labels = (mode, name, is_system, language, _REMOTING, version)
                samples.add(told.CONSUMER_CONNECTIONS, count, *labels)
            if not number & 63:
                await samples.turns.take()


def _release(client: ClientInfo) -> tuple[str, str]:
    """Language and version; a client can say what it likes, and a label must not be anything."""
    language = client.language.lower() if client.language in LANGUAGE_CODES else "other"
    return language, version_text(client.version).lower()

"""ConfigAdmin: the configuration of a running broker, which has a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from flaremq.broker.options import ONLY_IN_ROCKETMQ, BrokerOptions
from flaremq.clock import Clock
from flaremq.options_file import OptionsFile
from flaremq.protocol.bodies.topic import DataVersion
from flaremq.remoting.options import RemotingOptions
from flaremq.server.live_options import Applier, LiveOptions
from flaremq.storage.options import StoreOptions

# What needs more than a new value: whoever builds the broker says how, or it stays unchangeable.
_APPLIED: Final = frozenset(("flushDiskType",))


class ConfigAdmin(LiveOptions):
    """The options of all layers of one broker. Event loop only."""

    def __init__(
        self,
        broker: BrokerOptions,
        store: StoreOptions,
        remoting: RemotingOptions,
        clock: Clock,
        *,
        appliers: Mapping[str, Applier] | None = None,
        in_effect: Callable[[], Mapping[str, str]] = dict,
        file: OptionsFile | None = None,
    ) -> None:
        layers = (broker, store, remoting, broker.access, broker.metrics, broker.grpc)
        super().__init__(layers, ONLY_IN_ROCKETMQ, applied=_APPLIED, appliers=appliers, in_effect=in_effect, file=file)
        self._clock = clock
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self.on_change.append(self._note_change)

    def _note_change(self, _: Mapping[str, str]) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())

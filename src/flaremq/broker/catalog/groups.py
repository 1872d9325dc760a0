"""The consumer groups of a broker and what each may do (``config/subscriptionGroup.json``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from flaremq.broker.catalog.attribute_limits import loaded_attributes
from flaremq.broker.catalog.table_saver import Run, TableSaver, run_inline
from flaremq.broker.options import BrokerOptions
from flaremq.clock import Clock
from flaremq.message.topics import is_legal_group
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.group import SubscriptionGroupWrapper as Groups
from flaremq.protocol.bodies.topic import DataVersion
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.storage.config.config_file import ConfigFile

SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
# The broker keeps its own progress under these. Other names with the prefix are used by clients (MQTT, LMQ).
BROKER_GROUPS: Final = frozenset((TRANSACTION_GROUP, REVIVE_GROUP))
BUILT_IN_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)


def check_not_broker_group(group: str) -> str:
    """The group, if a client may consume, commit or configure under it.

    RocketMQ lets anybody. But an offset of these says which transactions are done with and which popped messages are
    not lost, so here nobody may but the broker.
    """
    if group in BROKER_GROUPS:
        raise RequestError(ResponseCode.NO_PERMISSION, f"the group[{group}] is the broker's own")
    return group


class GroupTable:
    """All consumer groups of one broker. Event loop only."""

    def __init__(self, options: BrokerOptions, file: ConfigFile, clock: Clock, run: Run = run_inline) -> None:
        self._options = options
        self._file = file
        self._clock = clock
        self._saver = TableSaver(file, self._snapshot, run)
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self._forbidden: dict[str, Any] = {}  # RocketMQ's, kept for it; nothing here sets or reads it
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self.is_copy = False  # of a master's table: nothing but ``replace_all`` changes it
        self.on_delete: list[Callable[[str], None]] = []

    def load(self) -> None:
        """Read the file, then add those of RocketMQ's own groups that it lacks."""
        loaded = self._file.load(Groups.from_value)
        if loaded is not None:
            self.data_version = loaded.data_version
            self._forbidden = loaded.forbidden_table or {}
            for name, config in loaded.subscription_group_table.items():
                attributes = loaded_attributes(f"group {name}", config.attributes)
                if config.group_name != name or attributes is not config.attributes:
                    config = replace(config, group_name=name, attributes=attributes)
                self._table[name] = config
        for name in BUILT_IN_GROUPS:
            self._table.setdefault(name, SubscriptionGroupConfig(group_name=name))

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The group, new if need be; None if it is absent and nothing allows to create it."""
        found = self._table.get(group)
        if found is not None:
            return found
        if not (self._options.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)):
            return None
        if not is_legal_group(group):
            return None
        config = SubscriptionGroupConfig(group_name=group)
        if not self.is_copy:
            self.update(config)
        return config

    def replace_all(self, groups: Groups) -> bool:
        """Become what a master's table is, in one step; False if it is that already."""
        if groups.data_version == self.data_version and self._table.keys() == groups.subscription_group_table.keys():
            return False
        gone = self._table.keys() - groups.subscription_group_table.keys()
        self._table = {
            name: replace(config, group_name=name, attributes=loaded_attributes(f"group {name}", config.attributes))
            for name, config in groups.subscription_group_table.items()
        }
        self._forbidden, self.data_version = groups.forbidden_table or {}, groups.data_version
        self._saver.changed()
        for group in gone:
            for callback in self.on_delete:
                callback(group)
        return True

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group if it exists; nothing is created."""
        return self._table.get(group)

    def __contains__(self, group: str) -> bool:
        return group in self._table

    def __len__(self) -> int:
        return len(self._table)

    def all(self) -> dict[str, SubscriptionGroupConfig]:
        """Every group; a copy."""
        return dict(self._table)

    def wrapper(self) -> Groups:
        """What GET_ALL_SUBSCRIPTIONGROUP_CONFIG carries."""
        return Groups(
            data_version=self.data_version,
            subscription_group_table=dict(self._table),
            forbidden_table=dict(self._forbidden),
        )

    def update(self, config: SubscriptionGroupConfig) -> None:
        """Create or replace a group."""
        name = config.group_name
        if name not in self._table and len(self._table) >= self._options.groups_max:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"the broker has {len(self._table)} groups, groupsMax allows no more"
            )
        if self._table.get(name) != config:
            self._table[name] = config
            self._changed()

    def delete(self, group: str) -> bool:
        """Forget a group; False if there was none."""
        if self._table.pop(group, None) is None:
            return False
        self._forbidden.pop(group, None)
        self._changed()
        for callback in self.on_delete:
            callback(group)
        return True

    def disable_consume(self, group: str) -> None:
        """Let the group consume no more until an administrator says otherwise."""
        found = self._table.get(group)
        if found is not None and found.consume_enable and not self.is_copy:
            self.update(replace(found, consume_enable=False))

    async def save_changes(self) -> None:
        """Return when all changes so far are on disk."""
        await self._saver.save()

    def save_soon(self) -> None:
        """Save without waiting, for those who must answer at once; periodic work tries again what fails."""
        self._saver.save_soon()

    @property
    def is_saved(self) -> bool:
        return self._saver.is_saved

    def save_now(self) -> None:
        """Write on this thread, at start and stop."""
        self._saver.save_now()

    def _changed(self) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        self._saver.changed()

    def _snapshot(self) -> Callable[[], dict[str, Any]]:
        return partial(_document, self.data_version, dict(self._forbidden), dict(self._table))


def _document(
    version: DataVersion, forbidden: dict[str, Any], table: dict[str, SubscriptionGroupConfig]
) -> dict[str, Any]:
    return {
        "dataVersion": version.to_value(),
        "forbiddenTable": forbidden,
        "subscriptionGroupTable": {name: config.to_value() for name, config in table.items()},
    }

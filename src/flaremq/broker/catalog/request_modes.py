"""How groups read topics when the broker shares queues out: PULL or POP (``config/messageRequestMode.json``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from flaremq.broker.catalog.table_saver import Run, TableSaver, run_inline
from flaremq.broker.options import BrokerOptions
from flaremq.errors import RemoteProtocolError
from flaremq.java_json import write_java_json
from flaremq.message.topics import is_retry_topic
from flaremq.protocol.bodies.queue import SetMessageRequestModeRequestBody as RequestMode
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.storage.config.config_file import ConfigFile

PULL: Final = "PULL"
POP: Final = "POP"
_MODES_MAX: Final = 100_000  # pairs of topic and group


class RequestModes:
    """What administrators set, by topic and group. Event loop only."""

    def __init__(self, options: BrokerOptions, file: ConfigFile, run: Run = run_inline) -> None:
        self._options = options
        self._file = file
        self._saver = TableSaver(file, self._snapshot, run)
        self._table: dict[tuple[str, str], RequestMode] = {}

    def load(self) -> None:
        loaded = self._file.load(_read)
        if loaded is not None:
            self._table = loaded

    def find(self, topic: str, group: str) -> RequestMode:
        """The mode in force. Retried messages are always pulled."""
        found = self._table.get((topic, group))
        if found is not None:
            return found
        mode = PULL if is_retry_topic(topic) else self._options.default_message_request_mode
        share = self._options.default_pop_share_queue_num if mode == POP else 0
        return RequestMode(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share)

    def update(self, mode: RequestMode) -> None:
        key = (mode.topic, mode.consumer_group)
        if key not in self._table and len(self._table) >= _MODES_MAX:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{_MODES_MAX} request modes are set, no more are allowed")
        if self._table.get(key) != mode:
            self._table[key] = mode
            self._saver.changed()

    def replace_all(self, modes: Mapping[str, Mapping[str, RequestMode]]) -> bool:
        """Become what a master has; False if it is that already."""
        table = {(topic, group): mode for topic, groups in modes.items() for group, mode in groups.items()}
        if table == self._table:
            return False
        self._table = table
        self._saver.changed()
        return True

    def remove_topic(self, topic: str) -> None:
        self._remove(lambda key: key[0] == topic)

    def remove_group(self, group: str) -> None:
        self._remove(lambda key: key[1] == group)

    def to_json(self) -> bytes:
        """GET_ALL_MESSAGE_REQUEST_MODE."""
        return write_java_json(_document(self._table))

    async def save_changes(self) -> None:
        """Return when all changes so far are on disk."""
        await self._saver.save()

    def save_now(self) -> None:
        """Write on this thread, at stop."""
        self._saver.save_now()

    def _remove(self, matches: Callable[[tuple[str, str]], bool]) -> None:
        doomed = [key for key in self._table if matches(key)]
        for key in doomed:
            del self._table[key]
        if doomed:
            self._saver.changed()

    def _snapshot(self) -> Callable[[], dict[str, Any]]:
        return partial(_document, dict(self._table))


def _document(table: dict[tuple[str, str], RequestMode]) -> dict[str, Any]:
    by_topic: dict[str, dict[str, Any]] = {}
    for (topic, group), mode in table.items():
        by_topic.setdefault(topic, {})[group] = mode.to_value()
    return {"messageRequestModeMap": by_topic}


def _read(document: dict[str, Any]) -> dict[tuple[str, str], RequestMode]:
    by_topic = document.get("messageRequestModeMap") or {}
    if not isinstance(by_topic, dict) or not all(isinstance(groups, dict) for groups in by_topic.values()):
        raise RemoteProtocolError("messageRequestModeMap must be an object of objects")
    return {
        (topic, group): RequestMode.from_value(mode)
        for topic, groups in by_topic.items()
        for group, mode in groups.items()
    }

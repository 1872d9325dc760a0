"""KVConfig: texts by namespace and key that operators keep at the name server, above all the order of topics.

Persisted in RocketMQ's form, ``{"configTable":{"NAMESPACE":{"key":"value"}}}``, readable by Java and from Java. A
change is on disk before it can be seen: the file is written beside the old one, synced, renamed, and the folder
synced; only then does the table change. So what was answered survives a crash, and a failed write changes nothing.

The table belongs to the event loop; the writing, which waits for the disk, runs on a worker thread, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from flaremq.atomic_file import replace_file
from flaremq.errors import CorruptionError, InvalidArgumentError, StoreIOError
from flaremq.java_json import parse_java_json, write_java_json

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
SIZE_MAX: Final = 4 << 20  # bytes of the file: some ten thousand ordered topics

Table = dict[str, dict[str, str]]


class KVConfig:
    """The table and its file."""

    def __init__(self, path: str, table: Table | None = None) -> None:
        self._path = path
        self._table: Table = table or {}
        self._writing = asyncio.Lock()  # guards the order of changes: read the table, write the file, set the table

    @classmethod
    def load(cls, path: str) -> KVConfig:
        """The table of a file; empty when there is none. CorruptionError rather than a start that forgets it."""
        try:
            with open(path, "rb") as file:
                data = file.read(SIZE_MAX + 1)
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise StoreIOError("reading the key-value configuration", path, error) from error
        return cls(path, _parse(path, data))

    def find(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def find_namespace(self, namespace: str) -> Mapping[str, str] | None:
        """All keys of a namespace; None when there never was one."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; returns when it is on disk."""
        async with self._writing:
            if self.find(namespace, key) != value:
                await self._change(namespace, {**self._table.get(namespace, {}), key: value})

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a key; one that does not exist is nothing to complain about."""
        async with self._writing:
            if self.find(namespace, key) is not None:
                await self._change(namespace, {k: v for k, v in self._table[namespace].items() if k != key})

    async def _change(self, namespace: str, entries: dict[str, str]) -> None:
        table = {**self._table, namespace: entries}
        data = write_java_json({"configTable": table})
        if len(data) > SIZE_MAX:
            raise InvalidArgumentError(f"the key-value configuration would exceed {SIZE_MAX} bytes")
        try:
            await asyncio.to_thread(replace_file, self._path, data)
        except OSError as error:
            raise StoreIOError("writing the key-value configuration", self._path, error) from error
        self._table = table


def _parse(path: str, data: bytes) -> Table:
    if not data.strip():
        return {}  # Java leaves an empty file behind when its disk was full
    if len(data) > SIZE_MAX:
        raise CorruptionError("key-value configuration too large", path=path, expected=SIZE_MAX)
    try:
        value: Any = parse_java_json(data)
    except ValueError as error:
        raise CorruptionError(f"key-value configuration is no JSON: {error}", path=path) from error
    table = value.get("configTable") if isinstance(value, dict) else None
    if table is None and isinstance(value, dict):
        return {}
    if not isinstance(table, dict) or not all(isinstance(entries, dict) for entries in table.values()):
        raise CorruptionError("key-value configuration without a table of tables", path=path)
    return {
        namespace: {key: text for key, text in entries.items() if isinstance(text, str)}
        for namespace, entries in table.items()
    }

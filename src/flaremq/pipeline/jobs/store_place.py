"""A store as a task finds it: what the driver knows about it, small enough to travel with every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flaremq.message.delay import DelayLevels, parse_delay_levels
from flaremq.pipeline.options import index_geometry
from flaremq.storage.at_rest.indexes import IndexGeometry
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.log_place import LOG_PATHS
from flaremq.storage.options import StoreOptions


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Path, log folders and what the files do not tell. The driver holds the lock; tasks do not touch it."""

    root: str
    log_paths: tuple[str, ...]
    geometry: IndexGeometry | None
    delay_level: str

    def open(self) -> StoreReader:
        return StoreReader.open(self.root, commit_log_paths=self.log_paths, index_geometry=self.geometry, lock=False)

    @property
    def delay_levels(self) -> DelayLevels:
        return parse_delay_levels(self.delay_level)


def open_store(path: str, properties: Mapping[str, str] | None = None, *, lock: bool = True) -> StoreReader:
    """The store on the driver; ``properties`` are options of its broker, by RocketMQ's names."""
    options = StoreOptions.from_properties(properties or {})
    folders = options.commit_log_folders(path) if options.store_path_commit_log else []
    return StoreReader.open(path, commit_log_paths=folders, index_geometry=index_geometry(properties or {}), lock=lock)


def without_log_place(properties: Mapping[str, str] | None) -> dict[str, str]:
    """The same options for another store: the log they name is not that one's."""
    return {name: text for name, text in (properties or {}).items() if name not in LOG_PATHS}


def place_of(reader: StoreReader, properties: Mapping[str, str] | None = None) -> StorePlace:
    options = StoreOptions.from_properties(properties or {})
    return StorePlace(
        reader.layout.root,
        tuple(reader.layout.commit_log_paths),
        index_geometry(properties or {}),
        options.message_delay_level,
    )

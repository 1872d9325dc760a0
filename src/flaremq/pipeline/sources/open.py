"""From the options of a scan to its ``SourceSpec`` (on the driver), and from that to an open ``Source`` (anywhere)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.model.source import Source, SourceSpec
from flaremq.pipeline.options import ScanOptions, split_list
from flaremq.pipeline.planning.offsets import brokers_named
from flaremq.pipeline.sources.log_lines import name_warnings
from flaremq.storage.files.log_place import LOG_PATHS, folders_outside

BROKER_FILE = "flaremq.broker"  # our broker notes its name here, below the store's root


def source_spec(options: ScanOptions) -> SourceSpec:
    """What travels to executors. NotFoundError names a path that is not there."""
    return SourceSpec(
        paths=_paths(options) if options.path else (),
        name_server=options.name_server or None,
        archive=_archive_place(options.archive) if options.archive else None,
        geometry=dict(options.geometry),
        wire=options.wire,
        fail_on_data_loss=options.fail_on_data_loss,
        objects=dict(options.objects),
    )


def open_source(spec: SourceSpec) -> Source:
    """The source of this description; what it needs is imported here, so that reading a store needs no wire client."""
    name_warnings()
    if spec.archive is not None:
        from flaremq.pipeline.sources.archive import ArchiveSource

        archive = ArchiveSource(spec.archive, spec.objects)
        if not spec.paths and spec.name_server is None:
            return archive
        from flaremq.pipeline.sources.tiered import TieredSource

        return TieredSource(archive, open_source(replace(spec, archive=None)))
    if spec.name_server is not None:
        from flaremq.pipeline.sources.wire import WireSource

        return WireSource(spec)
    from flaremq.pipeline.sources.store import StoreSource

    return StoreSource(spec)


def _paths(options: ScanOptions) -> tuple[tuple[str, str], ...]:
    items = [_name_and_path(item) for item in split_list(options.path)]
    for _, path in items:
        if not os.path.isdir(path):
            kind = "is a file, not a store directory" if os.path.exists(path) else "does not exist"
            raise NotFoundError(f"path {path} {kind}")
        check_log_below(path, options.geometry)
    if len(items) == 1:
        given, path = items[0]
        if given and options.broker_name and given != options.broker_name:
            raise InvalidArgumentError(f"path names its broker {given!r} but brokerName is {options.broker_name!r}")
        return ((given or options.broker_name or _lone_broker(options) or _noted_name(path) or _base_name(path), path),)
    if options.broker_name:
        raise InvalidArgumentError(
            f"brokerName {options.broker_name!r} names one store but path lists {len(items)}; write name=/dir for each"
        )
    named = [(given or _noted_name(path) or _base_name(path), path) for given, path in items]
    names = [name for name, _ in named]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(f"two stores of path are called {name!r}; write name=/dir for each")
    return tuple(named)


def check_log_below(path: str, store_options: Mapping[str, str]) -> None:
    """The log is looked for below ``path``; options that name another one would be ignored or mean another store."""
    for name in LOG_PATHS:
        for folder in folders_outside(path, store_options.get(name, "")):
            raise InvalidArgumentError(
                f"{name}={folder} lies outside of path {path}: Spark reads and writes a log below its store only; "
                f"make {os.path.join(path, 'commitlog')} a symbolic link to it if it belongs to this store"
            )


def _name_and_path(item: str) -> tuple[str, str]:
    """``name=/dir`` or ``/dir``; a ``=`` behind a slash belongs to the path, as in ``/data/day=1``."""
    name, equals, path = item.partition("=")
    if equals and path and os.sep not in name:
        return name.strip(), _local_path(path.strip())
    return "", _local_path(item)


def _local_path(text: str) -> str:
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    elif "://" in text:
        scheme = text.partition("://")[0]
        raise InvalidArgumentError(f"{text}: {scheme} is not a file system that can be mapped; give a local directory")
    return os.path.abspath(text)


def _archive_place(text: str) -> str:
    """An archive may lie in any store that Arrow can reach; its URI is passed on as it is."""
    return text if "://" in text and not text.startswith("file:") else _local_path(text)


def _lone_broker(options: ScanOptions) -> str | None:
    """The one broker that the given offsets speak of: they were taken from a scan of this store."""
    names = brokers_named(options.starting_offsets) | brokers_named(options.ending_offsets)
    return names.pop() if len(names) == 1 else None


def _noted_name(path: str) -> str | None:
    try:
        with open(os.path.join(path, BROKER_FILE), encoding="utf-8") as file:
            name = json.load(file)["brokerName"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and name else None


def _base_name(path: str) -> str:
    return os.path.basename(path) or "store"

"""Catalogs: the one a name means in PyIceberg's own settings, one by options, or an embedded one in a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.model.object_settings import account_of, bucket_of, is_s3
from flaremq.pipeline.tables.model.extra import lakehouse_needed
from flaremq.pipeline.tables.model.target import TableTarget

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_FILE: Final = "catalog.db"
_OF_FILES: Final = "s3."  # options of PyIceberg that say nothing about a catalog
_SNAPSHOTS: Final = "snapshot-loading-mode"  # "refs" leaves most of them out
_TRIES: Final = 3
_BUSY_SECONDS: Final = 60  # SQLite waits so long for another writer before it gives up


def open_catalog(target: TableTarget, *, create: bool = False) -> Catalog:
    """What ``CATALOG`` of an address means.

    Options given win; then what PyIceberg is configured to (``~/.pyiceberg.yaml``, ``PYICEBERG_CATALOG__…``); otherwise
    it is embedded: SQLite and the files of all tables in one folder, ``./CATALOG`` unless ``warehouse`` says another.
    With a ``warehouse`` in an object store only the catalog itself is in that folder: it needs locks.
    """
    with lakehouse_needed("An Iceberg table"):
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config

        from flaremq.pipeline.tables.iceberg.asking import asked
    settings = dict(target.options)
    known = Config().get_catalog_config(target.catalog)
    is_of_files_only = all(name.startswith(_OF_FILES) for name in settings)
    if is_of_files_only and (target.warehouse is not None or not known):
        settings = _embedded(target, create=create) | settings
    elif target.warehouse is not None:
        settings.setdefault("warehouse", target.warehouse)
    configured = {name: str(value) for name, value in (known or {}).items()}
    warehouse = settings.get("warehouse", configured.get("warehouse", ""))
    if is_s3(warehouse):
        settings = account_of(bucket_of(warehouse), target.objects).of_iceberg() | configured | settings
    for attempt in range(_TRIES):
        try:
            catalog = asked(target.catalog, lambda: load_catalog(target.catalog, **settings))
            # Of snapshots that no branch names a commit's run is told too, so all of them are needed.
            catalog.properties.pop(_SNAPSHOTS, None)
            return catalog
        except UnavailableError:
            raise
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(f"catalog {target.catalog!r} cannot be opened: {error}") from error
        except Exception as error:  # whatever a driver or an HTTP client raises
            # Two who open a new embedded catalog both make its tables, and the slower one finds them there.
            if attempt + 1 == _TRIES or "already exists" not in str(error):
                raise UnavailableError(f"catalog {target.catalog!r} does not answer: {error}") from error
    raise AssertionError("unreachable")


def _embedded(target: TableTarget, *, create: bool) -> dict[str, str]:
    warehouse = target.warehouse or target.catalog
    is_elsewhere = "://" in warehouse
    if is_elsewhere and not is_s3(warehouse):
        raise InvalidArgumentError(
            f"the tables of an embedded catalog lie in a local folder or in s3://, not in {warehouse}: give "
            "--table-option uri=… as well"
        )
    folder = os.path.abspath(target.catalog if is_elsewhere else warehouse)
    if not create and not os.path.exists(os.path.join(folder, CATALOG_FILE)):
        raise NotFoundError(
            f"there is no catalog in {folder}: name the folder with --warehouse, or the catalog with --table-option "
            "uri=http://…"
        )
    os.makedirs(folder, exist_ok=True)
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/{CATALOG_FILE}?timeout={_BUSY_SECONDS}",
        "warehouse": warehouse.rstrip("/") if is_elsewhere else f"file://{folder}",
    }

"""Catalogs: the one a name means in PyIceberg's own settings, one by options, or an embedded one in a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.tables.model.extra import lakehouse_needed
from flaremq.pipeline.tables.model.target import TableTarget

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_FILE: Final = "catalog.db"
_TRIES: Final = 3
_BUSY_SECONDS: Final = 60  # SQLite waits so long for another writer before it gives up


def open_catalog(target: TableTarget, *, create: bool = False) -> Catalog:
    """What ``CATALOG`` of an address means.

    Options given win; then what PyIceberg is configured to (``~/.pyiceberg.yaml``, ``PYICEBERG_CATALOG__…``); otherwise
    it is embedded: SQLite and the files of all tables in one folder, ``./CATALOG`` unless ``warehouse`` says another.
    """
    with lakehouse_needed("An Iceberg table"):
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config
    settings = dict(target.options)
    known = Config().get_catalog_config(target.catalog)
    if not settings and (target.warehouse is not None or not known):
        settings = _embedded(target.warehouse or target.catalog, create=create)
    elif target.warehouse is not None:
        settings.setdefault("warehouse", target.warehouse)
    for attempt in range(_TRIES):
        try:
            return load_catalog(target.catalog, **settings)
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(f"catalog {target.catalog!r} cannot be opened: {error}") from error
        except Exception as error:  # whatever a driver or an HTTP client raises
            # Two who open a new embedded catalog both make its tables, and the slower one finds them there.
            if attempt + 1 == _TRIES or "already exists" not in str(error):
                raise UnavailableError(f"catalog {target.catalog!r} does not answer: {error}") from error
    raise AssertionError("unreachable")


def _embedded(folder: str, *, create: bool) -> dict[str, str]:
    if "://" in folder:
        raise InvalidArgumentError(
            f"an embedded catalog lies in a local folder, not in {folder}: give --catalog-option uri=… as well"
        )
    folder = os.path.abspath(folder)
    if not create and not os.path.exists(os.path.join(folder, CATALOG_FILE)):
        raise NotFoundError(
            f"there is no catalog in {folder}: name the folder with --warehouse, or the catalog with --catalog-option "
            "uri=http://…"
        )
    os.makedirs(folder, exist_ok=True)
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/{CATALOG_FILE}?timeout={_BUSY_SECONDS}",
        "warehouse": f"file://{folder}",
    }

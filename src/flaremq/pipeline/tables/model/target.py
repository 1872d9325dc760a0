"""TableTarget: where a table is. ``iceberg:CATALOG.db.orders`` or ``delta:PATH``.

``{topic}`` in the name of a table stands for the topic's own name, so that each topic has a table of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.model.object_settings import (
    account_of,
    bucket_of,
    is_object_setting,
    is_s3,
    object_settings,
    settings_of_table,
)

ICEBERG: Final = "iceberg"
DELTA: Final = "delta"
TOPIC: Final = "{topic}"
_DEAD_LETTERS: Final = "_dead_letters"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class TableTarget:
    """``parts`` are namespace and name in the catalog; ``path`` is where a Delta table lies.

    ``options`` are those of the catalog (Iceberg) or of the store of files (Delta), by their own names.
    """

    kind: str
    catalog: str = ""
    parts: tuple[str, ...] = ()
    path: str = ""
    warehouse: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    objects: Mapping[str, str] = field(default_factory=dict, repr=False)  # how object stores are reached

    @property
    def text(self) -> str:
        if self.kind == DELTA:
            return f"{DELTA}:{self.path}"
        return f"{ICEBERG}:{'.'.join((self.catalog, *self.parts))}"

    @property
    def is_for_each_topic(self) -> bool:
        return TOPIC in self.path or any(TOPIC in part for part in self.parts)

    def for_topic(self, topic: str) -> TableTarget:
        """The table of this topic; in names of tables only letters, digits and underscores are kept."""
        name = _NOT_IN_NAMES.sub("_", topic)
        parts = tuple(part.replace(TOPIC, name) for part in self.parts)
        return replace(self, parts=parts, path=self.path.replace(TOPIC, name))

    def storage_options(self) -> dict[str, str]:
        """What delta-rs has to be told to get to the table."""
        if not is_s3(self.path):
            return dict(self.options)
        return account_of(bucket_of(self.path), self.objects).of_delta() | dict(self.options)

    @property
    def dead_letters(self) -> TableTarget:
        """The table beside it for rows whose body does not fit."""
        if self.kind == DELTA:
            return replace(self, path=self.path.rstrip("/") + _DEAD_LETTERS)
        return replace(self, parts=(*self.parts[:-1], self.parts[-1] + _DEAD_LETTERS))


def parse_target(text: str, *, warehouse: str | None = None, options: Mapping[str, str] | None = None) -> TableTarget:
    kind, colon, rest = text.partition(":")
    if not colon or kind not in (ICEBERG, DELTA) or not rest:
        raise InvalidArgumentError(f"{text!r} is no table: write iceberg:CATALOG.db.orders or delta:PATH")
    given = dict(options or {})
    objects = settings_of_table(given) | object_settings(given)
    options = {name: value for name, value in given.items() if not is_object_setting(name)}
    if kind == DELTA:
        if warehouse is not None:
            raise InvalidArgumentError("a Delta table has no warehouse: its place is the PATH of delta:PATH")
        path = rest if "://" in rest else os.path.abspath(rest)
        return TableTarget(DELTA, path=path.rstrip("/"), options=options, objects=objects)
    catalog, *parts = rest.split(".")
    if len(parts) < 2 or not all((catalog, *parts)):
        raise InvalidArgumentError(
            f"{text!r} does not name a table in a namespace of a catalog: write iceberg:CATALOG.db.orders, or "
            "iceberg:CATALOG.db.{topic} for a table a topic"
        )
    return TableTarget(
        ICEBERG, catalog=catalog, parts=tuple(parts), warehouse=warehouse, options=options, objects=objects
    )

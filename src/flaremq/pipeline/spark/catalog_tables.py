"""``CREATE TABLE t USING flaremq OPTIONS (…)``: options that Spark has while a table is made, and not when it is read.

For a Python source Spark (4.0 to 4.3) keeps of a table its schema alone: whoever reads it later gets no options at all.
But the schema is ours, and what is noted on its first field comes back with it. A table that was made with a list of
columns has a schema of Spark's making, without the note; all there is then is to say so.

While a table is made, its options come among everything else a catalog knows of it: as ``option.topic``, and the place
as ``path``, a default one of the warehouse if none was given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.options import is_secret
from flaremq.secret_place import names_a_secret

_NOTE: Final = "flaremq.options"
_OPTION: Final = "option."
# ``name=/dir``, several with commas between, which Spark takes for a path below its warehouse.
_NAMED_STORES: Final = re.compile(r"[^/=]+=/.*")


def table_options(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that is being made; None for those of a reader or writer.

    Catalogs keep what is said of a table, and show it to everybody: so a secret is named there, never given.
    """
    folded = {name.lower(): (name, text) for name, text in given.items()}
    if folded.get("provider", ("", ""))[1].lower() != "flaremq":
        return None
    for name, text in given.items():
        own = name[len(_OPTION) :] if name.lower().startswith(_OPTION) else name
        if is_secret(own) and not names_a_secret(text):
            raise InvalidArgumentError(
                f"{own} is given to a table, whose options its catalog keeps and shows: write {own} 'env:NAME' or "
                f"{own} 'file:PATH' for where drivers and executors find it"
            )
    options = {name[len(_OPTION) :]: text for name, text in given.items() if name.lower().startswith(_OPTION)}
    names = {name.lower() for name in options}
    place = folded.get("path") or folded.get("location")
    if place is None or "path" in names or names & {"nameserver", "namesrvaddr"}:
        return options
    if named := _NAMED_STORES.search(place[1]):
        return options | {"path": named.group()}
    if "archive" in names and not os.path.isdir(os.path.join(place[1].removeprefix("file:"), "commitlog")):
        return options  # the place that a catalog makes up
    return options | {"path": place[1]}


def with_note(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema of a table, with its options noted on the first field."""
    first, *rest = schema.fields
    note = {_NOTE: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, note), *rest])


def reader_options(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """The options a reader has: its own before those that the table was made with."""
    made = table_options(given)
    if made is not None:
        return made
    for field in schema.fields:
        if _NOTE in (field.metadata or {}):
            own = {name.lower() for name in given}
            noted: dict[str, str] = json.loads(field.metadata[_NOTE])
            return {name: text for name, text in noted.items() if name.lower() not in own} | dict(given)
    if not given:
        raise InvalidArgumentError(
            "no options came with this query: Spark keeps those of a table that was made with a list of columns. Make "
            "it without one (CREATE TABLE t USING flaremq OPTIONS (path '…', columns 'topic,body')), make a temporary "
            "view of it, or give them in the query: SELECT … FROM t WITH (path = '…')"
        )
    return given

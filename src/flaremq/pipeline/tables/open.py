"""Opening a table by its address; the packages of its format are imported here, when it is known which are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from flaremq.errors import NotFoundError
from flaremq.pipeline.tables.model.extra import lakehouse_needed
from flaremq.pipeline.tables.model.lake_table import LakeTable
from flaremq.pipeline.tables.model.partitions import parse_partitions
from flaremq.pipeline.tables.model.target import DELTA, TableTarget

if TYPE_CHECKING:
    from flaremq.pipeline.tables.iceberg.table import IcebergTable


def find_table(target: TableTarget) -> LakeTable | None:
    """The table, if it is there."""
    if target.kind == DELTA:
        from flaremq.pipeline.tables.delta.table import DeltaLakeTable

        return DeltaLakeTable.find(target)
    return _iceberg_table().find(target)


def open_table(target: TableTarget) -> LakeTable:
    table = find_table(target)
    if table is None:
        raise NotFoundError(f"there is no table {target.text}")
    return table


def create_table(
    target: TableTarget, schema: pa.Schema, partition_by: str, properties: Mapping[str, str] | None = None
) -> LakeTable:
    """The table, made if it is not there; one that is keeps its partitions and gets the columns it lacks."""
    partitions = parse_partitions(partition_by, schema)
    try:
        table = find_table(target)
    except NotFoundError:  # of the catalog itself
        table = None
    if table is None:
        if target.kind == DELTA:
            from flaremq.pipeline.tables.delta.table import DeltaLakeTable

            table = DeltaLakeTable.create(target, schema, partitions, properties or {})
        else:
            table = _iceberg_table().create(target, schema, partitions, properties or {})
    table.evolve(schema)
    return table


def _iceberg_table() -> type[IcebergTable]:
    with lakehouse_needed("An Iceberg table"):
        from flaremq.pipeline.tables.iceberg.table import IcebergTable
    return IcebergTable

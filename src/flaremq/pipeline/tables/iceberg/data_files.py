"""Files as Iceberg describes them: Parquet's footer into a ``DataFile``, and back into what a rewrite asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from flaremq.errors import UnavailableError
from flaremq.pipeline.tables.model.partitions import PartitionField
from flaremq.pipeline.tables.model.staged import LiveFile, StagedFile

if TYPE_CHECKING:
    from pyiceberg.table import Table


def partition_fields(table: Table) -> tuple[PartitionField, ...]:
    """The table's partitions, as far as they are of the kinds that are written here."""
    found = []
    for field in table.spec().fields:
        column = table.schema().find_column_name(field.source_id) or ""
        if not isinstance(field.transform, DayTransform | IdentityTransform):
            raise UnavailableError(
                f"the table is partitioned by {field.transform}({column}); day(…) and plain columns are written here"
            )
        found.append(PartitionField(column, is_day=isinstance(field.transform, DayTransform)))
    return tuple(found)


def data_file(table: Table, location: str, file: StagedFile) -> DataFile:
    """What the manifest says of a file that was written; ``location`` is its full address."""
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.footer,
        stats_columns=compute_statistics_plan(table.schema(), table.metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.partition),
        file_size_in_bytes=file.size_bytes,
        sort_order_id=table.sort_order().order_id,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def live_file(task: Any, table: Table) -> LiveFile:
    """Of a task that PyIceberg plans for a scan. Files of another partitioning are left as they are."""
    file = task.file
    place = table.schema().find_field("physicalOffset") if "physicalOffset" in table.schema().column_names else None
    bound = (file.lower_bounds or {}).get(place.field_id) if place is not None else None
    return LiveFile(
        file.file_path,
        file.record_count,
        file.file_size_in_bytes,
        tuple(file.partition),
        file,
        is_whole=not task.delete_files and file.spec_id == table.spec().spec_id,
        first_physical=-1 if bound is None else int(from_bytes(LongType(), bound)),
    )

"""Rows of one live file as its table has them, read from Parquet alone: what travels to a task is a path.

Iceberg knows columns by their ids, so one that was given another name is found; elsewhere names count. A column that
is a partition may stand in the path of a file only; it is given back to its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from flaremq.errors import CorruptionError, NotFoundError, UnavailableError
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.tables.model.partitions import PartitionField
from flaremq.pipeline.tables.model.staged import LiveFile

_BATCH_ROWS: Final = 65_536
_BATCH_BYTES: Final = 8 << 20
_FIELD_ID: Final = b"PARQUET:field_id"


def read_live(
    root: ArchiveRoot, file: LiveFile, schema: pa.Schema, partitions: Sequence[PartitionField]
) -> Iterator[pa.RecordBatch]:
    """All rows of the file in its order, in the columns of ``schema``; those it does not have are null."""
    count = 0
    try:
        with _open(root, file) as content, pq.ParquetFile(content, page_checksum_verification=True) as parquet:
            found = [_place(field, parquet.schema_arrow) for field in schema]
            names = [parquet.schema_arrow.names[at] for at in found if at >= 0]
            _check_fields(file, schema, found, parquet.schema_arrow)
            constants = {field.column: value for field, value in zip(partitions, file.partition, strict=True)}
            for batch in parquet.iter_batches(_batch_rows(parquet.metadata), columns=names, use_threads=False):
                count += batch.num_rows
                columns = []
                for field, at in zip(schema, found, strict=True):
                    if at >= 0:
                        columns.append(batch.column(parquet.schema_arrow.names[at]).cast(field.type))
                    else:
                        value = pa.scalar(constants.get(field.name), field.type)
                        columns.append(pa.repeat(value, batch.num_rows))
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except NotFoundError as error:
        raise CorruptionError("a file of the table is missing", path=file.location) from error
    except (pa.ArrowException, OSError) as error:
        root.raise_if_unreachable(file.location, error)
        raise CorruptionError("a file of the table is damaged", path=file.location, found=str(error)) from error
    if count != file.rows:
        raise CorruptionError(
            "a file does not hold what its table says", path=file.location, expected=file.rows, found=count
        )


def _open(root: ArchiveRoot, file: LiveFile) -> pa.NativeFile:
    start = f"{root.location.rstrip('/')}/"
    if file.location.startswith(start):
        return root.open_input(file.location.removeprefix(start))
    folder, _, name = file.location.rpartition("/")  # put elsewhere by another writer
    return ArchiveRoot(folder, root.settings).open_input(name)


def _place(field: pa.Field, schema: pa.Schema) -> int:
    """Where the file has the column; -1 if it has not."""
    number = (field.metadata or {}).get(_FIELD_ID)
    if number is not None:
        ids = [(other.metadata or {}).get(_FIELD_ID) for other in schema]
        if any(ids):
            return ids.index(number) if number in ids else -1
    return int(schema.get_field_index(field.name))


def _check_fields(file: LiveFile, schema: pa.Schema, found: Sequence[int], stored: pa.Schema) -> None:
    """Within a structure fields are found by name: one that the table calls otherwise would be lost without a word."""
    for field, at in zip(schema, found, strict=True):
        if at >= 0 and not _has_all(field.type, stored.field(at).type):
            raise UnavailableError(
                f"{file.location} has fields in {field.name} that the table does not have: its files are left as they "
                "are"
            )


def _has_all(kind: pa.DataType, stored: pa.DataType) -> bool:
    if pa.types.is_struct(kind) and pa.types.is_struct(stored):
        known = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
        fields = [stored.field(at) for at in range(stored.num_fields)]
        return all(field.name in known and _has_all(known[field.name], field.type) for field in fields)
    if pa.types.is_map(kind) and pa.types.is_map(stored):
        return _has_all(kind.item_type, stored.item_type)
    if pa.types.is_list(kind) and pa.types.is_list(stored):
        return _has_all(kind.value_type, stored.value_type)
    return True


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    return int(min(_BATCH_ROWS, max(64, _BATCH_BYTES * metadata.num_rows // max(size, 1))))

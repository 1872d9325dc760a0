"""Tables read by engines that nobody here wrote: the same counts and digests of every queue everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

from flaremq.pipeline.archive.row_digest import RowDigest, digest_batch
from flaremq.pipeline.jobs.archive.buffer import split_by_queue
from flaremq.pipeline.jobs.table.compact import compact
from flaremq.pipeline.jobs.verify.tables import verify_tables
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.tables.iceberg.catalog import open_catalog
from tests.pipeline.tables.lab import FORMATS, HOUR_MS, TableLab

Digests = dict[QueueRef, RowDigest]


@pytest.fixture(scope="module", params=FORMATS)
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TableLab:
    """A table of several commits, of which the first ones were merged."""
    lab = TableLab(tmp_path_factory.mktemp("readers"), request.param)
    for _ in range(2):
        lab.put(30, step_ms=HOUR_MS)
        lab.run(partition_by="day(storeTimestamp),tags")
    compact(None, lab.target())
    lab.put(7)
    lab.run()
    return lab


def digests_of(rows: pa.Table) -> Digests:
    """Engines have types of their own for the same values; the values count."""
    conformed = pa.Table.from_arrays(
        [_conformed(rows.column(field.name), field.type) for field in SCHEMA], schema=SCHEMA
    )
    found: Digests = {}
    for batch in conformed.combine_chunks().to_batches():
        for queue, part in split_by_queue(batch):
            found[queue] = found.get(queue, RowDigest()) + digest_batch(part)
    return found


def _conformed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_map(kind) and not pa.types.is_map(column.type):  # Polars: a list of structures
        return pa.chunked_array(
            [[list(map(tuple, (entry.values() for entry in row))) for row in column.to_pylist()]], kind
        )
    return column.cast(kind)


def logged(lab: TableLab) -> Digests:
    (proof,) = verify_tables(None, lab.options(), lab.target())
    assert proof.is_sound
    return {queue.span.queue: queue.digest for queue in proof.queues}


def pyiceberg_table(lab: TableLab) -> Any:
    return open_catalog(lab.target()).load_table(lab.target().parts)


def files_of(lab: TableLab) -> list[str]:
    """What the format's own library says are the files."""
    if lab.kind == "delta":
        from deltalake import DeltaTable

        return list(DeltaTable(str(lab.lake / "orders")).file_uris())
    return [task.file.file_path.removeprefix("file://") for task in pyiceberg_table(lab).scan().plan_files()]


def by_library(lab: TableLab) -> pa.Table:
    """PyIceberg, delta-rs."""
    if lab.kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(lab.lake / "orders")).to_pyarrow_table()
    return pyiceberg_table(lab).scan().to_arrow()


def by_polars(lab: TableLab) -> pa.Table:
    if lab.kind == "delta":
        return polars.scan_delta(str(lab.lake / "orders")).collect().to_arrow()
    return polars.scan_iceberg(pyiceberg_table(lab)).collect().to_arrow()


def by_duckdb(lab: TableLab) -> pa.Table:
    """The files that the table names; its extensions for both formats have to be fetched."""
    names = [Path(name) for name in files_of(lab)]
    text = ", ".join(f"'{name}'" for name in names)
    hive = (
        "hive_partitioning = true, hive_types_autocast = false" if lab.kind == "delta" else "hive_partitioning = false"
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(f"SELECT * FROM read_parquet([{text}], {hive})").to_arrow_table()


@pytest.mark.parametrize("reader", [by_library, by_polars, by_duckdb])
def test_reader_finds_the_messages_of_the_log(
    grown: TableLab, reader: Callable[[TableLab], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # it has one of its own, in another package
    expected = logged(grown)
    rows = reader(grown)
    assert rows.num_rows == sum(digest.count for digest in expected.values()) == 67
    assert digests_of(rows) == expected

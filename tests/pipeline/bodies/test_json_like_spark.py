"""Every odd body, with every schema, as Spark's own ``from_json`` reads it: same values, same bodies refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from flaremq.pipeline.bodies.decoder import BodyDecoder
from tests.pipeline.bodies.made_json import SCHEMAS, made_bodies
from tests.pipeline.bodies.odd_json import ODD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BODIES: Final = list(dict.fromkeys(body for bodies in ODD.values() for body in bodies))
# Known and kept; docs/bodies.md says why.
DIFFERENT: Final = {
    b'{"t": 128, "m": 5}',
    b'{"a": 1, "a": "x"}',
    b'{"a": 1, "b": "\\u12"}',
    b'{"m": {"a": 1, "a": 2}, "k": 1}',
    next(body for body in BODIES if body.count(b"[") > 1000),
}
# What Spark cuts to the size of a byte, a day or a time that is nearly none or wraps around, what Java trims off a
# text, what is kept before base64 that is none.
UNLIKE: Final = re.compile(rb'128|"7"|10:11|\\u0000|"at"\s*:\s*-?\d{13}|"raw"')

Row = tuple[dict[str, Any], bool]


def plain(table: pa.Table) -> pa.Table:
    """Days and microseconds instead of dates and times, which go beyond those of Python; texts of what is no number."""

    def bare(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_date(column.type):
            return column.cast(pa.int32())
        return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column

    return pa.table([bare(column) for column in table.columns], table.column_names)


def rows_of(table: pa.Table, refused: list[bool]) -> list[str]:
    """As text: a NaN equals itself, 1 is not 1.0."""
    return [str(row) for row in zip(plain(table).to_pylist(), refused, strict=True)]


def read_by_spark(spark: SparkSession, schemas: Sequence[str], bodies: list[bytes]) -> Iterator[tuple[str, list[str]]]:
    """By schema what ``from_json`` makes of each body, and whether it calls it corrupt: all in one job."""
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([(at, body) for at, body in enumerate(bodies)], "at int, body binary").coalesce(1)
    text = F.col("body").cast("string")
    options = {"columnNameOfCorruptRecord": "_corrupt_body", "timeZone": "UTC"}
    made = [
        F.from_json(text, f"{ddl}, _corrupt_body string", options).alias(f"read{number}")
        for number, ddl in enumerate(schemas)
    ]
    found = frame.select("at", *made).toArrow().sort_by("at")
    for number, ddl in enumerate(schemas):
        column = found.column(f"read{number}").combine_chunks()
        table = pa.Table.from_arrays(column.flatten(), names=[field.name for field in column.type])
        refused = [body is not None for body in table.column("_corrupt_body").to_pylist()]
        yield ddl, rows_of(table.drop_columns("_corrupt_body"), refused)


def read_by_us(ddl: str, bodies: list[bytes]) -> list[str]:
    decoder = BodyDecoder.from_options({"bodyFormat": "json", "bodySchema": ddl})
    assert decoder is not None
    batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], names=["body"])
    rows, reasons = decoder.decode(batch)
    return rows_of(pa.Table.from_batches([rows]), [reason is not None for reason in reasons.to_pylist()])


def test_bodies_are_read_as_from_json_reads_them(spark: SparkSession) -> None:
    differences = [
        f"{ddl}: {body[:60]!r}\n  Spark {theirs}\n  we    {ours}"
        for ddl, expected in read_by_spark(spark, list(ODD), BODIES)
        for body, theirs, ours in zip(BODIES, expected, read_by_us(ddl, BODIES), strict=True)
        if theirs != ours and body not in DIFFERENT
    ]
    assert not differences, "\n".join(differences)


def _is_text(body: bytes) -> bool:
    """Spark makes texts of bytes that are none, too."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_broken(body: bytes) -> bool:
    """Where it breaks off within a wanted field, Spark keeps some of those before it."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return True
    return False


def test_made_and_damaged_bodies_are_read_as_from_json_reads_them(spark: SparkSession) -> None:
    bodies = [body for body in made_bodies(17, 3000, twice=0) if _is_text(body) and not UNLIKE.search(body)]
    differences = [
        f"{ddl}: {body!r}\n  Spark {theirs}\n  we    {ours}"
        for ddl, expected in read_by_spark(spark, SCHEMAS, bodies)
        for body, theirs, ours in zip(bodies, expected, read_by_us(ddl, bodies), strict=True)
        if theirs != ours and not (_is_broken(body) and theirs.endswith("True)") and ours.endswith("True)"))
    ]
    assert not differences, f"{len(differences)}\n" + "\n".join(differences[:40])


def test_a_body_is_read_alike_alone_and_among_others() -> None:
    # Alone a good body goes through the reader of whole batches; among bad ones it is read by itself.
    for ddl in ODD:
        together = read_by_us(ddl, BODIES)
        for body, expected in zip(BODIES, together, strict=True):
            if body in DIFFERENT:
                continue
            assert read_by_us(ddl, [body]) == [expected], (ddl, body[:60])

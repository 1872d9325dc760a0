"""A table is proved against the log: what is lost, there twice or another one is found and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flaremq.pipeline.jobs.verify.job import VerifyResult, verify
from flaremq.pipeline.jobs.verify.tables import TableProof, verify_tables
from tests.pipeline.tables.lab import SIZES, TableLab

GOOD = [b'{"id": "a", "amount": 1}', b'{"id": "b", "amount": 2.5}', b'{"id": "c"}']
BAD = [b"no json", b'{"id": "d", "amount": "much"}']


def proved(lab: TableLab) -> TableProof:
    return verify_tables(None, lab.options(), lab.target())[0]


def rewritten(lab: TableLab, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in the first file, as many as its table thinks it has or not."""
    path = lab.data_files()[0]
    rows = change(pq.read_table(path, partitioning=None))
    pq.write_table(rows, path)
    _believe(lab, path, rows.num_rows)


def _believe(lab: TableLab, path: Path, rows: int) -> None:
    """The table's metadata goes along with it: only the log can tell."""
    found = lab.open()
    (file,) = [file for file in found.live_files() if file.location.endswith(path.name)]
    if file.rows == rows:
        return
    from flaremq.pipeline.tables.model.staged import StagedFile

    footer = pq.ParquetFile(path).metadata
    staged = StagedFile("x" + path.name, rows, path.stat().st_size, file.partition, footer)
    if lab.kind == "delta":
        (lab.lake / "orders" / staged.path).write_bytes(path.read_bytes())
    else:
        (lab.lake / "sales" / "orders" / "data" / staged.path).write_bytes(path.read_bytes())
    assert found.replace("forged", [file], [staged])


def row_sets(rows: pa.Table) -> dict[str, pa.Table]:
    bodies = [b"X" * len(body) if at == 5 else body for at, body in enumerate(rows.column("body").to_pylist())]
    at = rows.schema.get_field_index("body")
    return {
        "lost": pa.concat_tables([rows.slice(0, 5), rows.slice(6)]),
        "doubled": pa.concat_tables([rows.slice(0, 6), rows.slice(5)]),
        "changed": rows.set_column(at, rows.schema.field(at), pa.array(bodies, rows.schema.field(at).type)),
        "swapped": pa.concat_tables([rows.slice(0, 5), rows.slice(6), rows.slice(7, 1)]),
    }


def test_table_that_holds_what_the_log_holds_is_sound(lab: TableLab) -> None:
    lab.put(40)
    lab.run()
    found = proved(lab)
    assert found.is_sound and found.with_body and found.differences == ()
    assert (found.messages, [queue.digest.count for queue in found.queues]) == (40, [10, 10, 10, 10])


@pytest.mark.parametrize(
    ("what", "said"),
    [("lost", "not in the table"), ("doubled", "2 times"), ("changed", "not the one"), ("swapped", "not in the table")],
)
def test_row_that_is_lost_doubled_or_changed_is_found(lab: TableLab, what: str, said: str) -> None:
    lab.put(40)
    lab.run()
    rewritten(lab, lambda rows: row_sets(rows)[what])
    found = proved(lab)
    assert not found.is_sound
    assert any(
        said in difference.detail and difference.where == "orders/broker-a/0 [5]" for difference in found.differences
    ), found.differences


def test_what_came_since_and_what_retention_took_is_no_difference(lab: TableLab) -> None:
    lab.put(40)
    lab.run()
    lab.put(8)
    found = proved(lab)
    assert found.is_sound and found.messages == 40
    assert {str(difference.state) for difference in found.differences} == {"behind"}


def test_dead_letters_count_for_the_table_they_belong_to(lab: TableLab) -> None:
    from flaremq.pipeline.jobs.table import table

    lab.put(bodies=[*GOOD, *BAD])
    table(None, lab.options(bodyFormat="json", bodySchema="id string, amount double"), lab.target())
    found = proved(lab)
    assert found.is_sound and not found.with_body and found.messages == 5
    (lab.data_files("orders_dead_letters")[0]).unlink()
    with pytest.raises(Exception, match="missing"):
        proved(lab)


def certified(lab: TableLab, **settings: str) -> VerifyResult:
    return verify(None, path=str(lab.root), broker_name="broker-a", tables=[lab.target()], properties=SIZES, **settings)


def test_certificate_covers_the_table(lab: TableLab, tmp_path: Path) -> None:
    lab.put(40)
    lab.run()
    path = str(tmp_path / "cert.json")
    assert certified(lab, certificate=path).verdict == "sound"
    (table,) = json.loads(Path(path).read_text())["tables"]
    assert table["table"] == lab.target().text
    assert sum(queue["count"] for queue in table["queues"]) == 40
    lab.put(8)
    lab.run()
    assert certified(lab, against=path).verdict == "sound", "it has grown since"
    name = max(lab.data_files(), key=lambda file: file.stat().st_size)
    rows = pq.read_table(name, partitioning=None)
    pq.write_table(row_sets(rows)["changed"], name)
    result = certified(lab, against=path)
    assert result.verdict == "differs"
    assert {difference.what for difference in result.differences if difference.is_failure} == {"table"}
    assert any("the table held 10 messages" in difference.detail for difference in result.differences)

"""Reading an archive back: by offset, time, key, column; and what happens when a file of it is damaged."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from flaremq.errors import CorruptionError, NotFoundError, UnavailableError
from flaremq.pipeline.archive import parquet as archive_parquet
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import METADATA
from flaremq.pipeline.model.columns import SCHEMA, schema_of
from flaremq.pipeline.model.source import ReadRequest, TopicSelector
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.sources.archive import ArchiveSource
from tests.pipeline.memory_source import EVERYTHING, NOON, MemorySource, rows_of, run_increment

A0, A1 = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)
B0 = QueueRef("orders", "broker-b", 0)


@pytest.fixture
def source() -> MemorySource:
    source = MemorySource()
    for queue in (A0, A1, B0):
        source.put(queue, 60)
    return source


@pytest.fixture
def archive(source: MemorySource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArchiveSource:
    monkeypatch.setattr(archive_parquet, "ROW_GROUP_BYTES", 6000)
    monkeypatch.setattr(archive_parquet, "QUEUE_GROUP_BYTES", 2000)
    run_increment(source, tmp_path)
    return ArchiveSource(str(tmp_path))


def test_ranges_are_read_exactly(archive: ArchiveSource, source: MemorySource) -> None:
    spans = [Span(A0, 7, 8), Span(A1, 0, 33), Span(B0, 59, 60), Span(A0, 30, 30)]
    assert rows_of(archive, spans) == rows_of(source, spans)


def test_only_the_columns_asked_for_come_in_the_order_and_type_asked_for(archive: ArchiveSource) -> None:
    schema = pa.schema([("body", pa.string()), ("topic", pa.large_string()), ("queueOffset", pa.int64())])
    rows = rows_of(archive, [Span(A0, 0, 2)], ReadRequest(schema))
    assert rows[0]["topic"] == "orders" and rows[0]["body"].startswith("body 0 of")
    narrow = ReadRequest(schema_of(["topic", "storeSize"]))
    assert len(rows_of(archive, [Span(A0, 0, 60)], narrow)) == 60


def test_body_that_is_no_text_is_replaced_where_text_is_asked_for(tmp_path: Path) -> None:
    source = MemorySource()
    source.put(A0)
    source.rows[A0][0]["body"] = b"\xff\xfe"
    run_increment(source, tmp_path)
    rows = rows_of(ArchiveSource(str(tmp_path)), [Span(A0, 0, 1)], ReadRequest(pa.schema([("body", pa.string())])))
    assert rows == [{"body": "\ufffd\ufffd"}]


def test_tags_are_filtered_without_being_asked_for_as_a_column(archive: ArchiveSource) -> None:
    request = ReadRequest(schema_of(["queueOffset"]), tags=frozenset({"t1"}))
    assert [row["queueOffset"] for row in rows_of(archive, [Span(A0, 0, 10)], request)] == [1, 4, 7]


def test_keys_are_found_once_each(archive: ArchiveSource) -> None:
    spans = [Span(queue, 0, 60) for queue in (A0, A1, B0)]
    found = [
        value for batch in archive.read_keys(["k7", "k59", "nobody"], spans, EVERYTHING) for value in batch.to_pylist()
    ]
    assert sorted((value["brokerName"], value["queueId"], value["queueOffset"]) for value in found) == sorted(
        (queue.broker, queue.queue_id, offset) for queue in (A0, A1, B0) for offset in (7, 59)
    )
    assert list(archive.read_keys(["k7"], [Span(A0, 8, 60)], EVERYTHING)) == []
    assert list(archive.read_keys([""], spans, EVERYTHING)) == []


def test_unique_keys_are_found_as_the_log_finds_them(archive: ArchiveSource) -> None:
    found = archive.read_keys(["U31", "k31", "eu"], [Span(A0, 5, 60)], EVERYTHING)
    assert [offset for batch in found for offset in batch["queueOffset"].to_pylist()] == [31]


@pytest.mark.parametrize("time_ms", [0, NOON, NOON + 5, NOON + 255, NOON + 590, NOON + 591])
def test_offset_by_time_is_that_of_the_log(archive: ArchiveSource, source: MemorySource, time_ms: int) -> None:
    assert archive.offset_by_time(A1, time_ms) == source.offset_by_time(A1, time_ms)


def test_extents_name_the_topics_and_leave_system_topics_out(source: MemorySource, tmp_path: Path) -> None:
    source.put(QueueRef("rmq_sys_wheel_timer", "broker-a", 0), 3)
    run_increment(source, tmp_path)
    archive = ArchiveSource(str(tmp_path))
    assert [extent.queue for extent in archive.extents(TopicSelector())] == [A0, A1, B0]
    assert len(archive.extents(TopicSelector(pattern="rmq_.*"))) == 1
    with pytest.raises(NotFoundError, match="no topic 'paid'"):
        archive.extents(TopicSelector(("paid",)))


def test_archive_that_grows_is_noticed(archive: ArchiveSource, source: MemorySource, tmp_path: Path) -> None:
    assert archive.extents(TopicSelector())[0].max_offset == 60
    source.put(A0, 2)
    run_increment(source, tmp_path)
    assert len(rows_of(archive, [Span(A0, 59, 62)])) == 3, "a read beyond the known end looks again"
    assert archive.extents(TopicSelector())[0].max_offset == 62


def test_profiles_begin_and_end_with_their_span(archive: ArchiveSource) -> None:
    whole, part, beyond = archive.profiles([Span(A0, 0, 60), Span(A0, 15, 45), Span(A0, 50, 90)])
    assert part.points[0][:2] == (15, 0) and part.points[-1].offset == 45
    assert abs(part.size_bytes * 2 - whole.size_bytes) <= 2
    assert beyond.points[-1].offset == 90 and beyond.points[-1].size_bytes == beyond.points[-2].size_bytes


def test_gap_is_an_error_unless_data_loss_is_allowed(
    source: MemorySource, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_increment(source, tmp_path)
    source.put(A0, 20)
    source.delete_below(A0, 70)
    run_increment(source, tmp_path, ScanOptions(path="a-store", fail_on_data_loss=False))
    archive = ArchiveSource(str(tmp_path))
    with pytest.raises(UnavailableError, match=r"offsets 60 to 70 of queue orders/broker-a/0.*failOnDataLoss=false"):
        rows_of(archive, [Span(A0, 0, 80)])
    with caplog.at_level(logging.WARNING):
        assert len(rows_of(archive, [Span(A0, 0, 80)], ReadRequest(SCHEMA, fail_on_data_loss=False))) == 70
    assert "offsets 60 to 70" in caplog.text


def test_every_byte_flipped_in_a_column_is_told_as_damage_of_that_file(tmp_path: Path) -> None:
    source = MemorySource()
    source.put(A0, 40)
    run_increment(source, tmp_path)
    path = next(tmp_path.rglob("*.parquet"))
    whole = path.read_bytes()
    expected = rows_of(source)
    for at in range(4, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            with ArchiveSource(str(tmp_path)) as archive:
                rows = rows_of(archive)
        except CorruptionError as error:
            assert path.name in str(error)
        else:  # a field of a page's header that nothing depends on
            assert rows == expected, f"byte {at} changes what is read and nobody says so"


def test_file_that_is_missing_or_cut_is_told(archive: ArchiveSource, tmp_path: Path) -> None:
    path = next(tmp_path.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorruptionError, match=path.name):
        rows_of(archive)
    path.unlink()
    with pytest.raises(CorruptionError, match=f"missing.*{path.name}"):
        rows_of(ArchiveSource(str(tmp_path)))


def test_file_with_fewer_rows_than_its_manifest_says_is_told(source: MemorySource, tmp_path: Path) -> None:
    run_increment(source, tmp_path)
    manifest = Manifest.load(str(tmp_path))
    path = manifest.files[0].path
    assert path is not None
    with manifest.root.replacing(path) as file:
        batches = [batch.drop_columns("topic") for batch in source.read([Span(A0, 0, 9)], EVERYTHING)]
        written = archive_parquet.write_parquet(file, batches)
    with pytest.raises(CorruptionError, match="another size"):
        rows_of(ArchiveSource(str(tmp_path)))
    entry = replace(
        manifest.files[0],
        size_bytes=written.size_bytes,
        tail_bytes=written.tail_bytes,
        tail_crc32=written.tail_crc32,
    )
    shutil.rmtree(tmp_path / METADATA)
    Manifest.load_or_new(manifest.root).commit([entry])
    with pytest.raises(CorruptionError, match="does not hold what its manifest says"):
        rows_of(ArchiveSource(str(tmp_path)))

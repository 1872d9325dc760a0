"""A body that says it is compressed and is not costs its own row, whichever way the messages are read."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flaremq
from flaremq.errors import CorruptionError
from flaremq.message.compression import inflate
from flaremq.message.sys_flag import CompressionType
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.archive.increment import begin, find_missing, finish, plan_tasks
from flaremq.pipeline.jobs.archive.task import run_archive_task
from flaremq.pipeline.jobs.replay.job import finish_replay, plan_replay
from flaremq.pipeline.jobs.replay.task import run_replay_task
from flaremq.pipeline.jobs.verify.job import verify
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions, parse_options, read_request
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.sink.options import parse_sink_options
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.storage.arrow.bodies import PART_BYTES
from flaremq.storage.message_store import MessageStore
from flaremq.storage.verify.finding import Severity
from tests.pipeline.wire_lab import WireLab
from tests.support.forged_bodies import (
    INFLATED_MAX,
    ONE_OF_EACH,
    TOPIC,
    Sent,
    forged_store,
    honest,
    put_all,
    sent_bodies,
)
from tests.support.proof_lab import SIZES
from tests.support.store_lab import SMALL

LIMIT = {"maxInflatedBytes": INFLATED_MAX}
BAD = [number for number, sent in enumerate(ONE_OF_EACH) if sent.is_bad]


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forged") / "store"
    forged_store(root, ONE_OF_EACH)
    return root


def rows_of(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reader.read_all().to_pylist()
    return sorted(rows, key=lambda row: int(row["queueOffset"]))


def check(rows: list[dict[str, Any]], sent: tuple[Sent, ...] | list[Sent], *, raw: bool = False) -> None:
    """Every message has its row, and those that are bad say so."""
    assert [row["queueOffset"] for row in rows] == list(range(len(sent)))
    for row, one in zip(rows, sent, strict=True):
        assert row["body"] == (one.stored if raw and one.is_bad else one.meant)
        if "bodyError" in row:
            assert (row["bodyError"] is not None) == one.is_bad


def archive(root: Path, out: Path) -> None:
    """One increment, without Spark."""
    options = ScanOptions(path=str(root), geometry=dict(SIZES), broker_name="broker-a")
    spec, place = source_spec(options), ArchiveRoot(str(out))
    with place.locked(), open_source(spec) as source:
        manifest = Manifest.load_or_new(place)
        spans, gaps = find_missing(manifest, source, options, now_ms=0)
        tasks = plan_tasks(source, spec, spans, str(out), options=options, parallelism=1)
        begin(place, [TOPIC])
        finish(place, manifest, [run_archive_task(task) for task in tasks], gaps)


def replay(root: Path, target: Path) -> list[bytes]:
    """The bodies that arrive in another store."""
    options = parse_options({"path": str(root), **SIZES, "topic": TOPIC})
    sink = replace(parse_sink_options({"path": str(target), "reservedProperties": "drop"}), write_id="again")
    sink = replace(sink, max_message_size=INFLATED_MAX)
    spec = source_spec(options)
    with open_source(spec) as source:
        tasks = plan_replay(options, spec, scan_spans(source, options), sink, "again", keep_queues=False)
    finish_replay(sink, "again", [run_replay_task(task) for task in tasks])
    with MessageStore.open(target) as store:
        return [message.body for message in messages_of(store)]


def messages_of(store: MessageStore) -> Iterator[Any]:
    for queue_id in range(8):
        offset = 0
        while messages := store.get(TOPIC, queue_id, offset).messages:
            yield from messages
            offset = messages[-1].queue_offset + 1


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(sent_bodies(), min_size=1, max_size=12))
def test_every_way_to_read_goes_on_past_any_bodies(sent: list[Sent]) -> None:
    bad = sum(one.is_bad for one in sent)
    with tempfile.TemporaryDirectory() as folder:
        root, out = Path(folder, "store"), Path(folder, "archive")
        forged_store(root, sent)
        columns = ["queueOffset", "body", "bodyError"]
        for rule in ("null", "raw"):
            options = {"badBodies": rule, **LIMIT}
            check(rows_of(flaremq.scan(root, columns=columns, **SIZES, **options)), sent, raw=rule == "raw")
        keys = ",".join(f"k{number}" for number in range(len(sent)))
        check(rows_of(flaremq.scan(root, topic=TOPIC, columns=columns, keys=keys, **SIZES, **LIMIT)), sent)
        archive(root, out)
        in_archive = [replace(one, meant=one.meant or _inflated(one)) for one in sent]
        for rule in ("null", "raw"):
            check(rows_of(flaremq.scan(archive=out, columns=columns, badBodies=rule)), in_archive, raw=rule == "raw")
        result = verify(None, path=str(root), properties=SIZES, archive=str(out), broker_name="broker-a")
        assert (result.verdict, result.archived_equal) == ("sound", len(sent))
        assert sorted(replay(root, Path(folder, "target"))) == sorted(one.meant or one.stored for one in sent)
        with MessageStore.open(root, SMALL) as store:
            found = list(messages_of(store))
            assert [message.body for message in found] == [one.meant or one.stored for one in in_archive]
            assert [message.body_error is None for message in found] == [not one.is_bad for one in in_archive]
            scanned = [body for batch in store.scan(TOPIC, 0) for body in batch.column("body").to_pylist()]
            assert scanned == [one.meant for one in in_archive]
        assert bad >= sum(one.is_bad for one in in_archive)


def _inflated(one: Sent) -> bytes | None:
    """What a bomb of these tests holds: under the default limit it is an honest body."""
    try:
        return inflate(one.stored, one.sys_flag >> 8 & 7)
    except CorruptionError:
        return None


def test_rows_without_the_body_do_not_notice(forged: Path) -> None:
    rows = rows_of(flaremq.scan(forged, columns=["queueOffset", "tags", "keys"], badBodies="fail", **SIZES))
    assert [row["keys"] for row in rows] == [f"k{number}" for number in range(len(ONE_OF_EACH))]


def test_default_columns_stay_what_they_are(forged: Path) -> None:
    assert "bodyError" not in flaremq.scan(forged, **SIZES).schema.names


def test_one_warning_counts_them_and_names_the_first_with_its_place(
    forged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        rows = rows_of(flaremq.scan(forged, **SIZES, **LIMIT))
    (record,) = [record for record in caplog.records if "bodies" in record.message]
    assert record.levelname == "WARNING" and record.name.startswith("flaremq.")
    first = rows[BAD[0]]
    assert f"{len(BAD)} bodies" in record.message and str(forged) in record.message
    assert f"orders/0, queue offset 1, physical offset {first['physicalOffset']}: zlib body" in record.message


def test_error_names_place_and_remedy_where_it_is_wanted(forged: Path) -> None:
    place = r"orders/0, queue offset 1, physical offset \d+ .*zlib body.*badBodies=null"
    with pytest.raises(CorruptionError, match=place):
        flaremq.scan(forged, badBodies="fail", fail_on_data_loss=False, **SIZES).read_all()


def test_archive_with_an_error_wanted_names_it_too(forged: Path, tmp_path: Path) -> None:
    archive(forged, tmp_path)
    with pytest.raises(CorruptionError, match=r"orders/0, queue offset 1.*zlib body"):
        flaremq.scan(archive=tmp_path, badBodies="fail", fail_on_data_loss=False).read_all()


def test_archive_without_bad_bodies_has_the_files_it_always_had(tmp_path: Path) -> None:
    forged_store(tmp_path / "store", [sent for sent in ONE_OF_EACH if not sent.is_bad])
    archive(tmp_path / "store", tmp_path / "out")
    (file,) = (tmp_path / "out").glob("topic=*/**/*.parquet")
    assert "bodyError" not in pq.read_schema(file).names


def test_verify_names_each_and_finds_the_store_sound(forged: Path, tmp_path: Path) -> None:
    result = verify(None, path=str(forged), properties=SIZES, certificate=str(tmp_path / "certificate.json"))
    notes = [finding for finding in result.findings if finding.kind == "body-undecodable"]
    # Under the verifier's own limit the small bombs are honest bodies.
    assert len(notes) == result.summary.undecodable_bodies == len(BAD) - 4
    assert {finding.severity for finding in notes} == {Severity.NOTE}
    assert result.verdict == "sound" and result.summary.healthy
    assert "orders/0, queue offset 1, physical offset" in notes[0].detail
    assert f'"undecodableBodies": {len(notes)}' in (tmp_path / "certificate.json").read_text()


def test_many_bodies_that_inflate_to_much_come_in_small_batches(tmp_path: Path) -> None:
    large = honest(bytes(PART_BYTES // 4), CompressionType.ZLIB)
    forged_store(tmp_path, [large] * 12)
    batches = list(flaremq.scan(tmp_path, columns=["body"], **SIZES))
    assert sum(batch.num_rows for batch in batches) == 12
    assert max(batch.num_rows for batch in batches) <= 4


def test_cluster_is_read_on_past_them(tmp_path: Path) -> None:
    with WireLab(str(tmp_path)) as lab:
        lab.topic(TOPIC)
        put_all(lab.first.store, ONE_OF_EACH)
        columns = ["queueOffset", "body", "bodyError"]
        for rule in ("null", "raw"):
            options = {"badBodies": rule, **LIMIT}
            rows = rows_of(flaremq.scan(name_server=lab.name_server, topic=TOPIC, columns=columns, **options))
            check(rows, ONE_OF_EACH, raw=rule == "raw")
        some = flaremq.scan(name_server=lab.name_server, topic=TOPIC, columns=columns, keys="k1,k0", **LIMIT)
        check(rows_of(some), ONE_OF_EACH[:2])
        with pytest.raises(CorruptionError, match=r"orders/0, queue offset 1, physical offset \d+"):
            flaremq.scan(name_server=lab.name_server, topic=TOPIC, badBodies="fail").read_all()


def test_text_bodies_are_null_too(forged: Path) -> None:
    options = parse_options({"path": str(forged), "brokerName": "b", **SIZES, **{"maxInflatedBytes": "200000"}})
    schema = pa.schema([("queueOffset", pa.int64()), ("body", pa.string())])
    with open_source(source_spec(options)) as source:
        spans = [Span(QueueRef(TOPIC, "b", 0), 0, len(ONE_OF_EACH))]
        rows = pa.Table.from_batches(source.read(spans, read_request(options, schema))).to_pylist()
    assert [row["body"] for row in rows] == [None if one.meant is None else one.meant.decode() for one in ONE_OF_EACH]

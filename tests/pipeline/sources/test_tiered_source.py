"""One table over archive and log: no row twice, none missing, wherever the seam is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.archive.increment import recover
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.planning.partitions import ScanPiece, plan_pieces
from flaremq.pipeline.sources.archive import ArchiveSource
from flaremq.pipeline.sources.open import open_source
from flaremq.pipeline.sources.tiered import TieredSource
from tests.pipeline.memory_source import NOON, CrashError, MemorySource, rows_of, run_increment

A0, A1 = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)


def copy_of(source: MemorySource) -> MemorySource:
    copy = MemorySource(batch_rows=source.batch_rows)
    copy.rows = {queue: dict(rows) for queue, rows in source.rows.items()}
    copy.bounds = dict(source.bounds)
    return copy


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_row_comes_once_wherever_the_seam_is(data: st.DataObject) -> None:
    whole = MemorySource(batch_rows=data.draw(st.integers(1, 9)))
    live = MemorySource(batch_rows=3)
    with TemporaryDirectory() as out:
        for _ in range(data.draw(st.integers(1, 3))):
            for queue in (A0, A1):
                whole.put(queue, data.draw(st.integers(0, 8)))
                whole.skip(queue, data.draw(st.integers(0, 2)))
            if data.draw(st.booleans()):  # killed: what was finished is taken over, holes stay
                whole.row_bytes = data.draw(st.sampled_from([120, 4 << 20]))
                with suppress(CrashError):
                    run_increment(whole, out, crash_after_tasks=data.draw(st.integers(0, 3)))
            else:
                run_increment(whole, out)
        if has_holes := data.draw(st.booleans()):
            root = ArchiveRoot(out)
            recover(root, Manifest.load_or_new(root))
            assume(Manifest.load_or_new(root).sequence)
        else:
            run_increment(whole, out)
        archived = dict(whole.bounds)
        live = copy_of(whole)
        for queue in (A0, A1):
            live.put(queue, data.draw(st.integers(0, 8)))
            live.delete_below(queue, 0 if has_holes else data.draw(st.integers(0, archived[queue][1])))
        for queue in (A0, A1):  # what the log has now, in one place, to compare with
            for offset, row in live.rows[queue].items():
                whole.rows[queue][offset] = row
            whole.bounds[queue] = 0, live.bounds[queue][1]
        tiered = TieredSource(ArchiveSource(out), live)
        assert rows_of(tiered) == rows_of(whole)
        start, end = sorted(data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
        spans = [
            Span(queue, min(start, whole.bounds[queue][1]), min(end, whole.bounds[queue][1])) for queue in (A0, A1)
        ]
        assert rows_of(tiered, spans) == rows_of(whole, spans)
        for span, profile in zip(spans, tiered.profiles(spans), strict=True):
            assert (profile.points[0].offset, profile.points[-1].offset) == (span.start, span.end)
        time_ms = NOON + data.draw(st.integers(-1, 300))
        for queue in (A0, A1):
            if whole.rows[queue]:
                assert tiered.offset_by_time(queue, time_ms) == whole.offset_by_time(queue, time_ms)


@pytest.fixture
def seam(tmp_path: Path) -> tuple[MemorySource, TieredSource]:
    """Offsets 0 to 20 archived, 15 to 40 in the log."""
    live = MemorySource()
    for queue in (A0, A1):
        live.put(queue, 20)
    run_increment(live, tmp_path)
    for queue in (A0, A1):
        live.put(queue, 20)
        live.delete_below(queue, 15)
    live.reads.clear()
    return live, TieredSource(ArchiveSource(str(tmp_path)), live)


def test_log_is_read_only_for_what_is_not_archived(seam: tuple[MemorySource, TieredSource]) -> None:
    live, tiered = seam
    assert len(rows_of(tiered, [Span(A0, 3, 30), Span(A1, 0, 18)])) == 45
    assert live.reads == [Span(A0, 20, 30)]
    assert [(extent.min_offset, extent.max_offset) for extent in tiered.extents(TopicSelector())] == [(0, 40), (0, 40)]


def test_a_stream_batch_is_cut_alike_before_and_after_more_of_it_was_archived(tmp_path: Path) -> None:
    """A sink knows rows by their partition, also when the batch is run again after a failure."""
    live = MemorySource()
    live.row_bytes = 100 << 10
    live.put(A0, 30)
    live.put(A1, 900)
    run_increment(live, str(tmp_path))
    live.put(A0, 500)
    spec, options = SourceSpec(paths=(("broker-a", "live"),), archive=str(tmp_path)), parse_options({"path": "live"})
    options = replace(options, max_bytes_per_partition=100 << 10)
    spans = [Span(A0, 10, 500), Span(A1, 10, 800)]

    def cut(*, repeatable: bool) -> list[ScanPiece]:
        source = TieredSource(ArchiveSource(str(tmp_path)), live)
        return plan_pieces(source, spec, spans, options, ReadRequest(SCHEMA), repeatable=repeatable)

    before, by_size = cut(repeatable=True), cut(repeatable=False)
    run_increment(live, str(tmp_path))
    assert len(before) > 4 and cut(repeatable=True) == before
    assert cut(repeatable=False) != by_size  # as batches are: by what each side knows of sizes


def test_keys_are_found_on_both_sides(seam: tuple[MemorySource, TieredSource]) -> None:
    _, tiered = seam
    found = tiered.read_keys(["k2", "k17", "k33"], [Span(A0, 0, 40)], ReadRequest(SCHEMA))
    assert [offset for batch in found for offset in batch["queueOffset"].to_pylist()] == [2, 17, 33]


def test_hole_between_archive_and_log_is_data_loss(seam: tuple[MemorySource, TieredSource]) -> None:
    live, tiered = seam
    live.delete_below(A0, 25)
    with pytest.raises(UnavailableError, match=r"offsets 20 to 25 of queue orders/broker-a/0.*failOnDataLoss=false"):
        rows_of(tiered, [Span(A0, 0, 40)])
    rows = rows_of(tiered, [Span(A0, 0, 40)], ReadRequest(SCHEMA, fail_on_data_loss=False))
    assert [row["queueOffset"] for row in rows] == [*range(20), *range(25, 40)]


def test_what_was_archived_and_deleted_meanwhile_is_found_in_the_archive(
    seam: tuple[MemorySource, TieredSource], tmp_path: Path
) -> None:
    live, tiered = seam
    assert len(rows_of(tiered, [Span(A0, 0, 20)])) == 20  # the manifest is known from here on
    run_increment(live, tmp_path)
    live.delete_below(A0, 40)
    assert len(rows_of(tiered, [Span(A0, 0, 40)])) == 40


def test_topic_that_is_gone_from_the_log_is_still_there(seam: tuple[MemorySource, TieredSource]) -> None:
    live, tiered = seam
    live.bounds.clear()
    assert len(tiered.extents(TopicSelector(("orders",)))) == 2
    assert len(rows_of(tiered, [Span(A0, 0, 20)])) == 20
    with pytest.raises(NotFoundError, match="neither the log nor the archive"):
        tiered.extents(TopicSelector(("orders", "paid")))


def test_log_of_another_broker_name_is_refused_with_the_remedy(tmp_path: Path) -> None:
    archived, live = MemorySource(), MemorySource()
    archived.put(A0, 3)
    live.put(QueueRef("orders", "store-copy", 0), 5)
    run_increment(archived, tmp_path)
    with pytest.raises(
        InvalidArgumentError, match=r"from broker broker-a but the log is of broker store-copy.*brokerName"
    ):
        TieredSource(ArchiveSource(str(tmp_path)), live).extents(TopicSelector())


def test_archive_alone_needs_no_log(tmp_path: Path) -> None:
    assert isinstance(open_source(SourceSpec(archive=str(tmp_path))), ArchiveSource)

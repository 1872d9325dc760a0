"""What a scan does about damage, and about files and topics that went away since it was planned."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flaremq.errors import CorruptionError, NotFoundError, UnavailableError
from flaremq.pipeline.model.source import TopicSelector
from tests.support.store_lab import TOPIC, StoreLab
from tests.support.store_rows import all_rows, read_rows, source_of, spans_of


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["queueOffset"] for row in rows]


def damage(lab: StoreLab, at: int) -> None:
    lab.broken_on_purpose = True
    for path in lab.log_files():
        start = int(path.name)
        if start <= at < start + path.stat().st_size:
            with path.open("r+b") as file:
                file.seek(at - start)
                byte = file.read(1)
                file.seek(at - start)
                file.write(bytes([byte[0] ^ 0x10]))


def test_damaged_record_is_an_error_that_names_file_and_offset(lab: StoreLab, caplog: pytest.LogCaptureFixture) -> None:
    lab.open()
    puts = lab.put_many(5)
    lab.close()
    damage(lab, puts[2].physical_offset + 92)
    with pytest.raises(CorruptionError, match="queue offset 2 of orders/0") as caught:
        all_rows(lab)
    assert caught.value.path == str(lab.log_files()[0])
    assert caught.value.offset == puts[2].physical_offset
    with caplog.at_level(logging.WARNING):
        assert offsets(all_rows(lab, fail_on_data_loss=False)) == [0, 1, 3, 4]
    assert "1 damaged and 0 deleted messages were left out" in caplog.text


def test_header_of_another_queue_offset_is_damage(lab: StoreLab) -> None:
    lab.open()
    puts = lab.put_many(3)
    lab.close()
    damage(lab, puts[1].physical_offset + 27)
    with pytest.raises(CorruptionError):
        all_rows(lab, ["topic", "queueId", "storeTimestamp"])
    rows = all_rows(lab, ["topic", "queueId", "storeTimestamp", "queueOffset"], fail_on_data_loss=False)
    assert offsets(rows) == [0, 2]


def test_unit_with_an_absurd_size_reads_no_gigabytes(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(3)
    lab.close()
    lab.broken_on_purpose = True
    with lab.queue_files()[0].open("r+b") as file:
        file.seek(20 + 8)
        file.write((2**30).to_bytes(4, "big"))
    with pytest.raises(CorruptionError, match="queue offset 1"):
        all_rows(lab, ["topic", "queueId", "body"])
    rows = all_rows(lab, ["topic", "queueId", "queueOffset", "body"], fail_on_data_loss=False)
    assert offsets(rows) == [0, 2]


def test_files_that_retention_took_are_a_clear_error_or_skipped(
    lab: StoreLab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.open()
    lab.fill_files(3)
    lab.close()
    with source_of(lab.root) as planner:
        spans = spans_of(planner)
    lab.log_files()[0].unlink()
    lab.broken_on_purpose = True
    with source_of(lab.root) as source:
        gone = source.extents(TopicSelector())[0].min_offset
        assert gone > 0
        for columns in (["queueOffset", "body"], ["queueOffset"]):
            with pytest.raises(
                UnavailableError, match=r"deleted by retention since the query was planned.*failOnDataLoss=false"
            ):
                read_rows(source, spans, columns)
            with caplog.at_level(logging.WARNING):
                rows = read_rows(source, spans, columns, fail_on_data_loss=False)
            assert offsets(rows) == list(range(gone, spans[0].end))
    assert f"0 damaged and {gone} deleted messages were left out" in caplog.text


def test_a_file_that_vanishes_under_the_reader_is_told_the_same_way(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(2)
    lab.close()
    lab.broken_on_purpose = True
    with source_of(lab.root) as source:
        spans = spans_of(source)
        source._views["broker-a"].reader.files.close()
        lab.log_files()[0].unlink()
        with pytest.raises(UnavailableError, match="deleted by retention"):
            read_rows(source, spans, ["body"])
        assert read_rows(source, spans, ["queueOffset", "body"], fail_on_data_loss=False)[0]["queueOffset"] > 0


def test_deleted_topic_is_gone_and_its_next_life_counts_from_zero(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(4)
    lab.put_many(2, topic="stays")
    lab.store.delete_topics([TOPIC])
    with source_of(lab.root) as source, pytest.raises(NotFoundError, match="'orders' has no queue"):
        source.extents(TopicSelector((TOPIC,)))
    lab.put(b"second life", keys="k")
    lab.store.tick()
    rows = all_rows(lab, ["topic", "queueId", "queueOffset", "body"])
    assert [(row["topic"], row["queueOffset"]) for row in rows] == [(TOPIC, 0), ("stays", 0), ("stays", 1)]
    assert rows[0]["body"] == b"second life"


def test_a_topic_deleted_since_it_was_planned_is_lost(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(4)
    lab.store.tick()
    with source_of(lab.root) as source:
        spans = spans_of(source)
    lab.store.delete_topics([TOPIC])
    with source_of(lab.root) as source:
        with pytest.raises(UnavailableError, match="deleted"):
            read_rows(source, spans, ["body"])
        assert read_rows(source, spans, ["body"], fail_on_data_loss=False) == []

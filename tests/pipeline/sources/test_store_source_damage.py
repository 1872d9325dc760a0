"""A store that lost files or bytes: an error when it is planned, or what is left; never fewer rows in silence."""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import CorruptionError, NotFoundError
from flaremq.pipeline.model.source import SourceSpec, TopicSelector
from flaremq.pipeline.sources.store import StoreSource
from flaremq.storage.at_rest import gaps as scan_gaps
from flaremq.storage.queue.consume_queue import FILLER
from tests.support.golden import GoldenStore, open_golden
from tests.support.store_lab import TOPIC, StoreLab
from tests.support.store_rows import BROKER, EVERYTHING, UNIT_COLUMNS, read_rows, source_of, spans_of

GEOMETRY = {"maxHashSlotNum": "200", "maxIndexNum": "800"}
COLUMNS = ["topic", "queueId", "queueOffset", "physicalOffset", "body"]
ROWS = 788  # of rmq53-clean


@pytest.fixture
def golden(tmp_path: Path) -> GoldenStore:
    return open_golden("rmq53-clean", tmp_path)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[StoreLab]:
    bench = StoreLab(tmp_path / "lab")
    yield bench
    bench.finish()


def rows_of(
    root: Path, columns: list[str] | None = None, topics: TopicSelector = EVERYTHING, *, strict: bool, **how: Any
) -> list[dict[str, Any]]:
    spec = SourceSpec(paths=((BROKER, str(root)),), geometry=GEOMETRY, fail_on_data_loss=strict)
    with StoreSource(spec) as source:
        return read_rows(source, spans_of(source, topics), columns or COLUMNS, fail_on_data_loss=strict, **how)


def plan(root: Path, *topics: str) -> None:
    with source_of(root) as source:
        source.extents(TopicSelector(topics) if topics else EVERYTHING)


def flip(path: Path, at: int, count: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(count)
        file.seek(at)
        file.write(bytes(byte ^ 0x5A for byte in old))


def remove(name: str) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return act


def truncate(name: str, size: int) -> Callable[[Path], None]:
    return lambda root: os.truncate(root / name, size)


def empty_log(root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").mkdir()


QUEUE_A, QUEUE_B = "consumequeue/GoldA/0/", "consumequeue/GoldB/0/"
LOG_2, LOG_LAST = "commitlog/00000000000000131072", "commitlog/00000000000000524288"

LOSSES: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "all queues": (
        remove("consumequeue"),
        r"no queue file in .*consumequeue.*rebuild --path .* --in-place",
        0,
    ),
    "a topic": (remove("consumequeue/GoldB"), "GoldB/0 from offset 0 on cannot be read.*no unit leads to them", 438),
    "a queue": (remove("consumequeue/GoldA/0"), "GoldA/0 from offset 0 on", 750),
    "the only file of a queue": (remove(QUEUE_A + "0" * 20), "GoldA/0 from offset 0 on", 750),
    "the first file of a queue": (remove(QUEUE_B + "0" * 20), "GoldB/0 before offset 100.*starts at 100", 688),
    "a middle file of a queue": (
        remove(QUEUE_B + "00000000000000002000"),
        "GoldB/0, offsets 100 to 199 cannot be read: a file of the queue is missing",
        688,
    ),
    "the last file of a queue": (remove(QUEUE_B + "00000000000000004000"), "GoldB/0 from offset 200 on", 708),
    "the end of a queue": (truncate(QUEUE_A + "0" * 20, 100), "GoldA/0 from offset 5 on", 755),
    "the end of a queue, inside of a unit": (truncate(QUEUE_A + "0" * 20, 107), "GoldA/0 from offset 5 on", 755),
    "the last queue file is empty": (truncate(QUEUE_B + "00000000000000004000", 0), "GoldB/0 from offset 200 on", 708),
    "the log's end": (truncate(LOG_LAST, 3000), r"the commit log ends before physical offset \d+ in", 715),
    "the log's last file": (truncate(LOG_LAST, 0), r"the commit log ends before physical offset \d+ in", 706),
    "the log": (remove("commitlog"), "the commit log is missing in .*commitlog", 0),
    "all log files": (empty_log, "the commit log is missing in .*commitlog", 0),
    "a middle log file": (remove(LOG_2), "a file of the commit log is missing in .*131072", 744),
    "the end of a middle log file": (truncate(LOG_2, 1000), "a file of the commit log is cut short in .*131072", 747),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_closed_store_that_lost_files_is_an_error_or_gives_what_is_left(
    golden: GoldenStore, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage, message, left = LOSSES[loss]
    damage(golden.root)
    for columns in (COLUMNS, UNIT_COLUMNS):
        with pytest.raises(CorruptionError, match=message) as caught:
            rows_of(golden.root, columns, strict=True)
        assert str(caught.value).endswith("set failOnDataLoss=false to read what is there")
    with caplog.at_level(logging.WARNING):
        assert len(rows_of(golden.root, strict=False)) == left
    assert "cannot be read" in caplog.text


def test_a_loss_does_not_concern_who_asks_for_other_topics(golden: GoldenStore) -> None:
    shutil.rmtree(golden.root / "consumequeue" / "GoldB")
    assert rows_of(golden.root, topics=TopicSelector(("GoldA",)), strict=True)
    with pytest.raises(CorruptionError, match="GoldB/0 from offset 0 on"):
        rows_of(golden.root, topics=TopicSelector(("GoldB",)), strict=True)
    with pytest.raises(NotFoundError, match=r"config/topics\.json knows it: nothing was sent to it, or"):
        rows_of(golden.root, topics=TopicSelector(("GoldB",)), strict=False)


def test_records_of_a_topic_that_rocketmq_deleted_are_no_loss(golden: GoldenStore) -> None:
    shutil.rmtree(golden.root / "consumequeue" / "GoldB")
    path = golden.root / "config" / "topics.json"
    path.write_text(path.read_text().replace('"GoldB":{', '"Other":{'))
    assert len(rows_of(golden.root, strict=True)) == 438
    with pytest.raises(NotFoundError, match=r"'GoldB' has no queue in .*; did you mean GoldBig"):
        rows_of(golden.root, topics=TopicSelector(("GoldB",)), strict=True)


def test_a_long_log_is_searched_behind_full_and_before_late_queues_only(
    golden: GoldenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_gaps, "_END_BYTES", 1000)
    assert len(rows_of(golden.root, strict=True)) == ROWS
    last = golden.root / QUEUE_B / "00000000000000004000"
    saved = last.read_bytes()
    last.unlink()
    with pytest.raises(CorruptionError, match="GoldB/0 from offset 200 on"):
        plan(golden.root)
    last.write_bytes(saved[:200])
    with pytest.raises(CorruptionError, match="GoldB/0 from offset 210 on"):
        plan(golden.root, "GoldB")


def test_a_queue_that_lost_its_start_is_told_from_one_that_expired(lab: StoreLab) -> None:
    lab.open()
    puts = lab.fill_files(8)
    lab.close()
    lab.broken_on_purpose = True
    for path in lab.log_files()[:4]:
        path.unlink()
    log_start = int(lab.log_files()[0].name)
    expired = sum(put.physical_offset < log_start for put in puts)
    assert 20 < expired < 40 < len(puts)
    plan(lab.root)
    lab.queue_files()[0].unlink()  # as retention does: its last record has expired
    plan(lab.root)
    lab.queue_files()[0].unlink()
    with pytest.raises(CorruptionError, match="orders/0 before offset 40 cannot be read: the log holds them"):
        plan(lab.root)


# Units


def zero(path: Path, unit: int, count: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(20 * unit)
        file.write(bytes(20 * count))


UNITS: dict[str, Callable[[Path], None]] = {
    "a place far behind the log": lambda path: flip(path, 62, 4),
    "a place within the log": lambda path: flip(path, 60 + 5),
    "a place before its predecessor": lambda path: path.write_bytes(
        path.read_bytes()[:60] + bytes(8) + path.read_bytes()[68:]
    ),
    "an absurd size": lambda path: flip(path, 60 + 8, 4),
    "a size into the next record": lambda path: flip(path, 60 + 10),
    "zeros": lambda path: zero(path, 3),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("columns", [COLUMNS, UNIT_COLUMNS], ids=["records", "units"])
def test_a_damaged_unit_is_named_and_costs_one_row(golden: GoldenStore, unit: str, columns: list[str]) -> None:
    UNITS[unit](golden.root / QUEUE_A / ("0" * 20))
    with pytest.raises(CorruptionError, match="queue offset 3 of GoldA/0"):
        rows_of(golden.root, columns, strict=True)
    left = rows_of(golden.root, columns, strict=False)
    assert len(left) == ROWS - 1
    assert (3, "GoldA", 0) not in {(row["queueOffset"], row["topic"], row["queueId"]) for row in left}


def test_zeros_anywhere_in_a_queue_do_not_end_or_begin_it(golden: GoldenStore) -> None:
    path = golden.root / QUEUE_A / ("0" * 20)
    whole = path.read_bytes()
    units = -(-len(whole.rstrip(b"\0")) // 20)
    for unit in range(units - 1):
        path.write_bytes(whole)
        zero(path, unit)
        with pytest.raises(CorruptionError, match=f"queue offset {unit} of GoldA/0"):
            rows_of(golden.root, topics=TopicSelector(("GoldA",)), strict=True)
        left = rows_of(golden.root, UNIT_COLUMNS, TopicSelector(("GoldA",)), strict=False)
        assert sum(row["queueId"] == 0 for row in left) == units - 1


def test_a_damaged_last_record_is_not_taken_for_the_end(golden: GoldenStore) -> None:
    last = [message for message in golden.messages if (message["topic"], message["queueId"]) == ("GoldA", 0)][-1]
    start = last["physicalOffset"] // golden.log_file_size * golden.log_file_size
    flip(golden.log_files()[start], last["physicalOffset"] - start + 5)
    with pytest.raises(CorruptionError, match=f"queue offset {last['queueOffset']} of GoldA/0 cannot be read: no such"):
        rows_of(golden.root, strict=True)
    assert len(rows_of(golden.root, strict=False)) == ROWS - 1


def test_a_damaged_record_is_told_with_its_place_first_and_the_advice_last(golden: GoldenStore) -> None:
    message = next(message for message in golden.messages if message["topic"] == "GoldA")
    flip(golden.log_files()[0], message["physicalOffset"] + 5)
    expected = rf"is damaged in .*/commitlog/0+ at {message['physicalOffset']}; set failOnDataLoss=false to skip it$"
    with pytest.raises(CorruptionError, match=expected):
        rows_of(golden.root, strict=True)


# Our own stores


@pytest.mark.parametrize("lost", ["queue", "topic", "last file", "all queues", "log"])
def test_our_own_note_of_queue_ends_tells_what_is_lost(
    lab: StoreLab, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_gaps, "_END_BYTES", 0)
    lab.open()
    lab.put_many(45)
    lab.put_many(3, topic="other", queue_id=1)
    lab.put_many(5, topic="later")
    lab.close()
    plan(lab.root)
    lab.broken_on_purpose = True
    if lost == "log":
        os.truncate(lab.log_files()[-1], 2000)
    else:
        folder = lab.root / "consumequeue"
        place = {"queue": folder / "other/1", "topic": folder / "other", "all queues": folder}
        remove(str(place.get(lost, lab.queue_files()[-1])))(Path("/"))
    expected = {
        "last file": "orders/0 from offset 40 on cannot be read: the queue ended at 45 when the store was closed",
        "all queues": "later/0 from offset 0 on",
        "log": "no such record|the commit log ends before",
    }
    with pytest.raises(CorruptionError, match=expected.get(lost, "other/1 from offset 0 on")):
        plan(lab.root)


def test_queues_that_another_broker_went_on_with_are_held_against_the_log(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(5)
    lab.close()
    noted = [lab.root / "flaremq.queues", lab.root / "flaremq.offsets"]
    old = [path.read_bytes() for path in noted]
    lab.open()
    lab.put_many(5)
    lab.close()
    for path, data in zip(noted, old, strict=True):
        path.write_bytes(data)
    plan(lab.root)
    lab.broken_on_purpose = True
    zero(lab.queue_files()[0], 7, 3)
    with pytest.raises(CorruptionError, match="orders/0 from offset 7 on cannot be read: the log holds them"):
        plan(lab.root)


def test_deleted_topics_and_empty_stores_are_no_loss(lab: StoreLab) -> None:
    lab.open()
    lab.close()
    plan(lab.root)
    lab.open()
    lab.put_many(4)
    lab.store.delete_topics([TOPIC])
    lab.close()
    plan(lab.root)
    lab.open()
    lab.put_many(2)
    lab.fill_files(3, topic="stays")
    lab.close()
    plan(lab.root)


def test_killed_and_live_stores_are_taken_as_they_are(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(25)
    lab.store.tick()
    plan(lab.root)
    lab.put_many(25)
    lab.store.flush()
    plan(lab.root)
    lab.kill()
    plan(lab.root)
    assert len(rows_of(lab.root, strict=True)) == 50
    lab.broken_on_purpose = True
    (lab.root / "abort").rename(lab.root / "abort.saved")
    shutil.rmtree(lab.root / "consumequeue")
    with pytest.raises(CorruptionError):
        plan(lab.root)


def test_a_hole_of_the_log_is_told_of_killed_and_live_stores_too(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(3)
    lab.store.tick()
    lab.broken_on_purpose = True
    hidden = lab.log_files()[1]
    hidden.rename(lab.root / "hidden")
    with pytest.raises(CorruptionError, match="a file of the commit log is missing"):
        plan(lab.root)
    lab.kill()
    with pytest.raises(CorruptionError, match="a file of the commit log is missing"):
        plan(lab.root)
    with source_of(lab.root) as source:
        source._fail_on_data_loss = False
        with pytest.raises(CorruptionError, match=r"should stand at physical offset .* which no log file holds"):
            read_rows(source, spans_of(source), COLUMNS)
    (lab.root / "hidden").rename(hidden)


# The key index


@pytest.mark.parametrize("seed", range(6))
def test_keys_are_found_through_a_damaged_index(
    golden: GoldenStore, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    key = {"topics": TopicSelector(("GoldA",)), "keys": ["shared-1"]}
    expected = rows_of(golden.root, strict=True, **key)
    assert len(expected) == 21
    path = sorted((golden.root / "index").iterdir())[0]
    dice = random.Random(seed)
    for _ in range(200):
        flip(path, dice.randrange(40, path.stat().st_size))
    with caplog.at_level(logging.WARNING):
        found = rows_of(golden.root, strict=True, **key)
    assert sorted(row["physicalOffset"] for row in found) == sorted(row["physicalOffset"] for row in expected)
    assert f"{path} is damaged; the keys of its records are searched by a scan" in caplog.text


@pytest.mark.parametrize("at", range(0, 40, 4))
def test_keys_are_found_whatever_the_index_header_says(golden: GoldenStore, at: int) -> None:
    flip(sorted((golden.root / "index").iterdir())[0], at, 4)
    assert len(rows_of(golden.root, topics=TopicSelector(("GoldA",)), keys=["shared-1"], strict=True)) == 21


def test_a_key_whose_unit_is_damaged_is_not_passed_over(golden: GoldenStore) -> None:
    message = next(m for m in golden.messages if m["topic"] == "GoldA" and "shared-1" in (m["keys"] or "").split())
    path = golden.root / "consumequeue" / "GoldA" / str(message["queueId"]) / ("0" * 20)
    zero(path, message["queueOffset"])
    key = {"topics": TopicSelector(("GoldA",)), "keys": ["shared-1"]}
    with pytest.raises(CorruptionError, match=f"queue offset {message['queueOffset']} of GoldA"):
        rows_of(golden.root, strict=True, **key)
    assert len(rows_of(golden.root, strict=False, **key)) == 20


def test_the_option_decides_what_a_plan_does(golden: GoldenStore) -> None:
    from flaremq.pipeline.options import ScanOptions
    from flaremq.pipeline.sources.open import source_spec

    options = ScanOptions(path=str(golden.root))
    assert source_spec(options).fail_on_data_loss
    assert not source_spec(replace(options, fail_on_data_loss=False)).fail_on_data_loss


def test_fillers_anywhere_in_a_queue_do_not_end_or_begin_it(golden: GoldenStore) -> None:
    """They stand in the place of records that were lost before: no news, and no reason to lose others."""
    path = golden.root / QUEUE_A / ("0" * 20)
    whole = path.read_bytes()
    units = -(-len(whole.rstrip(b"\0")) // 20)
    for unit in range(units - 1):
        path.write_bytes(whole[: unit * 20] + FILLER + whole[unit * 20 + 20 :])
        with source_of(golden.root) as source:
            (extent,) = [found for found in source.extents(TopicSelector(("GoldA",))) if found.queue.queue_id == 0]
        assert (extent.min_offset, extent.max_offset) == (0 if unit else 1, units), unit

"""Opening a store after a clean stop and after a killed process: same messages, same offsets, same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.errors import CorruptionError
from flaremq.message.message import Message
from tests.support.store_corpus import write_corpus
from tests.support.store_lab import LOG_FILE, TOPIC, StoreLab, all_bodies

FLUSH = pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
REOPEN = pytest.mark.parametrize("reopen", [StoreLab.reopen, StoreLab.kill_and_open], ids=["clean", "killed"])


def picture(lab: StoreLab) -> dict[tuple[str, int], tuple[int, int, list[bytes]]]:
    store = lab.store
    return {
        (topic, queue_id): (
            store.min_offset(topic, queue_id),
            store.max_offset(topic, queue_id),
            [bytes(m.record) for m in store.get(topic, queue_id, 0, 1000, max_bytes=1 << 30).messages],
        )
        for topic, queue_id in store.queues()
    }


@FLUSH
@REOPEN
def test_store_answers_as_before(lab: StoreLab, flush: str, reopen: object) -> None:
    lab.open(flush_disk_type=flush, mapped_file_size_consume_queue=20 * 200)
    write_corpus(lab)
    before = picture(lab)
    keys = {key: [m.physical_offset for m in lab.store.query("orders", key, 64)] for key in ("Aa", "BB", "tx")}
    reopen(lab)  # type: ignore[operator]
    assert picture(lab) == before
    assert {k: [m.physical_offset for m in lab.store.query("orders", k, 64)] for k in keys} == keys


@REOPEN
def test_new_messages_continue_every_queue(lab: StoreLab, reopen: object) -> None:
    lab.open()
    lab.put_many(3, queue_id=0)
    lab.put_many(5, queue_id=1)
    reopen(lab)  # type: ignore[operator]
    assert [lab.put(queue_id=queue).queue_offset for queue in (0, 1, 2)] == [3, 5, 0]


@REOPEN
def test_opening_twice_changes_nothing_the_second_time(lab: StoreLab, reopen: object) -> None:
    lab.open()
    write_corpus(lab)
    reopen(lab)  # type: ignore[operator]
    lab.close()
    before = (lab.log_bytes(), lab.queue_bytes(), lab.index_bytes())
    lab.open()
    lab.close()
    assert (lab.log_bytes(), lab.queue_bytes(), lab.index_bytes()) == before


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_report_of_a_killed_store_tells_where_it_started_and_ended(lab: StoreLab, flush: str) -> None:
    store = lab.open(flush_disk_type=flush)
    lab.put_many(3)
    store.tick()
    checkpoint = store.max_physical_offset
    lab.put_many(3)
    end = store.max_physical_offset
    report = lab.kill_and_open().recovery
    assert (report.closed_cleanly, report.started_at, report.log_end) == (False, checkpoint, end)
    assert (report.truncated_bytes, report.saved_tail, report.damaged) == (0, None, [])


def test_report_of_a_clean_store_starts_at_the_end(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(3)
    end = lab.store.max_physical_offset
    report = lab.reopen().recovery
    assert (report.closed_cleanly, report.started_at, report.log_end) == (True, end, end)


def test_empty_store_opens_and_closes(lab: StoreLab) -> None:
    lab.open()
    lab.reopen()
    assert lab.kill_and_open().queues() == []
    assert lab.put().physical_offset == 0


def test_store_killed_during_its_first_second_is_empty_again(lab: StoreLab) -> None:
    lab.open()
    lab.kill()
    lab.open()
    assert lab.store.recovery.closed_cleanly is False
    assert lab.store.max_physical_offset == 0


def test_process_killed_inside_recovery_is_just_another_kill(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open()
    write_corpus(lab)
    before = picture(lab)
    lab.kill()

    def die(self: object, *, log_end: int = -1) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flaremq.storage.engine.checkpointer.Checkpointer.save", die)
    with pytest.raises(KeyboardInterrupt):
        lab.open()
    monkeypatch.undo()
    lab.open()
    assert picture(lab) == before


def test_killed_store_keeps_counting_where_retention_took_the_start(lab: StoreLab) -> None:
    store = lab.open()
    results = lab.fill_files(3)
    lab.clock.advance(100 * 3_600_000)
    assert store.delete_expired() == 3
    first = store.min_offset(TOPIC, 0)
    lab.kill_and_open()
    assert lab.store.min_physical_offset == 3 * LOG_FILE
    assert (lab.store.min_offset(TOPIC, 0), lab.store.max_offset(TOPIC, 0)) == (first, len(results))


@REOPEN
def test_queue_with_nothing_left_in_the_log_keeps_its_offsets(lab: StoreLab, reopen: object) -> None:
    store = lab.open()
    lab.put_many(3, topic="old")
    lab.fill_files(2)
    assert store.delete_expired(force=True) == 2
    assert (store.min_offset("old", 0), store.max_offset("old", 0)) == (3, 3)
    reopen(lab)  # type: ignore[operator]
    assert (lab.store.min_offset("old", 0), lab.store.max_offset("old", 0)) == (3, 3)
    assert lab.put(topic="old").queue_offset == 3


def test_clock_that_went_back_between_runs_does_not_reorder_store_times(lab: StoreLab) -> None:
    lab.open()
    last = lab.put()
    lab.close()
    lab.clock.jump(-30_000)
    lab.open()
    assert lab.store.put(Message(TOPIC, b"x")).store_timestamp == last.store_timestamp


def test_queue_hints_of_an_older_run_are_not_believed(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(3)
    lab.close()
    hints = (lab.root / "flaremq.queues").read_bytes()
    lab.open()
    lab.put_many(4)
    lab.close()
    (lab.root / "flaremq.queues").write_bytes(hints)
    assert len(all_bodies(lab.open())) == 7


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"logEnd": 1}', b"\xff\xfe", b"null"])
def test_garbled_queue_hints_are_ignored(lab: StoreLab, content: bytes) -> None:
    lab.open()
    lab.put_many(3)
    lab.close()
    (lab.root / "flaremq.queues").write_bytes(content)
    assert len(all_bodies(lab.open())) == 3


@pytest.mark.parametrize("name", ["flaremq.offsets", "flaremq.queues", "checkpoint"])
@REOPEN
def test_store_opens_without_our_own_small_files(lab: StoreLab, name: str, reopen: object) -> None:
    lab.open()
    write_corpus(lab, 3)
    before = picture(lab)
    lab.close() if reopen is StoreLab.reopen else lab.kill()
    (lab.root / name).unlink(missing_ok=True)
    lab.open()
    assert picture(lab) == before


def test_offsets_of_another_store_are_not_believed(lab: StoreLab, tmp_path: Path) -> None:
    other = StoreLab(tmp_path / "other")
    other.open()
    other.fill_files(5)
    other.close()
    lab.open()
    lab.put_many(3)
    lab.kill()
    (lab.root / "flaremq.offsets").write_bytes((other.root / "flaremq.offsets").read_bytes())
    assert len(all_bodies(lab.open())) == 3


def test_wrong_log_file_size_is_refused_before_anything_changes(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(3)
    lab.close()
    before = {path: path.read_bytes() for path in lab.root.rglob("*") if path.is_file()}
    with pytest.raises(CorruptionError, match="mappedFileSizeCommitLog"):
        lab.open(mapped_file_size_commit_log=2 * LOG_FILE)
    assert {path: path.read_bytes() for path in lab.root.rglob("*") if path.is_file()} == before
    lab.open(mapped_file_size_commit_log=LOG_FILE)


def test_after_a_kill_one_line_says_what_recovery_found(lab: StoreLab, caplog: pytest.LogCaptureFixture) -> None:
    lab.open()
    end = lab.put_many(3)[-1].physical_offset
    lab.kill()
    lab.damage_log(end + 4)
    lab.open()
    (line,) = [record.getMessage() for record in caplog.records if "not closed cleanly" in record.getMessage()]
    assert f"{lab.root} was not closed cleanly" in line
    assert f"to its end at {lab.store.recovery.log_end}" in line and "cut off" in line
    caplog.clear()
    lab.reopen()
    assert not caplog.records

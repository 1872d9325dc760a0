"""RocketMQ's checkpoint file and our own durable offsets: both only ever say what is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.message.message import Message
from flaremq.storage.files.checkpoint import CHECKPOINT, DurableOffsets, OffsetsFile, StoreCheckpoint
from flaremq.storage.files.filesystem import LocalFileSystem, write_atomically
from flaremq.storage.queue.table import ConsumeQueues
from tests.support.store_lab import TOPIC, StoreLab

FILESYSTEM = LocalFileSystem()
STATE = DurableOffsets(1000, 900, -1, 20231114221320000, 1, 2, 3, 4, 5, 6)


def open_offsets(folder: Path) -> OffsetsFile:
    return OffsetsFile.open(FILESYSTEM, str(folder / "offsets"), str(folder))


def test_checkpoint_is_read_back_and_takes_one_page(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    saved = StoreCheckpoint(1, 2, 3, 4, 5, 6)
    write_atomically(FILESYSTEM, path, saved.pack())
    assert StoreCheckpoint.load(FILESYSTEM, path) == saved
    data = Path(path).read_bytes()
    assert len(data) == 4096 and CHECKPOINT.unpack_from(data) == (1, 2, 3, 4, 5, 6)
    assert not data[48:].strip(b"\0")


@pytest.mark.parametrize("content", [None, b"", bytes(20)])
def test_missing_or_short_checkpoint_counts_as_nothing_known(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    assert StoreCheckpoint.load(FILESYSTEM, str(path)) == StoreCheckpoint()


def test_recovery_time_is_three_seconds_before_the_older_of_log_and_queues() -> None:
    assert StoreCheckpoint(10_000, 9_000, 0).recovery_time_ms == 6_000
    assert StoreCheckpoint(2_000, 9_000, 0).recovery_time_ms == 0


def test_new_offsets_file_knows_nothing(tmp_path: Path) -> None:
    offsets = open_offsets(tmp_path)
    assert not offsets.is_known and offsets.offsets == DurableOffsets()


def test_saved_offsets_are_found_again(tmp_path: Path) -> None:
    offsets = open_offsets(tmp_path)
    offsets.save(STATE)
    offsets.close()
    again = open_offsets(tmp_path)
    assert again.is_known and again.offsets == STATE
    assert OffsetsFile.peek(FILESYSTEM, str(tmp_path / "offsets")) == STATE


@pytest.mark.parametrize("at", [0, 50, 90, 4096, 4100, 4180])
def test_one_damaged_slot_leaves_the_other(tmp_path: Path, at: int) -> None:
    offsets = open_offsets(tmp_path)
    older, newer = STATE, DurableOffsets(2000, 1900)
    offsets.save(older)
    offsets.save(newer)
    offsets.close()
    path = tmp_path / "offsets"
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    assert open_offsets(tmp_path).offsets == (newer if at < 4096 else older)


def test_save_never_overwrites_the_state_saved_last(tmp_path: Path) -> None:
    offsets = open_offsets(tmp_path)
    for step in range(1, 6):
        before = (tmp_path / "offsets").read_bytes()
        offsets.save(DurableOffsets(step * 10, step))
        after = (tmp_path / "offsets").read_bytes()
        changed = [page for page in (0, 4096) if before[page : page + 4096] != after[page : page + 4096]]
        assert changed == [4096 if step % 2 == 0 else 0]


def test_durable_offset_noted_between_saves_survives_a_killed_process(tmp_path: Path) -> None:
    offsets = open_offsets(tmp_path)
    offsets.save(STATE)
    offsets.note_log_durable(5_000)
    offsets.note_log_durable(6_000)
    again = open_offsets(tmp_path)
    assert (again.offsets.log_durable, again.offsets.dispatched) == (6_000, STATE.dispatched)


def test_peek_at_an_absent_file_finds_nothing(tmp_path: Path) -> None:
    assert OffsetsFile.peek(FILESYSTEM, str(tmp_path / "offsets")) is None


# As a store keeps them


def read_checkpoint(lab: StoreLab) -> StoreCheckpoint:
    return StoreCheckpoint.load(FILESYSTEM, str(lab.root / "checkpoint"))


def test_clean_stop_says_everything_is_on_disk(lab: StoreLab) -> None:
    lab.open()
    last = lab.put_many(3, keys="k")[-1]
    end = lab.store.max_physical_offset
    lab.close()
    saved = read_checkpoint(lab)
    assert (saved.physic_msg_timestamp, saved.logics_msg_timestamp) == (last.store_timestamp,) * 2
    assert saved.index_msg_timestamp == last.store_timestamp
    offsets = OffsetsFile.peek(FILESYSTEM, str(lab.root / "flaremq.offsets"))
    assert offsets is not None
    assert (offsets.log_durable, offsets.dispatched, offsets.log_end) == (end, end, end)


def test_open_store_does_not_say_it_was_closed(lab: StoreLab) -> None:
    lab.open()
    lab.put()
    offsets = OffsetsFile.peek(FILESYSTEM, str(lab.root / "flaremq.offsets"))
    assert offsets is not None and offsets.log_end == -1


def test_messages_that_come_during_a_checkpoint_are_not_claimed_by_it(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lab.open()
    first = lab.put(b"before")
    flush = ConsumeQueues.flush

    def put_then_flush(self: ConsumeQueues) -> None:
        monkeypatch.undo()
        lab.put(b"meanwhile")
        flush(self)

    monkeypatch.setattr(ConsumeQueues, "flush", put_then_flush)
    store._engine.checkpointer.save()
    assert read_checkpoint(lab).logics_msg_timestamp <= first.store_timestamp
    assert store._engine.checkpointer.dispatched == first.physical_offset + first.size


def test_undispatched_messages_do_not_move_the_queue_time(lab: StoreLab) -> None:
    store = lab.open()
    first = lab.put(b"dispatched")
    store._dispatch.run = lambda: None  # type: ignore[method-assign]  # dispatch lags behind
    lab.put(b"not yet dispatched")
    store._engine.checkpointer.save()
    del store._dispatch.run
    assert read_checkpoint(lab).logics_msg_timestamp <= first.store_timestamp


def test_unflushed_messages_do_not_move_the_log_time(lab: StoreLab) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH")
    first = lab.put(b"flushed")
    store.flush()
    lab.clock.advance(1_000)
    store.put(Message(TOPIC, b"not flushed"))
    assert store._commit_log.flushed_timestamp == first.store_timestamp


def test_checkpoint_that_cannot_be_written_leaves_the_old_one(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    store = lab.open()
    lab.put()
    store.tick()
    before = (lab.root / "checkpoint").read_bytes()
    (lab.root / "checkpoint.tmp").mkdir()  # the temporary file cannot be made
    lab.put()
    with pytest.raises(Exception, match=r"checkpoint\.tmp"):
        store._engine.checkpointer.save()
    assert (lab.root / "checkpoint").read_bytes() == before
    (lab.root / "checkpoint.tmp").rmdir()

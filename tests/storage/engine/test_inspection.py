"""What administrators ask of a store: units, times, the end of the index; deletion of topics on demand."""

from __future__ import annotations

from flaremq.message.java_hash import tags_code
from flaremq.storage.engine.inspection import QueueUnit
from tests.support.store_lab import TOPIC, StoreLab, all_bodies


def test_units_are_those_that_dispatch_wrote(lab: StoreLab) -> None:
    lab.open()
    puts = [lab.put(tags=tag) for tag in ("A", "B", None)]
    units = lab.store.inspector.units(TOPIC, 0, 0, 10)
    assert units == [
        QueueUnit(put.physical_offset, put.size, code)
        for put, code in zip(puts, (tags_code("A"), tags_code("B"), 0), strict=True)
    ]
    inspector = lab.store.inspector
    assert inspector.units(TOPIC, 0, 1, 1) == units[1:2]
    assert (
        inspector.units(TOPIC, 0, 3, 5) == inspector.units(TOPIC, 0, -1, 5) == inspector.units("other", 0, 0, 5) == []
    )
    assert inspector.has_queue(TOPIC, 0) and not inspector.has_queue(TOPIC, 1)


def test_store_times_are_known_for_messages_that_are_there(lab: StoreLab) -> None:
    lab.open()
    first = lab.put()
    times = [first.store_timestamp, lab.put().store_timestamp]
    inspector = lab.store.inspector
    assert [inspector.store_time(TOPIC, 0, offset) for offset in (-1, 0, 1, 2)] == [None, *times, None]
    assert inspector.store_time("other", 0, 0) is None
    assert inspector.earliest_store_time() == times[0]


def test_empty_store_has_no_times_and_no_index(lab: StoreLab) -> None:
    lab.open()
    inspector = lab.store.inspector
    assert inspector.earliest_store_time() is None
    assert inspector.index_end() == (0, 0)


def test_index_end_follows_the_last_message_with_a_key(lab: StoreLab) -> None:
    lab.open()
    put = lab.put(keys=["k"])
    assert lab.store.inspector.index_end() == (put.store_timestamp, put.physical_offset)


def test_used_ratios_name_every_log_folder(lab: StoreLab) -> None:
    lab.open()
    logs, queues = lab.store.inspector.used_ratios()
    assert list(logs) == [str(lab.root / "commitlog")]
    assert all(0 < ratio <= 1 for ratio in (*logs.values(), queues))


def test_deleted_topics_are_gone_for_good_and_others_untouched(lab: StoreLab) -> None:
    lab.broken_on_purpose = True  # records without units, by order of the administrator
    lab.open()
    lab.put_many(30, topic="gone")
    lab.put_many(30, topic="gone", queue_id=1)
    lab.put_many(30)
    assert lab.store.delete_topics(["gone", "never was"]) == 2
    assert lab.store.queues() == [(TOPIC, 0)]
    assert not (lab.root / "consumequeue" / "gone").exists()
    for _ in range(2):
        lab.kill_and_open()
        assert lab.store.queues() == [(TOPIC, 0)]
        assert len(all_bodies(lab.store)) == 30
    assert lab.store.delete_topics(["gone"]) == 0


def test_topic_made_again_after_its_deletion_starts_at_zero_and_survives_restarts(lab: StoreLab) -> None:
    lab.broken_on_purpose = True
    lab.open()
    lab.put_many(30, topic="again")
    lab.store.delete_topics(["again"])
    assert [put.queue_offset for put in lab.put_many(3, topic="again")] == [0, 1, 2]
    lab.kill_and_open()
    assert len(all_bodies(lab.store, "again")) == 3
    lab.reopen()
    assert all_bodies(lab.store, "again") == [b"body 000", b"body 001", b"body 002"]
    assert lab.put(topic="again").queue_offset == 3


def test_deletion_by_hand_is_good_for_the_next_rounds(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(3)
    inspector = lab.store.inspector
    lab.store.request_deletion()
    assert lab.store.min_physical_offset == 0
    lab.clock.advance(73 * 3_600_000)
    lab.store.request_deletion()
    assert lab.store.min_physical_offset > 0
    lab.store.clean_expired_queues()
    assert inspector.store_time(TOPIC, 0, lab.store.min_offset(TOPIC, 0)) is not None

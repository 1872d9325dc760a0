"""Queries by key: hash collisions, time ranges, limits, order; and many keys at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.message.java_hash import index_hash
from flaremq.message.message import Message
from tests.support.store_corpus import write_corpus
from tests.support.store_lab import TOPIC, StoreLab, bodies


def offsets(lab: StoreLab, key: str, count: int = 64, **times: int) -> list[int]:
    return [message.physical_offset for message in lab.store.query(TOPIC, key, count, **times)]


def test_message_is_found_by_each_of_its_keys(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"x", keys=["one", "two"], properties={"UNIQ_KEY": "unique"})
    for key in ("one", "two", "unique"):
        assert bodies(store.query(TOPIC, key)) == [b"x"]
    assert store.query(TOPIC, "three") == store.query("other", "one") == store.query(TOPIC, "one two") == []


def test_w31_keys_with_equal_hashes_are_told_apart(lab: StoreLab) -> None:
    assert index_hash(TOPIC, "Aa") == index_hash(TOPIC, "BB")
    store = lab.open()
    lab.put(b"first", keys="Aa")
    lab.put(b"second", keys="BB")
    assert bodies(store.query(TOPIC, "Aa")) == [b"first"]
    assert bodies(store.query(TOPIC, "BB")) == [b"second"]


def test_w31_topics_with_equal_hashes_are_told_apart(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"first", topic="topicAa", keys="k")
    lab.put(b"second", topic="topicBB", keys="k")
    assert bodies(store.query("topicAa", "k")) == [b"first"]


@pytest.mark.parametrize("colliding", [3, 20, 100])
def test_w31_collisions_do_not_count_against_the_limit(lab: StoreLab, colliding: int) -> None:
    store = lab.open()
    lab.put(b"wanted", keys="Aa")
    for _ in range(colliding):
        lab.put(keys="BB")
    assert bodies(store.query(TOPIC, "Aa", 1)) == [b"wanted"]
    assert [bodies(found) for found in store.query_many(TOPIC, ["Aa"], 1)] == [[b"wanted"]]


def test_newest_are_kept_and_given_oldest_first(lab: StoreLab) -> None:
    lab.open()
    placed = [lab.put(keys="k").physical_offset for _ in range(10)]
    assert offsets(lab, "k", 3) == placed[-3:]


def test_limit_of_the_options_is_never_exceeded(lab: StoreLab) -> None:
    lab.open()
    placed = [lab.put(keys="k").physical_offset for _ in range(100)]
    assert offsets(lab, "k", 1000) == placed[-64:]
    lab.reopen(max_msgs_num_batch=5)
    assert offsets(lab, "k", 1000) == placed[-5:]


def test_message_with_the_same_key_twice_is_given_once(lab: StoreLab) -> None:
    lab.open()
    place = lab.put(keys=["k", "k"], properties={"UNIQ_KEY": "k"}).physical_offset
    assert offsets(lab, "k") == [place]


def test_time_range_is_exact_to_the_millisecond_on_both_sides(lab: StoreLab) -> None:
    lab.open()
    placed = []
    for _ in range(8):
        lab.clock.advance(399)
        placed.append(lab.put(keys="k"))
    for first in range(8):
        for last in range(first, 8):
            begin, end = placed[first].store_timestamp, placed[last].store_timestamp
            expected = [result.physical_offset for result in placed[first : last + 1]]
            assert offsets(lab, "k", begin_ms=begin, end_ms=end) == expected
            inner = [result.physical_offset for result in placed[first + 1 : last]]
            assert offsets(lab, "k", begin_ms=begin + 1, end_ms=end - 1) == inner


def test_time_range_over_several_index_files_with_long_pauses(lab: StoreLab) -> None:
    lab.open(max_index_num=4)
    placed = []
    for number in range(20):
        lab.clock.advance(3_600_000 if number % 3 == 0 else 10)
        placed.append(lab.put(keys="k"))
    for first in range(20):
        for last in range(first, 20):
            begin, end = placed[first].store_timestamp, placed[last].store_timestamp
            expected = [result.physical_offset for result in placed[first : last + 1]]
            assert offsets(lab, "k", begin_ms=begin, end_ms=end) == expected


def test_deleted_messages_are_not_found(lab: StoreLab) -> None:
    lab.open()
    old = lab.put(keys="k")
    lab.fill_files(2)
    new = lab.put(keys="k")
    assert offsets(lab, "k") == [old.physical_offset, new.physical_offset]
    lab.store.delete_expired(force=True)
    assert offsets(lab, "k") == [new.physical_offset]


def test_keys_are_split_at_single_spaces(lab: StoreLab) -> None:
    store = lab.open()
    store.put(Message(TOPIC, b"x", keys=" a  b "))
    assert [len(store.query(TOPIC, key)) for key in ("a", "b", "", " ")] == [1, 1, 0, 0]


def test_without_the_index_nothing_is_found_and_nothing_breaks(lab: StoreLab) -> None:
    store = lab.open(message_index_enable=False)
    lab.put(keys="k")
    assert store.query(TOPIC, "k") == []
    assert store.query_many(TOPIC, ["k", "l"]) == [[], []]
    assert not (lab.root / "index").exists()
    lab.broken_on_purpose = True  # the verifier expects keys in an index


def test_index_switched_off_and_on_again_keeps_the_older_keys(lab: StoreLab) -> None:
    lab.open()
    before = lab.put(keys="k").physical_offset
    lab.reopen(message_index_enable=False)
    lab.put(keys="k")
    lab.reopen(message_index_enable=True)
    after = lab.put(keys="k").physical_offset
    assert offsets(lab, "k")[0] == before and offsets(lab, "k")[-1] == after
    lab.broken_on_purpose = True


@pytest.mark.parametrize("count", [1, 2, 32, 64])
def test_many_keys_at_once_give_what_each_gives_alone(lab: StoreLab, count: int) -> None:
    store = lab.open()
    write_corpus(lab, foreign=True)
    keys = ["Aa", "BB", "tx", "", "absent", "ключ", "键", "🔥", "twice", "last", "utf", "double", "order-9"]
    keys += [f"key-{n}" for n in range(8)] + [f"U{n}" for n in range(8)] + ["x" * 1000, "Aa"]
    for topic in ("orders", "bills", "paid", "nowhere"):
        alone = [[m.physical_offset for m in store.query(topic, key, count)] for key in keys]
        many = store.query_many(topic, keys, count)
        assert [[m.physical_offset for m in found] for found in many] == alone


def test_many_keys_of_an_empty_store(lab: StoreLab, tmp_path: Path) -> None:
    assert lab.open().query_many(TOPIC, ["a", "b"]) == [[], []]
    assert lab.store.query_many(TOPIC, []) == []

"""We and RocketMQ write one store in turn, twice each: nobody loses or moves what the other wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import compare, java_store, ours

pytestmark = pytest.mark.interop

OPTIONS = ours.SMALL_FILES
STEP = 150


def test_store_written_in_turn_keeps_what_both_wrote(version: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    our_acks = []
    their_acks = []
    for turn in range(2):
        first = turn * STEP
        our_acks += ours.write(root, OPTIONS, range(first, first + STEP))
        their_acks += java_store.write(version, root, OPTIONS, first=first, count=STEP)
        with ours.open_store(root, OPTIONS) as store:
            image = ours.image_of(store, root)
            assert store.check() == []
        compare.assert_acknowledged(our_acks, image)
        compare.assert_java_acknowledged(their_acks, image)

    last = java_store.read(version, root, OPTIONS, requests=compare.key_requests(image))

    compare.assert_same_log(image, last)
    compare.assert_same_queues(image, last)
    compare.assert_queues_follow_log(last)
    compare.assert_java_finds_keys(last)


def test_turns_that_end_in_a_kill_lose_nothing_acknowledged(version: str, tmp_path: Path) -> None:
    """RocketMQ is killed in each of its turns; ours has to recover before it can go on."""
    root = tmp_path / "store"
    our_acks = []
    their_acks = []
    for turn in range(2):
        first = turn * STEP
        our_acks += ours.write(root, OPTIONS, range(first, first + STEP))
        with java_store.JavaWriter(version, root, OPTIONS, end="never", first=first) as writer:
            writer.wait_for_acks(STEP)
            their_acks += writer.kill()

    with ours.open_store(root, OPTIONS) as store:
        image = ours.image_of(store, root)
        assert store.check() == []
    compare.assert_acknowledged(our_acks, image)
    compare.assert_java_acknowledged(their_acks, image)

"""A store written by RocketMQ's own store, closed or killed, opens in ours with equal content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flaremq.storage.message_store import MessageStore
from tests.interop import compare, java_store, ours
from tests.interop.java_store import Image, JavaWriter

pytestmark = pytest.mark.interop

OPTIONS = ours.SMALL_FILES


def test_store_closed_by_rocketmq_opens_with_equal_content(version: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    acks = java_store.write(version, root, OPTIONS, count=500, long_topic=version.startswith("5."))
    theirs = java_store.read(version, root, OPTIONS)

    with ours.open_store(root, OPTIONS) as store:
        mine = ours.image_of(store, root)
        compare.assert_java_acknowledged(acks, mine)
        compare.assert_same_log(mine, theirs)
        compare.assert_same_queues(mine, theirs)
        _assert_we_find_keys(store, theirs)
        _assert_we_filter_by_tag(store, theirs)
        assert store.check() == []


def test_store_of_a_killed_rocketmq_opens_with_equal_content(version: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with JavaWriter(version, root, OPTIONS, end="never", long_topic=version.startswith("5.")) as writer:
        writer.wait_for_acks(600)
        acks = writer.kill()
    theirs = java_store.read(version, root, OPTIONS)

    with ours.open_store(root, OPTIONS) as store:
        mine = ours.image_of(store, root)
        compare.assert_java_acknowledged(acks, mine)
        compare.assert_same_log(mine, theirs)
        compare.assert_same_queues(mine, theirs)
        _assert_we_find_keys(store, theirs)
        assert store.check() == []


def test_store_killed_by_one_release_opens_in_ours_and_then_in_every_other(
    tmp_path: Path, require_rocketmq: Callable[[str], None]
) -> None:
    newest, oldest = "5.5.0", "4.9.7"
    require_rocketmq(newest)
    require_rocketmq(oldest)
    root = tmp_path / "store"
    with JavaWriter(newest, root, OPTIONS, end="never") as writer:
        writer.wait_for_acks(300)
        acks = writer.kill()

    with ours.open_store(root, OPTIONS) as store:
        mine = ours.image_of(store, root)
    image = java_store.read(oldest, root, OPTIONS, requests=compare.key_requests(mine))

    assert image["abortFilePresent"] is False
    compare.assert_java_acknowledged(acks, image)
    compare.assert_same_log(mine, image)
    compare.assert_queues_follow_log(image)
    compare.assert_java_finds_keys(image)


def _assert_we_find_keys(store: MessageStore, image: Image) -> None:
    """Exactly the messages with that key, newest or oldest first: the order is not RocketMQ's promise."""
    for (topic, key), offsets in compare.offsets_by_key(image).items():
        found = store.query(topic, key, max_count=java_store.QUERY_MAX)
        if len(offsets) <= java_store.QUERY_MAX:
            assert sorted(message.physical_offset for message in found) == offsets, (topic, key)
        else:
            assert {message.physical_offset for message in found} <= set(offsets), (topic, key)
            assert len(found) == java_store.QUERY_MAX, (topic, key)


def _assert_we_filter_by_tag(store: MessageStore, image: Image) -> None:
    tagged = [
        message["physicalOffset"]
        for message in image["messages"]
        if (message["topic"], message["queueId"], message["tags"]) == ("InteropA", 1, "TagB")
        and compare.has_unit(message)
    ]
    found: list[int] = []
    offset = 0
    while offset < store.max_offset("InteropA", 1):
        result = store.get("InteropA", 1, offset, tags="TagB")
        found += [message.physical_offset for message in result.messages]
        offset = result.next_offset
    assert tagged and found == tagged

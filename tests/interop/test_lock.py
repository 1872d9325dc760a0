"""One store, one process: the lock file means the same to RocketMQ and to us."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.errors import UnavailableError
from tests.interop import compare, corpus, java_store, ours
from tests.interop.java_store import JavaWriter

pytestmark = pytest.mark.interop

OPTIONS = ours.SMALL_FILES


def test_store_held_open_by_us_is_refused_by_rocketmq(version: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with ours.open_store(root, OPTIONS) as store:
        acks = [corpus.put(store, number) for number in range(20)]
        store.wait_for_dispatch(timeout=60)

        image = java_store.read(version, root, OPTIONS, start=True, in_place=True)

        assert "Lock failed" in image["startFailure"]
        acks += [corpus.put(store, number) for number in range(20, 30)]
    with ours.open_store(root, OPTIONS) as store:
        compare.assert_acknowledged(acks, ours.image_of(store, root))


def test_refused_start_of_rocketmq_costs_us_nothing_we_acknowledge_later(version: str, tmp_path: Path) -> None:
    """RocketMQ locks after load and recovery: by then it has deleted log files that were prepared for us."""
    root = tmp_path / "store"
    with ours.open_store(root, OPTIONS) as store:
        acks = [corpus.put(store, number) for number in range(20)]
        store.wait_for_dispatch(timeout=60)
        java_store.read(version, root, OPTIONS, start=True, in_place=True)

        acks += [corpus.put(store, number) for number in range(20, 400)]  # several files further
    with ours.open_store(root, OPTIONS) as store:
        compare.assert_acknowledged(acks, ours.image_of(store, root))


def test_store_held_open_by_rocketmq_is_refused_by_us(version: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with JavaWriter(version, root, OPTIONS, end="hold", count=20) as writer:
        writer.wait_until_held()

        with pytest.raises(UnavailableError):
            ours.open_store(root, OPTIONS)

        acks = writer.finish()
    with ours.open_store(root, OPTIONS) as store:
        compare.assert_java_acknowledged(acks, ours.image_of(store, root))

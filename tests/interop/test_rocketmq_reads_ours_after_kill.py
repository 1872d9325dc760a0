"""A process of ours is killed while it puts messages: RocketMQ recovers all that was acknowledged.

The store is killed once for each way of flushing; each release recovers a copy of what was left.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.interop import compare, corpus, java_store, ours
from tests.interop.java_store import Image

pytestmark = pytest.mark.interop

ACKS_BEFORE_KILL = 500
OLD_PART = 400
FLUSH = ("ASYNC_FLUSH", "SYNC_FLUSH")


@dataclass(frozen=True, slots=True)
class Killed:
    root: Path
    options: dict[str, str]
    acks: list[corpus.Ack]
    image: Image  # what we recover from a copy


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Killed]:
    @functools.cache
    def kill(flush: str) -> Killed:
        folder = tmp_path_factory.mktemp("killed")
        options = {**ours.SMALL_FILES, "flushDiskType": flush}
        acks = _write_until_killed(folder / "store", options)
        copy = java_store.copy_of(folder / "store", folder / "recovered-by-us")
        with ours.open_store(copy, options) as store:
            image = ours.image_of(store, copy)
        return Killed(folder / "store", options, acks, image)

    return kill


@pytest.mark.parametrize("flush", FLUSH)
def test_rocketmq_recovers_everything_acknowledged_before_a_kill(
    flush: str, version: str, killed: Callable[[str], Killed]
) -> None:
    store = killed(flush)
    questions = compare.key_requests(store.image)

    image = java_store.read(version, store.root, store.options, requests=questions, start=True)

    assert image["loadResult"] is True
    assert image["abortFilePresent"] is True
    assert image["startFailure"] is None
    compare.assert_acknowledged(store.acks, image)
    compare.assert_queues_follow_log(image, rebuilt_by=version)
    compare.assert_java_finds_keys(image)


@pytest.mark.parametrize("flush", FLUSH)
def test_we_and_rocketmq_recover_the_same(flush: str, version: str, killed: Callable[[str], Killed]) -> None:
    store = killed(flush)
    compare.assert_acknowledged(store.acks, store.image)

    image = java_store.read(version, store.root, store.options)

    compare.assert_same_log(store.image, image)
    compare.assert_same_queues(store.image, image)


@pytest.fixture(scope="module")
def killed_long_after_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """A part written an hour ago and closed, then a kill: recovery may trust the old part and skip it."""
    root = tmp_path_factory.mktemp("killed-late") / "store"
    options = {**ours.SMALL_FILES, "flushDiskType": "ASYNC_FLUSH"}
    clock = ManualClock(now_ms=time.time_ns() // 1_000_000 - 3_600_000)
    acks = []
    with MessageStore.open(root, StoreOptions.from_properties(options), clock=clock, threads=False) as store:
        for number in range(OLD_PART):
            acks.append(corpus.put(store, number))
            clock.advance(1000)
    acks += _write_until_killed(root, options, first=OLD_PART)
    copy = java_store.copy_of(root, root.with_name("recovered-by-us"))
    with ours.open_store(copy, options) as store:
        image = ours.image_of(store, copy)
    return Killed(root, options, acks, image)


def test_rocketmq_recovers_from_our_checkpoint_without_losing_the_part_before_it(
    version: str, killed_long_after_checkpoint: Killed
) -> None:
    store = killed_long_after_checkpoint
    new_part = {"messages": [m for m in store.image["messages"] if m["flag"] >= OLD_PART]}
    assert any((store.root / "checkpoint").read_bytes()[:16]), "nothing to recover from"

    image = java_store.read(version, store.root, store.options, requests=compare.key_requests(new_part), start=True)

    compare.assert_acknowledged(store.acks, image)
    compare.assert_same_log(store.image, image)
    compare.assert_queues_follow_log(image, rebuilt_by=version)
    # RocketMQ drops the index file in use at a crash; it indexes again only what it recovers.
    compare.assert_java_finds_keys({**image, "messages": new_part["messages"]})


def _write_until_killed(root: Path, options: dict[str, str], *, first: int = 0) -> list[corpus.Ack]:
    program = Path(__file__).with_name("flaremq_writer.py")
    command = [sys.executable, str(program), str(root), json.dumps(options), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(ACKS_BEFORE_KILL)]
        writer.kill()
        lines += writer.stdout.read().splitlines(keepends=True)
    # The last line may be cut short: then nobody was told.
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    assert len(rows) >= ACKS_BEFORE_KILL, "the writer ended by itself"
    return [corpus.Ack(**{**row, "message_ids": tuple(row["message_ids"])}) for row in rows]

"""Power cuts and kills while a replica finds out by the log that its master deleted a topic: nothing old, nothing lost.

Queue 0 of the topic has messages of both lives, queue 1 of the earlier one only and before those of queue 0, queue 2 of
the new one only. A checkpoint lies between the last message of the earlier life and the first one of the new one, so
the deletion is noted at an offset that recovery does not go back to by itself.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

import pytest

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from tests.support.crash_choices import Chooser, RandomChooser, SubsetChooser
from tests.support.crash_fs import CrashFS
from tests.support.driven_store import DrivenStore, show
from tests.support.replica_lab import Log, feed, log_of
from tests.support.store_lab import SMALL, all_bodies

ROOT = "/store"
DYING, OTHER = "dying", "other"
OPTIONS = replace(SMALL, enabled_append_prop_crc=True, mapped_file_size_consume_queue=200)
NEW = [b"new %d" % number for number in range(30)]
SIDE = [b"side %d" % number for number in range(3)]


def open_store(disk: CrashFS, role: str) -> DrivenStore:
    options = replace(OPTIONS, broker_role=role)
    return DrivenStore(
        MessageStore.open(ROOT, options, filesystem=disk, clock=ManualClock(), threads=False, driven=True)
    )


def logs() -> tuple[Log, Log]:
    """What a master has before it deletes the topic, with another topic's messages behind; and in the end."""
    master = open_store(CrashFS(), "ASYNC_MASTER")
    for number in range(25):
        assert master.store.put(Message(DYING, b"old %d" % number), int(number < 4)).ok
    for number in range(6):
        assert master.store.put(Message(OTHER, b"other %d" % number)).ok
    master.sync()
    before = log_of(master)
    master.store.delete_topics([DYING])
    for number, body in enumerate(NEW):
        if number in (0, 5, 9):
            assert master.store.put(Message(DYING, SIDE[(0, 5, 9).index(number)]), 2).ok
        assert master.store.put(Message(DYING, body)).ok
    master.sync()
    return before, log_of(master)


def choosers(disk: CrashFS) -> list[Chooser]:
    questions = disk.questions()
    if questions <= 3:
        return [SubsetChooser(bits) for bits in range(1 << questions)]
    few: list[Chooser] = [SubsetChooser(0), SubsetChooser((1 << questions) - 1)]
    return few + [RandomChooser(f"{disk.calls} {seed}") for seed in range(4)]


def images_of(disk: CrashFS, seen: set[bytes]) -> list[CrashFS]:
    """What a power cut, or a kill, leaves now; each image once."""
    found = []
    for after in [*map(disk.crash, choosers(disk)), disk.kill()]:
        digest = hashlib.sha256(repr(sorted(after.files().items())).encode()).digest()
        if digest not in seen:
            seen.add(digest)
            found.append(after)
    return found


def check(disk: CrashFS, whole: Log) -> None:
    replica = open_store(disk, "SLAVE")
    feed(replica, whole)
    show(replica)
    store = replica.store
    assert {place: all_bodies(store, *place) for place in store.queues()} == {
        (DYING, 0): NEW,
        (DYING, 2): SIDE,
        (OTHER, 0): [b"other %d" % number for number in range(6)],
    }
    assert store.min_offset(DYING, 0) == store.min_offset(DYING, 2) == 0
    assert store.check() == []


@pytest.mark.slow
@pytest.mark.parametrize("is_in_recovery", [False, True], ids=["live", "in-recovery"])
def test_crash_at_any_call_leaves_a_replica_that_has_the_new_life_whole(is_in_recovery: bool) -> None:
    before, whole = logs()
    disk = CrashFS()
    replica = open_store(disk, "SLAVE")
    feed(replica, before)
    show(replica)
    replica.store.tick()
    images: list[CrashFS] = []
    seen: set[bytes] = set()
    if is_in_recovery:  # the log has the new life, and nothing was dispatched before the process was killed
        feed(replica, whole)
        replica.sync()
        disk = disk.kill()
    disk.observer = lambda operation, path: images.extend(images_of(disk, seen))
    if is_in_recovery:
        replica = open_store(disk, "SLAVE")
    else:
        for offset, data in whole.pieces(before.end, random.Random(1), 2):
            replica.append_replica(offset, data)
            show(replica)
    replica.store._dispatch.drain_queues()
    replica.store.close()
    disk.observer = None
    assert len(images) > 20
    for number, image in enumerate(images):
        try:
            check(image, whole)
        except AssertionError as error:
            raise AssertionError(f"image {number} of {len(images)}") from error
    assert disk.violations == []

"""A real file system that is really full: ``unshare -rm python -m tests.simulation.full_disk MOUNTPOINT``.

Mounts a few megabytes of memory on the given folder, fills it through the store, frees space, and goes on.
The process must live through it (a store through a mapping without space behind it would be SIGBUS).
"""

from __future__ import annotations

import os
import subprocess
import sys

from flaremq.errors import FlareMQError
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus

_MEGABYTE = 1 << 20


def main(mountpoint: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", mountpoint], check=True)
    ballast = os.path.join(mountpoint, "ballast")
    with open(ballast, "wb") as file:
        file.write(bytes(3 * _MEGABYTE))
    options = StoreOptions(
        mapped_file_size_commit_log=_MEGABYTE,
        mapped_file_size_consume_queue=20 * 100,
        max_hash_slot_num=50,
        max_index_num=400,
        # The ratios would refuse long before the disk is full: this is about the disk, not the watermark.
        disk_space_warning_level_ratio=99,
    )
    with MessageStore.open(os.path.join(mountpoint, "store"), options, threads=False) as store:
        first = fill(store)
        assert first > 50, f"only {first} puts before the disk was full"
        for _ in range(20):
            status = put(store, 999)
            assert status is not PutMessageStatus.PUT_OK, "a full disk took a message"
        read_all(store, first)
        os.remove(ballast)
        for _ in range(3):
            store.tick()
        assert put(store, first) is PutMessageStatus.PUT_OK, "the disk has space again, the put was refused"
        store.wait_for_dispatch()
        read_all(store, first + 1)
    with MessageStore.open(os.path.join(mountpoint, "store"), options, threads=False) as store:
        store.wait_for_dispatch()
        read_all(store, first + 1)
    print("survived")


def put(store: MessageStore, number: int) -> PutMessageStatus:
    try:
        result = store.put(Message("orders", f"{number}".encode().ljust(4000, b"."), keys=[f"k{number}"]))
    except FlareMQError:
        return PutMessageStatus.UNKNOWN_ERROR
    return result.status


def fill(store: MessageStore) -> int:
    for number in range(5000):
        if put(store, number) is not PutMessageStatus.PUT_OK:
            return number
    raise AssertionError("the disk never filled")


def read_all(store: MessageStore, count: int) -> None:
    offset = 0
    while offset < count:
        got = store.get("orders", 0, offset, 32)
        assert got.messages, f"nothing at {offset} of {count}: {got.status}"
        for message in got.messages:
            assert message.body.rstrip(b".") == str(message.queue_offset).encode()
        offset = got.next_offset


if __name__ == "__main__":
    main(sys.argv[1])

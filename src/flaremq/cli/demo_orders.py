"""The demo's messages: orders that can be told apart and checked by their number alone.

Order ``n`` always has the same topic, queue, tag, key and body, so whoever reads it back knows what it must
be. Run as a program it is the demo's writer: it puts orders from several threads until it is done or
killed, and prints one line for each order that the store has acknowledged, after the acknowledgement.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq import Message, MessageStore, StoreOptions

TOPIC = "orders"
QUEUES = 4
TAGS = ("paid", "shipped", "cancelled")


def order(number: int) -> Message:
    from flaremq import Message

    body = f'{{"order": {number}, "amount": {number * 7 % 9973}, "note": "{"x" * (number % 200)}"}}'
    return Message(TOPIC, body.encode(), tags=TAGS[number % len(TAGS)], keys=[f"order-{number}"])


def queue_of(number: int) -> int:
    return number % QUEUES


def options() -> StoreOptions:
    """Small files, so that a short demo rolls them; every acknowledged message is on disk."""
    from flaremq import StoreOptions

    return StoreOptions(
        flush_disk_type="SYNC_FLUSH",
        mapped_file_size_commit_log=4 << 20,
        mapped_file_size_consume_queue=60_000,
        max_hash_slot_num=100_000,
        max_index_num=400_000,
    )


def put_orders(store: MessageStore, queue_id: int, total: int, *, start: int = 0) -> None:
    """Put this queue's orders in [start, total), telling each as it is acknowledged."""
    for number in range(start, total):
        if queue_of(number) == queue_id:
            put = store.put(order(number), queue_id)
            if put.ok:
                # One write a line: the reader never sees half of one, and nothing is held back in a buffer.
                sys.stdout.write(f"{number} {put.queue_offset} {put.physical_offset}\n")
                sys.stdout.flush()


def main() -> None:
    """Write nine tenths of the orders and wait to be killed, if that has not happened long before."""
    from flaremq import MessageStore

    path, total = sys.argv[1], int(sys.argv[2]) * 9 // 10
    store = MessageStore.open(path, options())
    for queue in range(QUEUES):
        threading.Thread(target=put_orders, args=(store, queue, total)).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()

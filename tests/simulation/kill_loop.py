"""Real processes, a real file system, SIGKILL: ``python -m tests.simulation.kill_loop ROOT --kills N --seed
S``.

A writer process puts messages with SYNC_FLUSH from two threads and reports each acknowledgement through a
pipe; the parent kills it at a random instant, and a checker process opens the store, which must hold every
acknowledged message at its place. All are forked from this single-threaded parent, which imports the store
once and never opens it, so that a cycle costs no interpreter start.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time

from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.status import PutMessageStatus
from tests.support import raw_store

_TOPIC = "orders"
_QUEUES = 2


def options(chance: random.Random) -> StoreOptions:
    return StoreOptions(
        mapped_file_size_commit_log=256 * 1024,
        mapped_file_size_consume_queue=20 * 100,
        max_hash_slot_num=50,
        max_index_num=400,
        flush_disk_type="SYNC_FLUSH",
        enabled_append_prop_crc=chance.random() < 0.8,
        warm_maped_file_enable=chance.random() < 0.3,
    )


def write(root: str, pipe: int, cycle: int, chance: random.Random) -> None:
    """Put until killed; one line per acknowledgement: queue, queue offset, physical offset, name."""
    store = MessageStore.open(root, options(chance))
    os.write(pipe, b"open\n")

    def work(queue_id: int, mine: random.Random) -> None:
        number = 0
        while True:
            name = f"{cycle}.{queue_id}.{number}"
            number += 1
            body = name.encode().ljust(mine.choice((20, 200, 5000)), b".")
            result = store.put(Message(_TOPIC, body, keys=[name], tags="T"), queue_id)
            if result.status is not PutMessageStatus.PUT_OK:
                os.write(pipe, f"bad {result.status}\n".encode())
                return
            os.write(pipe, f"ack {queue_id} {result.queue_offset} {result.physical_offset} {name}\n".encode())

    for queue_id in range(_QUEUES):
        threading.Thread(target=work, args=(queue_id, random.Random(chance.random())), daemon=True).start()
    if chance.random() < 0.2:
        time.sleep(0.05)
        store.close()  # a shutdown under load is a fault like any other
        os.write(pipe, b"closed\n")
    threading.Event().wait()


def check(root: str, acknowledged: list[tuple[int, int, int, str]], chance: random.Random) -> None:
    """Every acknowledged message is where it was acknowledged; queues are dense; the newest keys are
    found."""
    with MessageStore.open(root, options(chance)) as store:
        store.wait_for_dispatch()
        for queue_id, queue_offset, physical_offset, name in acknowledged:
            message = store.read(physical_offset)
            assert message is not None, f"{name} at {physical_offset} is gone"
            assert message.body.rstrip(b".") == name.encode(), f"{name} at {physical_offset} is {message.body[:40]!r}"
            assert (message.queue_id, message.queue_offset) == (queue_id, queue_offset), f"{name} moved"
        for queue_id, queue_offset, physical_offset, name in acknowledged[-40:]:
            got = store.get(_TOPIC, queue_id, queue_offset, 1)
            assert [m.physical_offset for m in got.messages] == [physical_offset], f"{name}: {got.status}"
            found = [m.physical_offset for m in store.query(_TOPIC, name, 4)]
            assert found == [physical_offset], f"key {name} finds {found}"
    log = raw_store.read_log(raw_store.local_files(root), root)
    assert not log.problems and not log.stale, (log.problems, log.stale)
    expected: dict[int, int] = {}
    for record in log.records:
        assert record.queue_offset == expected.get(record.queue_id, record.queue_offset), "a queue has a hole"
        expected[record.queue_id] = record.queue_offset + 1


def cycle(root: str, number: int, chance: random.Random, acknowledged: list[tuple[int, int, int, str]]) -> None:
    reading, writing = os.pipe()
    child_seed = chance.random()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _exit_with(lambda: write(root, writing, number, random.Random(child_seed)))
    os.close(writing)
    with os.fdopen(reading, "rb") as acks:
        first = acks.readline()
        assert first == b"open\n", f"the writer did not open the store: {first!r}"
        time.sleep(chance.choice((0.0, 0.002, 0.02, 0.1)) * chance.random() * 2)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines = acks.read().split(b"\n")[:-1]  # a last line without its end was cut off: unknown outcome
    for line in lines:
        kind, *fields = line.decode().split(" ")
        assert kind in ("ack", "closed", "bad"), line
        if kind == "ack":
            acknowledged.append((int(fields[0]), int(fields[1]), int(fields[2]), fields[3]))
        elif kind == "bad":
            assert fields[0].endswith("SERVICE_NOT_AVAILABLE"), line  # refused because it is closing
    checker = os.fork()
    if checker == 0:
        _exit_with(lambda: check(root, acknowledged, random.Random(child_seed)))
    _, status = os.waitpid(checker, 0)
    assert status == 0, f"cycle {number}: the check failed"


def _exit_with(work: object) -> None:
    """Run in a forked child and leave without the parent's clean-up."""
    code = 1
    try:
        work()  # type: ignore[operator]
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args()
    chance = random.Random(settings.seed)
    acknowledged: list[tuple[int, int, int, str]] = []
    for number in range(settings.kills):
        cycle(settings.root, number, chance, acknowledged)
    print(f"{settings.kills} kills, {len(acknowledged)} acknowledged messages, 0 lost")


if __name__ == "__main__":
    main()

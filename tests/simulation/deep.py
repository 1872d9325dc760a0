"""Long seeded histories with several crashes, other options in every life, crashes during recovery among
them.

At each crash several images are tried from the same moment; the history goes on from the last one. The seed
decides everything: ``python -m tests.simulation.replay deep SEED`` repeats a run.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from flaremq.storage.options import StoreOptions
from tests.simulation.world import World, changed, small_options
from tests.support.crash_fs import Fault, SimulatedCrash
from tests.support.oracle import OracleViolation

_WEIGHTS = {
    "put": 10,
    "batch": 3,
    "large": 3,
    "delay": 2,
    "hasty": 1,
    "flush": 1,
    "tick": 3,
    "reopen": 1,
    "expire": 0.4,
    "clean": 0.4,
    "jump": 0.2,
}
_ALTERNATIVES = 4
KILL_SHARE = 0.15  # of all crashes: only the process dies


@dataclass(slots=True)
class Tally:
    images: int = 0
    recoveries_crashed: int = 0


def random_options(chance: random.Random, before: StoreOptions | None = None) -> StoreOptions:
    """Options of the next life; what the files' shape depends on stays."""
    is_async = chance.random() < 0.5
    life: dict[str, object] = {
        "flush_disk_type": "ASYNC_FLUSH" if is_async else "SYNC_FLUSH",
        "enabled_append_prop_crc": chance.random() < 0.8,
        "message_index_enable": chance.random() < 0.9,
        "transient_store_pool_enable": is_async and chance.random() < 0.3,
        "flush_commit_log_least_pages": chance.choice((0, 1, 4)),
        "warm_maped_file_enable": chance.random() < 0.2,
        "check_crc_on_recover": chance.random() < 0.9,
    }
    if before is not None:
        return changed(before, **life)
    shape: dict[str, object] = {
        "mapped_file_size_commit_log": chance.choice((16, 32)) * 1024,
        "mapped_file_size_consume_queue": 20 * chance.choice((5, 10, 20, 100)),
        "max_hash_slot_num": chance.choice((4, 8, 50)),
        "max_index_num": chance.choice((10, 20, 100)),
    }
    return small_options(**shape, **life)


def run_history(seed: int, tally: Tally) -> None:
    """One history with one to four crashes; raises on the first broken promise."""
    chance = random.Random(f"deep {seed}")
    world = World(seed, random_options(chance))
    world.readable = chance.random() < 0.3
    world.fs.chance.seed(seed)
    world.fs.writeback = chance.choice((0.0, 0.0, 0.1, 0.4))
    try:
        world.open()
        for _ in range(chance.randint(1, 4)):
            _live(world, chance)
            world = _crash(world, chance, tally)
        answer = world.run("reopen")
        if answer.error is not None:
            raise OracleViolation(f"closing and opening failed on a healthy disk: {answer.error}")
        world.check_open_store()
    except Exception as error:
        raise AssertionError(
            f"{error}\nrepeat: python -m tests.simulation.replay deep {seed}\nlast options: {world.options}"
        ) from error


def _live(world: World, chance: random.Random) -> None:
    """Operations until the plug is pulled: before some call to the disk, or between two operations."""
    if chance.random() < 0.8:
        world.fs.faults = [Fault(kind="crash", at=world.fs.calls + chance.randint(1, 150))]
    names, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    try:
        for _ in range(chance.randint(3, 40)):
            world.check_visibility = chance.random() < 0.1
            name = chance.choices(names, weights)[0]
            answer = world.run(name)
            if answer.error is not None:
                raise OracleViolation(f"{name} failed on a healthy disk: {answer.error}")
            if answer.status is not None and answer.status.name != "PUT_OK":
                raise OracleViolation(f"{name} was answered {answer.status} on a healthy disk")
    except SimulatedCrash:
        pass
    world.fs.faults = []


def _crash(world: World, chance: random.Random, tally: Tally) -> World:
    if chance.random() < KILL_SHARE:
        # Only the process died: the page cache still has every byte that was stored, synced or not.
        world.history.promise(max((e.end for e in world.history.entries if e.state == "acked"), default=0))
        after = world.fork(world.fs.kill())
        after.options = random_options(chance, world.options)
        after.open_and_check()
        tally.images += 1
        return after
    after = world
    for _ in range(_ALTERNATIVES):
        after = world.crash(chance.getrandbits(64))
        after.options = random_options(chance, world.options)
        tally.images += 1
        after.check_image()
        while chance.random() < 0.3:
            after = _crash_recovery(after, chance, tally)
        after.open_and_check()
        if chance.random() < 0.2:
            after.check_recovers_again()
    after.fs.chance.seed(chance.getrandbits(64))
    after.fs.writeback = world.fs.writeback
    return after


def _crash_recovery(world: World, chance: random.Random, tally: Tally) -> World:
    """Pull the plug while the store is being opened; the promises of before still hold."""
    world.fs.faults = [Fault(kind="crash", at=chance.randint(1, 60))]
    try:
        world.open_and_check()
    except SimulatedCrash:
        tally.recoveries_crashed += 1
        tally.images += 1
    world.fs.faults = []
    return world.crash(chance.getrandbits(64))

"""A disk without room: puts are refused with a status, reads go on, and service returns with the space."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.bounded import MODES
from tests.simulation.world import World, small_options
from tests.support.crash_fs import CrashFS

_ROOMY = 1 << 30


def _full_world(mode: str, capacity: int) -> World:
    """A store that has just met the end of its disk."""
    # The watermarks would refuse long before the disk is full: this is about the disk.
    options = small_options(flush_disk_type=mode, disk_space_warning_level_ratio=99, clean_file_forcibly_enable=False)
    world = World(f"full {capacity}", options, filesystem=CrashFS(capacity=_ROOMY))
    world.open()
    world.run("put")
    world.fs.capacity = capacity
    for _ in range(200):
        for name in ("put", "batch", "delay", "large", "tick"):
            if world.run(name).status not in (None, world.answers[0].status):
                return world
    raise AssertionError("the disk never filled")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pages", range(20, 60))
def test_a_full_disk_costs_nothing_and_service_returns_with_the_space(
    mode: str, pages: int, record_property: Callable[[str, object], None]
) -> None:
    world = _full_world(mode, pages * 4096)
    used = world.fs.used_bytes()
    for name in ("put", "large", "tick", "batch"):
        world.run(name)
    assert world.fs.used_bytes() <= max(used, pages * 4096), "refusing takes no space"
    world.check_open_store_reads()
    for seed in range(4):
        after = world.crash(seed)
        after.fs.capacity = _ROOMY
        after.open_and_check()
    world.fs.capacity = _ROOMY
    for _ in range(3):
        world.run("tick")
    for name in ("put", "large", "batch", "delay"):
        answer = world.run(name)
        assert answer.status is world.answers[0].status, f"there is room again, {name} is answered {answer}"
    world.check_open_store()
    record_property("crash images", 4)

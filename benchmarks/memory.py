"""Memory that costs every side the same.

A virtual machine's memory is the host's only once it was used, and a guest may give back what lies free for a while: a
page that the host has to find first costs about 10 µs instead of 0.7. A store writes gigabytes of new pages within
seconds, so who ran first, or after a pause, paid for the host. Here as much as a run will need is used and set free
right before each run of each side.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from pathlib import Path

_LEFT_ALONE = 3 << 30  # for those who run meanwhile, and for what the kernel keeps
_MADV_POPULATE_WRITE = 23  # Linux 5.14; with an older kernel runs begin with what memory they find


def touch(count: int) -> None:
    """Use so many bytes of memory, as far as they are to be had, and set them free again."""
    count = min(count, _available_bytes() - _LEFT_ALONE)
    if count <= 0:
        return
    with suppress(OSError), mmap.mmap(-1, count) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)  # fewer faults
        memory.madvise(_MADV_POPULATE_WRITE)


def _available_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0

"""Which queue a message goes to: always the same one for a message group, else one after the other."""

from __future__ import annotations

from typing import Final

from flaremq.message.java_hash import java_hash

_MASK: Final = 2**64 - 1
_STEP: Final = 2862933555777941757


def queue_of_group(message_group: str, count: int) -> int:
    """The place among ``count`` queues, by jump consistent hash over Java's hash of the group (as Guava has it).

    A topic that gets another queue moves as few groups as can be.
    """
    state = java_hash(message_group) & _MASK  # the sign is extended
    candidate = 0
    while True:
        state = (state * _STEP + 1) & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / 2.0**31))
        if not 0 <= following < count:
            return candidate
        candidate = following

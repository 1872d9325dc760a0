"""How many copies a message needs before it counts as stored, and what is refused before it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from flaremq.errors import InvalidArgumentError


class SyncMode(StrEnum):
    """Which replicas a master waits for."""

    ASYNC = "async"  # for none
    ANY_SLAVE = "any_slave"  # RocketMQ 4.9's SYNC_MASTER: any one
    COPIES = "copies"  # RocketMQ 5's SYNC_MASTER: a number of copies, the master's included
    SET = "set"  # controller mode: every member of the SyncStateSet, since each of them may be elected


class PutRefusal(Enum):
    """Why nothing is stored."""

    IN_SYNC_REPLICAS_NOT_ENOUGH = "in-sync replicas not enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRules:
    """The master counts as a copy everywhere. ``is_auto``: fewer copies will do while fewer are in sync."""

    mode: SyncMode = SyncMode.ASYNC
    copies: int = 1  # inSyncReplicas
    copies_min: int = 1  # minInSyncReplicas
    is_auto: bool = False  # enableAutoInSyncReplicas
    gap_max: int = 256 << 20  # haSlaveFallbehindMax, haMaxGapNotInSync: a slave further behind is not in sync
    not_caught_up_max_s: float = 15.0  # haMaxTimeSlaveNotCatchup: a member behind for longer leaves the set

    def __post_init__(self) -> None:
        if self.copies < 1 or self.copies_min < 1 or self.gap_max < 0:
            raise InvalidArgumentError(f"copies count from 1 and a gap from 0: {self}")

    @property
    def waits(self) -> bool:
        """A put may have to wait for replicas, and readers see confirmed messages only."""
        return self.mode in (SyncMode.ANY_SLAVE, SyncMode.SET) or self.copies_needed(self.copies) > 1

    def copies_needed(self, in_sync: int) -> int:
        """Copies for a message while ``in_sync`` copies (the master's included) are in sync."""
        if self.mode is SyncMode.ASYNC:
            return 1
        if self.mode is SyncMode.ANY_SLAVE:
            return 2
        if self.mode is SyncMode.COPIES and self.is_auto:
            return max(min(self.copies, in_sync), self.copies_min)
        return max(self.copies, self.copies_min)

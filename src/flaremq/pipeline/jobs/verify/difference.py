"""What comparing a store with something else says, one line a thing that is not simply the same."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class State(enum.StrEnum):
    """The first two are failures, the others what happens to a healthy store."""

    CHANGED = "changed"  # other bytes than there should be
    MISSING = "missing"  # not there, and nothing explains it
    EXPIRED = "expired"  # removed by retention
    DELETED = "deleted"  # its topic was deleted
    REBUILT = "rebuilt"  # other bytes, but in agreement with the log
    UPDATED = "updated"  # configuration, which changes
    BEHIND = "behind"  # one side does not reach as far as the other
    LOST = "lost"  # gone for good, and on record as such
    UNKNOWN = "unknown"  # one side has something the other never had


_FAILURES = (State.CHANGED, State.MISSING)


@dataclass(frozen=True, slots=True)
class Difference:
    """``where`` names the file, queue or range; ``offset`` the first byte or queue offset that differs, if known."""

    state: State
    what: str  # log, queue, index, config, archive, table, replica
    where: str
    detail: str
    offset: int | None = None

    @property
    def is_failure(self) -> bool:
        return self.state in _FAILURES

    def to_json(self) -> dict[str, Any]:
        return {
            "state": str(self.state),
            "what": self.what,
            "where": self.where,
            "offset": self.offset,
            "detail": self.detail,
        }

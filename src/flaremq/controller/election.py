"""Who becomes master: a choice among heartbeats, without state.

A candidate must be alive and, unless unclean elections are allowed, in the SyncStateSet: only there is everything that
was confirmed. Among candidates the log that goes furthest wins: by the epoch of its last record, then by its end, as
whole 64-bit numbers; then the lowest priority number, then the lowest id, so that the same heartbeats always elect the
same broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from flaremq.controller.liveness import Heartbeat


def choose(
    living: Mapping[int, Heartbeat], in_sync: Set[int], *, unclean: bool = False, wanted: int | None = None
) -> int | None:
    """The id of the next master, None if nobody can be it. ``wanted``: that one or nobody."""
    for pool in (in_sync & living.keys(), living.keys() if unclean else frozenset[int]()):
        candidates = pool if wanted is None else pool & {wanted}
        if candidates:
            return min(candidates, key=lambda broker_id: _rank(broker_id, living[broker_id]))
    return None


def _rank(broker_id: int, heartbeat: Heartbeat) -> tuple[int, int, int, int]:
    return -heartbeat.epoch, -heartbeat.max_offset, heartbeat.election_priority, broker_id

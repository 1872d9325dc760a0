"""Which kinds of master and slave the tests of this folder put together, and what their sends are answered.

One of the two is ours; FLAREMQ_REPLICATION_GROUPS names others ("rocketmq-5.5.0>rocketmq-5.5.0"): that is how the tests
themselves are proved right.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import pytest

from tests.interop.replication.group import why_not
from tests.interop.replication.talk import FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE
from tests.interop.wire.selection import require

ALL = (
    "flaremq>flaremq",
    "flaremq>rocketmq-5.5.0",
    "flaremq>rocketmq-4.9.7",
    "rocketmq-5.5.0>flaremq",
    "rocketmq-4.9.7>flaremq",
)


def combinations(core: Collection[str] = ()) -> list[object]:
    """Parameters for a fixture; those in ``core`` belong to the fast core."""
    chosen = os.environ.get("FLAREMQ_REPLICATION_GROUPS", "").split() or ALL
    found: list[object] = []
    for kinds in chosen:
        marks = [pytest.mark.xdist_group(kinds)]
        if kinds in core:
            marks.append(pytest.mark.wire_core)
        found.append(pytest.param(kinds, marks=marks, id=kinds.replace("rocketmq-", "")))
    return found


def require_group(kinds: str) -> None:
    require(why_not(kinds))


def sync_master(kinds: str) -> Mapping[str, str]:
    """Options of a master whose sends wait for one slave. 5.x waits for nobody unless it is told a number of copies."""
    options = {"brokerRole": "SYNC_MASTER"}
    if kinds.startswith("rocketmq-5"):
        options["inSyncReplicas"] = "2"
    return options


def code_without_slave(options: Mapping[str, str]) -> int:
    """What a send is answered while no slave is there: 4.9 says so at once, 5.x waits in vain. Ours does as told."""
    return FLUSH_SLAVE_TIMEOUT if "inSyncReplicas" in options else SLAVE_NOT_AVAILABLE

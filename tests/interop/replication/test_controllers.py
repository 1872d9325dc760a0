"""Brokers of both kinds under a controller of either kind: in sync, master killed, another elected, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.replication import store_files
from tests.interop.replication.controller_group import ControllerGroup, why_not
from tests.interop.replication.group import FILE_SIZE, Member
from tests.interop.replication.talk import OK, messages
from tests.interop.wire.selection import require

pytestmark = pytest.mark.interop

_TOPIC = "elections"
_REAL = "rocketmq-5.5.0"
_CASES = [
    pytest.param("flaremq+flaremq", "flaremq", id="ours", marks=pytest.mark.wire_core),
    pytest.param("flaremq+flaremq", _REAL, id="ours under a real controller", marks=pytest.mark.wire_core),
    pytest.param(f"flaremq+{_REAL}", "flaremq", id="mixed under ours"),
    pytest.param(f"{_REAL}+flaremq", _REAL, id="mixed under a real controller"),
    pytest.param(f"{_REAL}+{_REAL}", "flaremq", id="real brokers under ours"),
]


@pytest.mark.parametrize(("kinds", "controller"), _CASES)
def test_killed_master_is_replaced_and_nothing_acknowledged_is_lost(
    kinds: str, controller: str, tmp_path: Path
) -> None:
    require(why_not(kinds, controller))
    with ControllerGroup(kinds, tmp_path / "group", controller=controller) as group:
        group.start()
        group.wait_in_sync()
        bodies = []
        for turn in range(2):  # so that each of them was master and slave, and had its log compared with the other's
            old = group.wait_master()
            bodies += _send(group, old, f"{turn}")
            old.kill()
            new = group.wait_master(other_than=old)
            bodies += _send(group, new, f"{turn} after")
            group.start_brokers()
            group.wait_in_sync()
        end = group.wait_caught_up()
        one, other = group.members
        store_files.assert_same_bytes(one.store, other.store, 0, end, file_size=FILE_SIZE)
        assert _bodies(group.master) == bodies


def _send(group: ControllerGroup, master: Member, word: str) -> list[bytes]:
    """Ten messages, acknowledged one after the other; one of unknown outcome is not in the answer, nor in the log."""

    def is_taken(body: bytes) -> bool:
        try:
            return master.talk.send(_TOPIC, body).code == OK
        except OSError:
            return False

    # A new master takes messages when it has registered; until then they are refused, not stored.
    group.wait("master that takes messages", lambda: _is_ready(master))
    bodies = [f"{word} {number}".encode() for number in range(10)]
    assert [body for body in bodies if not is_taken(body)] == []
    return bodies


def _is_ready(master: Member) -> bool:
    try:
        return master.talk.send("other", b"are you ready").code == OK
    except OSError:
        return False


def _bodies(member: Member) -> list[bytes]:
    found: list[bytes] = []
    while (reply := member.talk.pull(_TOPIC, len(found))).code == OK:
        found += [body for _, body in messages(reply)]
    return found

"""A log from before its broker had a controller has no epochs: its last bytes tell whether it is the master's."""

from __future__ import annotations

import pytest

from flaremq.errors import RemoteProtocolError
from flaremq.replication.epochs import EpochTable
from flaremq.replication.follower import AddEpoch, Append, Follower, FollowerSettings
from flaremq.replication.frames import EPOCH, HANDSHAKE_REPLY, STATE_DATA, STATE_REPORT, HAState
from tests.replication.log_lab import FILE_SIZE, MemoryLog

TAIL = 200


def _master() -> MemoryLog:
    log = MemoryLog()
    log.fill(6)
    return log


def _follower(log: MemoryLog, *, first_epoch_from: int = 0) -> Follower:
    """Of a slave that has what the master has, after the handshake."""
    end, data = log.own_end, bytes(log.data)
    follower = Follower(
        FollowerSettings(file_size=FILE_SIZE),
        log_end=end,
        is_empty=False,
        now=0.0,
        epochs=EpochTable(),
        broker_id=2,
        tail=data[-TAIL:],
    )
    follower.hello()
    answer = HANDSHAKE_REPLY.pack(HAState.HANDSHAKE, EPOCH.size, end, 1) + EPOCH.pack(1, first_epoch_from)
    assert follower.receive(answer, 0.0) == []
    return follower


def _frame(offset: int, data: bytes) -> bytes:
    return STATE_DATA.pack(HAState.TRANSFER, len(data), offset, 1, 0, 0) + data


def test_the_last_bytes_are_asked_for_again_and_the_epoch_is_added_when_they_are_the_same() -> None:
    log = _master()
    follower = _follower(log)
    end = log.own_end
    start = end - TAIL
    assert follower.report(end, 0.0) == STATE_REPORT.pack(HAState.TRANSFER, start)
    assert follower.report(end, 0.0) == b""
    log.fill(1)
    half = _frame(start, log.read(start, log.own_end - start))
    assert follower.receive(half[: STATE_DATA.size + 50], 0.0) == []
    steps = follower.receive(half[STATE_DATA.size + 50 :], 0.0)
    assert AddEpoch(1, 0) in steps
    assert b"".join(bytes(step.data) for step in steps if isinstance(step, Append)) == log.read(end, log.own_end - end)
    assert follower.report(log.own_end, 0.0) == STATE_REPORT.pack(HAState.TRANSFER, log.own_end)


def test_another_past_is_refused_and_no_epoch_is_added() -> None:
    log = _master()
    follower = _follower(log)
    start = log.own_end - TAIL
    other = bytearray(log.read(start, TAIL))
    other[-1] ^= 1
    with pytest.raises(RemoteProtocolError, match="other bytes than we"):
        follower.receive(_frame(start, bytes(other)), 0.0)
    assert follower.epochs == EpochTable()


def test_a_master_whose_first_epoch_begins_behind_cannot_be_asked() -> None:
    log = _master()
    follower = _follower(log, first_epoch_from=log.own_end)
    assert follower.report(log.own_end, 0.0) == STATE_REPORT.pack(HAState.TRANSFER, log.own_end)

"""Both ends of a connection joined: what arrives is the master's log."""

from __future__ import annotations

import pytest

from flaremq.replication.epochs import EpochTable
from tests.replication.log_lab import MemoryLog, Replica, converse, source_of


@pytest.mark.parametrize("batch_size", [1, 7, 100, 1000, 32768])
def test_an_empty_slave_gets_the_whole_log_byte_for_byte(batch_size: int) -> None:
    log = MemoryLog()
    log.fill(40)
    replica = Replica()
    source = source_of(log, batch_size=batch_size)
    converse(source, log, replica.follower(), replica)
    assert (replica.start, bytes(replica.data)) == (0, bytes(log.data))
    assert source.acknowledged == source.next_offset == log.own_end


@pytest.mark.parametrize("batch_size", [7, 1000, 32768])
def test_in_controller_mode_epochs_travel_with_the_log(batch_size: int) -> None:
    log = MemoryLog()
    log.fill(5)
    table = EpochTable([(1, 0), (2, log.own_end)])
    log.fill(30)
    replica = Replica(epochs=EpochTable())
    source = source_of(log, batch_size=batch_size, epochs=lambda: table)
    converse(source, log, replica.follower(), replica)
    assert (bytes(replica.data), replica.epochs) == (bytes(log.data), table)
    assert (source.broker_id, source.acknowledged) == (2, log.own_end)


def test_a_slave_that_has_a_part_gets_the_rest() -> None:
    log = MemoryLog()
    log.fill(40)
    part = log.record_ends[17]
    replica = Replica(data=log.read(0, part))
    source = source_of(log)
    converse(source, log, replica.follower(), replica)
    assert bytes(replica.data) == bytes(log.data)
    assert source.sent_bytes == log.own_end - part


def test_an_empty_slave_begins_at_the_masters_first_file() -> None:
    log = MemoryLog(3 * 4096)
    log.fill(10)
    replica = Replica()
    converse(source_of(log), log, replica.follower(), replica)
    assert (replica.start, bytes(replica.data)) == (3 * 4096, bytes(log.data))


def test_an_empty_slave_gets_the_last_file_where_that_is_asked_for() -> None:
    log = MemoryLog()
    log.fill(40)
    replica = Replica()
    converse(source_of(log, last_file_only=True), log, replica.follower(), replica)
    start = log.own_end - log.own_end % log.file_size
    assert (replica.start, bytes(replica.data)) == (start, log.read(start, log.own_end - start))

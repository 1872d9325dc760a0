"""Streams of real masters and slaves, replayed at our ends of the connection."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

import pytest

from flaremq.errors import RemoteProtocolError
from flaremq.replication.epochs import EpochTable
from flaremq.replication.frames import HANDSHAKE, REPORT, STATE_REPORT, HAState
from flaremq.replication.source import Source, SourceSettings
from tests.replication.log_lab import MemoryLog, Replica
from tests.support.recorded_ha import RecordedConnection, lost_tail, recording

FILE_SIZE = 1 << 20
CLASSIC = [
    ("49-first-connect", 0),
    ("49-catch-up", 0),
    ("49-sync-put", 0),
    ("55-sync-put", 0),
    ("55-killed-mid-transfer", 0),
    ("55-killed-mid-transfer", 1),
]


def _slave_before(name: str, number: int) -> Replica:
    """The slave's log when it connects: its first report tells how far it is."""
    recorded = recording(name)
    (end,) = REPORT.unpack_from(recorded.connections[number].up)
    start = recorded.facts["slaveMin"]
    return Replica(start, recorded.log[start:end]) if end else Replica()


def _pieces(stream: bytes, cuts: str) -> Iterator[bytes]:
    random_source = random.Random(stream[:100])
    at = 0
    while at < len(stream):
        size = {"whole": len(stream), "bytes": 1, "random": random_source.choice([1, 3, 11, 12, 13, 1000, 70000])}[cuts]
        yield stream[at : at + size]
        at += size


@pytest.mark.parametrize(("name", "number"), CLASSIC)
@pytest.mark.parametrize("cuts", ["whole", "random"])
def test_our_slave_follows_a_java_master(name: str, number: int, cuts: str) -> None:
    recorded = recording(name)
    connection = recorded.connections[number]
    replica = _slave_before(name, number)
    follower = replica.follower(FILE_SIZE)
    assert follower.hello() == connection.up[:8]
    reports = []
    for piece in _pieces(connection.down, cuts):
        replica.do(follower.receive(piece, 0.0))
        if report := follower.report(replica.end, 0.0):
            reports.append(REPORT.unpack(report)[0])
    assert follower.failure is None
    assert bytes(replica.data) == recorded.log[replica.start : replica.end]
    last_offset, last_size = connection.frames[-1]
    if number + 1 < len(recorded.connections):
        assert last_offset <= replica.end + 2000  # killed in the middle; a record is smaller than that
    else:
        assert replica.end == last_offset + last_size  # in 49-sync-put the slave was killed before the last one came
        slave_min, slave_max = recorded.facts["slaveMin"], recorded.facts["slaveMax"]
        digest = hashlib.sha256(replica.data[slave_min - replica.start : slave_max - replica.start]).hexdigest()
        assert digest == recorded.facts["slaveRangeSha256"]
    assert reports == sorted(set(reports))
    assert reports[-1] == replica.end


@pytest.mark.parametrize("name", ["49-sync-put", "55-sync-put"])
def test_a_stream_that_comes_byte_by_byte_is_the_same_stream(name: str) -> None:
    recorded = recording(name)
    replica = Replica()
    follower = replica.follower(FILE_SIZE)
    for piece in _pieces(recorded.connections[0].down, "bytes"):
        replica.do(follower.receive(piece, 0.0))
        assert replica.end == follower.log_end
    offset, n = recorded.connections[0].frames[-1]
    assert bytes(replica.data) == recorded.log[: offset + n]


def _replay_at_source(
    source: Source, log: MemoryLog, whole: bytes, connection: RecordedConnection
) -> tuple[int, bytes]:
    """Give the slave's reads to a source whose log grows as the recorded one did; first offset and data sent."""
    first, sent, seen = -1, bytearray(), 0
    ends = iter(connection.frames)
    received = 0
    for chunk in connection.chunks:
        if chunk.is_masters:
            received += len(chunk.data)
            while seen < received:  # frames that this read begins
                offset, n = next(ends)
                seen += 12 + n
                log.data += whole[log.own_end : offset + n]
        else:
            log.data += whole[log.own_end : chunk.master_end]
            source.receive(chunk.data, 0.0)
        while (span := source.next_span(0.0)) is not None:
            first = span.offset if first < 0 else first
            assert span.offset == first + len(sent)
            assert span.offset % FILE_SIZE + span.length <= FILE_SIZE
            sent += log.read(span.offset, span.length)
    return first, bytes(sent)


@pytest.mark.parametrize(("name", "number"), CLASSIC)
@pytest.mark.parametrize("batch_size", [32768, 1 << 20])
def test_our_master_serves_a_java_slave(name: str, number: int, batch_size: int) -> None:
    recorded = recording(name)
    connection = recorded.connections[number]
    log = MemoryLog(file_size=FILE_SIZE)
    source = Source(log, SourceSettings(batch_size=batch_size, last_file_only=True), now=0.0)
    first, sent = _replay_at_source(source, log, recorded.log, connection)
    assert first == connection.frames[0][0]
    end = max(offset + n for offset, n in connection.frames)
    assert sent[: end - first] == recorded.log[first:end]
    last_report = connection.up[-8:]
    assert source.acknowledged == REPORT.unpack(last_report)[0]


def test_in_controller_mode_our_slave_joins_a_java_master() -> None:
    recorded = recording("55-controller")
    connection = recorded.connections[0]
    replica = Replica(epochs=EpochTable())
    follower = replica.follower(FILE_SIZE, broker_id=2)
    assert follower.hello() == connection.up[: HANDSHAKE.size]
    for chunk in connection.chunks:
        if chunk.is_masters:
            replica.do(follower.receive(chunk.data, 0.0))
    assert follower.failure is None
    assert (replica.end, replica.confirmed) == (1144516, 1143286)  # the master died before it could confirm the last
    assert replica.epochs == EpochTable([(1, 0)])
    assert bytes(replica.data) == recorded.log[:1144516]
    assert follower.report(replica.end, 0.0) == STATE_REPORT.pack(HAState.TRANSFER, 1144516)


def test_in_controller_mode_our_deposed_master_is_cut_where_the_java_one_was() -> None:
    recorded = recording("55-controller")
    connection = recorded.connections[1]
    replica = Replica(0, recorded.log[:1144516] + lost_tail(), epochs=EpochTable([(1, 0)]))
    follower = replica.follower(FILE_SIZE, broker_id=1)
    assert follower.hello() == connection.up[: HANDSHAKE.size]
    replica.do(follower.receive(connection.down[:44], 0.0))
    assert replica.cut_at == 1144516
    with pytest.raises(RemoteProtocolError, match="follows another history from 1144516 on"):
        follower.receive(b"", 0.0)

    cut = Replica(0, recorded.log[:1144516], epochs=EpochTable([(1, 0)]))
    follower = cut.follower(FILE_SIZE, broker_id=1)
    follower.hello()
    cut.do(follower.receive(connection.down[:44], 0.0))
    assert follower.report(cut.end, 0.0) == connection.up[HANDSHAKE.size :][: STATE_REPORT.size]
    cut.do(follower.receive(connection.down[44:], 0.0))
    assert bytes(cut.data) == recorded.log
    assert (cut.epochs, cut.confirmed) == (EpochTable([(1, 0), (2, 1144516)]), 1182646)


@pytest.mark.parametrize("number", [0, 1])
def test_in_controller_mode_our_master_serves_a_java_slave(number: int) -> None:
    recorded = recording("55-controller")
    connection = recorded.connections[number]
    end = (1144516, 1182646)[number]
    table = EpochTable([(1, 0), (2, 1144516)][: number + 1])
    log = MemoryLog(file_size=FILE_SIZE, data=recorded.log[:end])
    source = Source(log, SourceSettings(), now=0.0, epochs=lambda: table)
    answer = source.receive(connection.up[: HANDSHAKE.size], 0.0)
    if number:
        assert answer == connection.down[:44]
    sent = bytearray()
    for at in range(HANDSHAKE.size, len(connection.up), STATE_REPORT.size):
        source.receive(connection.up[at : at + STATE_REPORT.size], 0.0)
        while (span := source.next_span(0.0, end)) is not None:
            sent += span.header + log.read(span.offset, span.length)
    assert (source.broker_id, source.acknowledged) == (2 - number, end)
    if number:
        assert bytes(sent) == connection.down[44 + 36 :]  # Java's first frame is a heartbeat

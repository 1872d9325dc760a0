"""Random conversations: what both ends do with each other, and with bytes nobody should send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import FlareMQError
from flaremq.replication.epochs import EpochTable
from flaremq.replication.follower import Append
from flaremq.replication.frames import DATA, HANDSHAKE, REPORT, STATE_DATA, STATE_REPORT
from tests.replication.log_lab import FILE_SIZE, MemoryLog, Replica, source_of

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 900)),
        st.tuples(st.just("down"), st.integers(1, 3000)),
        st.tuples(st.just("up"), st.integers(1, 40)),
        st.tuples(st.just("wait"), st.integers(1, 6)),
        st.tuples(st.just("reconnect"), st.just(0)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("is_controlled", [False, True])
@given(events=EVENTS)
def test_whatever_happens_the_replica_is_a_prefix_and_reports_what_it_has(
    is_controlled: bool, events: list[tuple[str, int]]
) -> None:
    """Messages, pieces of the stream either way, time, and new connections, in any order."""
    log, now = MemoryLog(), 0.0
    table = EpochTable([(1, 0)]) if is_controlled else None
    replica = Replica(epochs=EpochTable() if is_controlled else None)
    epochs = (lambda: table) if is_controlled else None
    source, follower = source_of(log, batch_size=500, epochs=epochs), replica.follower()
    up, down = bytearray(follower.hello()), bytearray()
    for kind, size in [*events, ("wait", 1), *[("up", 99), ("down", 99_999)] * 4]:
        if kind == "put":
            log.put(bytes(size))
        elif kind == "up":
            data, up = up[:size], up[size:]
            down += source.receive(bytes(data), now)
        elif kind == "down":
            while (span := source.next_span(now)) is not None:
                down += span.header + log.read(span.offset, span.length)
            data, down = down[:size], down[size:]
            replica.do(follower.receive(bytes(data), now))
            up += follower.report(replica.end, now)
        elif kind == "wait":
            now += size
            source.receive(b"", now)
            follower.receive(b"", now)
            up += follower.tick(now)
        else:
            source = source_of(log, batch_size=500, epochs=epochs, now=now)
            follower = replica.follower(now=now)
            up, down = bytearray(follower.hello()), bytearray()
        assert bytes(replica.data) == bytes(log.data[: replica.end])
        assert replica.end in log.record_ends
        assert source.acknowledged <= replica.end
    assert replica.end == log.own_end


HEADS = st.one_of(
    st.builds(DATA.pack, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.builds(DATA.pack, st.sampled_from((0, FILE_SIZE)), st.integers(0, 300)),
    st.builds(
        STATE_DATA.pack,
        st.integers(-1, 5),
        st.integers(-5, 300),
        st.sampled_from((-1, 0, FILE_SIZE)),
        st.integers(-1, 3),
        st.integers(-1, 5),
        st.integers(-1, 5),
    ),
    st.builds(HANDSHAKE.pack, st.integers(-1, 3), st.integers(-1, 2), st.integers(-1, 2), st.integers(-2, 9)),
    st.builds(REPORT.pack, st.integers(-5, 5000)),
    st.builds(STATE_REPORT.pack, st.integers(0, 3), st.integers(-5, 5000)),
    st.binary(max_size=100),
)


@pytest.mark.parametrize("is_controlled", [False, True])
@given(parts=st.lists(HEADS, max_size=12), cut=st.integers(1, 200))
def test_hostile_bytes_give_an_error_and_nothing_else(is_controlled: bool, parts: list[bytes], cut: int) -> None:
    stream = b"".join(parts)
    replica = Replica(epochs=EpochTable() if is_controlled else None)
    follower = replica.follower()
    follower.hello()
    log = MemoryLog()
    log.fill(6)
    source = source_of(log, epochs=(lambda: EpochTable([(1, 0)])) if is_controlled else None)
    for at in range(0, len(stream), cut):
        piece = stream[at : at + cut]
        try:
            steps = follower.receive(piece, 0.0)
        except FlareMQError:
            break
        assert not any(isinstance(step, Append) for step in steps)
    for at in range(0, len(stream), cut):
        try:
            answer = source.receive(stream[at : at + cut], 0.0)
            source.next_span(0.0)
        except FlareMQError:
            break
        assert len(answer) <= 32 * (len(stream) // HANDSHAKE.size + 1)
    assert source.acknowledged <= log.own_end

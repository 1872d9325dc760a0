"""The slave's end: what it refuses, what it says, when it gives up."""

from __future__ import annotations

import pytest

from flaremq.errors import CorruptionError, LocalProtocolError, RemoteProtocolError, UnavailableError
from flaremq.replication.epochs import EpochTable
from flaremq.replication.follower import AddEpoch, Append, Begin, Confirm, Cut, Follower, FollowerSettings
from flaremq.replication.frames import (
    DATA,
    EPOCH,
    EPOCHS_MAX,
    HANDSHAKE,
    HANDSHAKE_REPLY,
    REPORT,
    STATE_DATA,
    STATE_REPORT,
)
from tests.message.records import flip, make_record
from tests.replication.log_lab import FILE_SIZE, MemoryLog, Replica


def _slave(records: int = 5) -> tuple[MemoryLog, Replica]:
    log = MemoryLog()
    log.fill(records)
    replica = Replica(0, bytes(log.data))
    return log, replica


@pytest.mark.parametrize("n", [-1, -600, -(1 << 31), (4 << 20) - 11, (1 << 31) - 1])
def test_r16_a_size_that_cannot_be_ends_the_connection_and_changes_nothing(n: int) -> None:
    _, replica = _slave()
    follower = replica.follower()
    with pytest.raises(RemoteProtocolError, match=f"announced {n} data bytes"):
        follower.receive(DATA.pack(replica.end, n), 0.0)
    assert follower.log_end == replica.end
    with pytest.raises(RemoteProtocolError):
        follower.receive(DATA.pack(replica.end, 0), 0.0)  # it stays closed


@pytest.mark.parametrize("off", [-1, 1, -100, 4096, -(1 << 40), 1 << 40])
@pytest.mark.parametrize("n", [0, 10])
def test_an_offset_that_is_not_our_end_ends_the_connection_as_soon_as_the_header_is_there(off: int, n: int) -> None:
    _, replica = _slave()
    follower = replica.follower()
    with pytest.raises(RemoteProtocolError, match=f"sends from {replica.end + off}, our log ends at {replica.end}"):
        follower.receive(DATA.pack(replica.end + off, n), 0.0)


@pytest.mark.parametrize("offset", [1, FILE_SIZE - 1, FILE_SIZE + 8, -FILE_SIZE, -1])
def test_an_empty_slave_begins_only_at_a_file_start(offset: int) -> None:
    with pytest.raises(RemoteProtocolError, match="same mappedFileSizeCommitLog"):
        Replica().follower().receive(DATA.pack(offset, 0), 0.0)


def test_a_heartbeat_tells_an_empty_slave_where_to_begin() -> None:
    replica = Replica()
    follower = replica.follower()
    assert follower.hello() == REPORT.pack(0)
    assert follower.receive(DATA.pack(0, 0), 0.0) == []
    assert follower.receive(DATA.pack(2 * FILE_SIZE, 0), 0.0) == [Begin(2 * FILE_SIZE)]
    assert follower.report(2 * FILE_SIZE, 0.0) == REPORT.pack(2 * FILE_SIZE)
    assert follower.receive(DATA.pack(2 * FILE_SIZE, 0), 0.0) == []


def test_good_records_before_a_bad_one_are_handed_out_and_the_error_comes_next() -> None:
    log, replica = _slave()
    begin = log.own_end
    log.fill(4)
    data = bytearray(log.read(begin, log.own_end - begin))
    third = log.record_ends[-2] - begin
    data[third + 100] ^= 1
    follower = replica.follower()
    steps = follower.receive(DATA.pack(begin, len(data)) + data, 0.0)
    assert [(type(step), step.offset) for step in steps if isinstance(step, Append)] == [(Append, begin)]
    replica.do(steps)
    assert replica.end == begin + third == follower.log_end
    with pytest.raises(CorruptionError, match="body checksum differs at"):
        follower.tick(0.0)
    with pytest.raises(CorruptionError):
        follower.receive(b"", 0.0)


@pytest.mark.parametrize("size", [8, 91, 92, 3000])
def test_a_flipped_bit_anywhere_in_a_record_with_checksum_never_enters_the_log(size: int) -> None:
    record = bytearray(make_record(body=b"b" * 64, physical_offset=0, properties=b""))
    for at in range(0, len(record), 3):
        if 12 <= at < 28 or 36 <= at < 84 or at >= len(record) - 13:
            continue  # not covered by the body checksum, or lengths of what follows
        follower = Replica().follower()
        steps = []
        try:
            stream = DATA.pack(0, len(record)) + flip(bytes(record), at)
            for begin in range(0, len(stream), size):
                steps += follower.receive(stream[begin : begin + size], 0.0)
        except CorruptionError:
            pass
        assert [step for step in steps if isinstance(step, Append)] == []


def test_a_record_that_belongs_elsewhere_never_enters_the_log() -> None:
    record = make_record(physical_offset=1000)
    follower = Replica().follower()
    with pytest.raises(CorruptionError, match="belongs to another place"):
        follower.receive(DATA.pack(0, len(record)) + record, 0.0)


def test_a_half_record_is_kept_back_and_not_reported() -> None:
    log, replica = _slave()
    begin = log.own_end
    log.put(b"x" * 200)
    size = log.own_end - begin
    follower = replica.follower()
    assert follower.receive(DATA.pack(begin, 50) + log.read(begin, 50), 0.0) == []
    assert follower.report(replica.end, 0.0) == REPORT.pack(replica.end)  # only what was there before
    assert follower.receive(DATA.pack(begin + 50, 0), 0.0) == []  # a heartbeat goes on where the frame ended
    replica.do(follower.receive(DATA.pack(begin + 50, size - 50) + log.read(begin + 50, size - 50), 0.0))
    assert bytes(replica.data) == bytes(log.data)


def test_memory_stays_bounded_whatever_a_record_announces() -> None:
    follower = Replica().follower(1 << 30)
    with pytest.raises(CorruptionError, match="impossible size"):
        follower.receive(DATA.pack(0, 1 << 20) + (100 << 20).to_bytes(4, "big") + bytes.fromhex("daa320a7"), 0.0)
    follower = Replica().follower(1 << 30)
    with pytest.raises(CorruptionError, match="filler"):
        follower.receive(DATA.pack(0, 1 << 20) + (1 << 30).to_bytes(4, "big") + bytes.fromhex("cbd43194"), 0.0)


def test_a_master_with_another_file_size_is_noticed_at_its_first_filler() -> None:
    log = MemoryLog(file_size=2048)
    log.fill(10)
    follower = Replica().follower(4096)
    follower.receive(DATA.pack(0, len(log.data)) + log.data, 0.0)
    with pytest.raises(CorruptionError, match="same mappedFileSizeCommitLog"):
        follower.tick(0.0)


def test_reports_grow_and_heartbeats_repeat_the_last_one() -> None:
    log, replica = _slave()
    follower = replica.follower()
    assert follower.hello() == REPORT.pack(replica.end)
    assert (follower.tick(4.9), follower.due()) == (b"", 5.0)
    assert follower.tick(5.0) == REPORT.pack(replica.end)
    log.put()
    new = log.read(replica.end, log.own_end - replica.end)
    follower.receive(DATA.pack(replica.end, len(new)) + new, 6.0)
    assert follower.report(replica.end, 6.0) == b""  # received, not held
    assert follower.report(log.own_end, 7.0) == REPORT.pack(log.own_end)
    assert follower.tick(11.0) == b""
    assert follower.tick(12.0) == REPORT.pack(log.own_end)
    with pytest.raises(LocalProtocolError):
        follower.report(log.own_end + 1, 12.0)


def test_a_silent_master_is_given_up_after_twenty_seconds() -> None:
    _, replica = _slave()
    follower = replica.follower()
    follower.receive(DATA.pack(replica.end, 0), 7.0)
    follower.tick(27.0)
    with pytest.raises(UnavailableError, match="nothing from the master"):
        follower.tick(27.1)


def _answer(end: int, *epochs: tuple[int, int], last: int | None = None) -> bytes:
    table = b"".join(EPOCH.pack(*entry) for entry in epochs)
    return HANDSHAKE_REPLY.pack(1, len(table), end, epochs[-1][0] if last is None else last) + table


class TestControllerMode:
    def _slave(self, *epochs: tuple[int, int], records: int = 5, **settings: object) -> tuple[Replica, Follower]:
        log, _ = _slave(records)
        replica = Replica(0, bytes(log.data), epochs=EpochTable(epochs))
        return replica, replica.follower(**settings)  # type: ignore[arg-type]

    def test_the_handshake_is_repeated_until_it_is_answered(self) -> None:
        replica = Replica(epochs=EpochTable())
        follower = replica.follower(broker_id=9, is_learner=True, last_file_only=True)
        hello = HANDSHAKE.pack(1, 1, 1, 9)
        assert follower.hello() == hello == follower.tick(5.0)
        assert follower.report(0, 5.0) == b""
        answer = _answer(0, (1, 0))
        assert follower.receive(answer[:25], 6.0) == []
        assert follower.receive(answer[25:] + answer, 6.0) == []
        assert follower.report(0, 6.0) == STATE_REPORT.pack(2, 0)
        with pytest.raises(RemoteProtocolError, match="was not sent"):
            follower.receive(answer, 6.0)

    @pytest.mark.parametrize("size", [-12, 5, 12 * EPOCHS_MAX + 12, (1 << 31) - 1])
    def test_an_epoch_table_of_a_size_that_cannot_be_ends_the_connection(self, size: int) -> None:
        _, follower = self._slave((1, 0))
        follower.hello()
        with pytest.raises(RemoteProtocolError, match="bytes of epochs"):
            follower.receive(HANDSHAKE_REPLY.pack(1, size, 100, 1), 0.0)

    @pytest.mark.parametrize("state", [0, 3, 4, -1, 77])
    def test_a_frame_of_another_state_ends_the_connection(self, state: int) -> None:
        _, follower = self._slave((1, 0))
        follower.hello()
        with pytest.raises(RemoteProtocolError, match=f"state {state}"):
            follower.receive(HANDSHAKE_REPLY.pack(state, 0, 100, 1), 0.0)

    def test_data_before_the_handshake_was_answered_end_the_connection(self) -> None:
        replica, follower = self._slave((1, 0))
        follower.hello()
        with pytest.raises(RemoteProtocolError, match="before it answered"):
            follower.receive(STATE_DATA.pack(2, 0, replica.end, 1, 0, 0), 0.0)

    def test_a_deposed_master_is_refused(self) -> None:
        replica, follower = self._slave((1, 0), (4, 1000))
        follower.hello()
        with pytest.raises(RemoteProtocolError, match="is of epoch 3, epoch 4 is known"):
            follower.receive(_answer(replica.end, (1, 0), (3, 1000)), 0.0)
        replica, follower = self._slave((1, 0), master_epoch_min=6)
        follower.hello()
        with pytest.raises(RemoteProtocolError, match="is of epoch 5, epoch 6 is known"):
            follower.receive(_answer(replica.end, (1, 0), (5, 1000)), 0.0)

    def test_histories_without_a_common_epoch_are_an_error(self) -> None:
        replica, follower = self._slave((1, 0))
        follower.hello()
        with pytest.raises(RemoteProtocolError, match="no common history"):
            follower.receive(_answer(replica.end, (2, 50)), 0.0)

    def test_a_log_that_went_its_own_way_is_to_be_cut_where_the_histories_part(self) -> None:
        replica, follower = self._slave((1, 0))
        follower.hello()
        assert follower.receive(_answer(replica.end + 500, (1, 0), (2, 700)), 0.0) == [Cut(700)]
        with pytest.raises(RemoteProtocolError, match="from 700 on"):
            follower.tick(0.0)

    def test_a_log_longer_than_its_masters_in_the_same_epoch_is_to_be_cut(self) -> None:
        _, follower = self._slave((1, 0))
        follower.hello()
        assert follower.receive(_answer(400, (1, 0)), 0.0) == [Cut(400)]

    def test_a_new_epoch_begins_where_our_log_ends(self) -> None:
        replica, follower = self._slave((1, 0))
        end = replica.end
        follower.hello()
        follower.receive(_answer(end, (1, 0), (2, end)), 0.0)
        assert follower.receive(STATE_DATA.pack(2, 0, end, 2, end, end + 7), 0.0) == [AddEpoch(2, end), Confirm(end)]
        for wrong in ((2, end - 1), (3, end + 1), (3, end - 1), (1, 5)):
            other = Replica(0, bytes(replica.data), epochs=EpochTable([(1, 0), (2, end)])).follower()
            other.hello()
            other.receive(_answer(end, (1, 0), (2, end)), 0.0)
            with pytest.raises(RemoteProtocolError, match="the master's epoch"):
                other.receive(STATE_DATA.pack(2, 0, end, *wrong, 0), 0.0)

    def test_an_epoch_that_java_names_one_frame_early_is_added_when_its_start_is_reached(self) -> None:
        replica, follower = self._slave((1, 0))
        begin = replica.end
        record = make_record(physical_offset=begin)
        end = begin + len(record)
        follower.hello()
        follower.receive(_answer(end, (1, 0), (2, end)), 0.0)
        assert follower.receive(STATE_DATA.pack(2, len(record), begin, 2, end, begin) + record[:9], 0.0) == [
            Confirm(begin)
        ]
        steps = follower.receive(record[9:], 0.0)
        assert steps == [Append(begin, record), AddEpoch(2, end)]

    @pytest.mark.parametrize("known", [0, 1])
    def test_an_epoch_that_java_never_names_is_known_from_the_handshake(self, known: int) -> None:
        """Epoch 2 lies in one frame, which names epoch 3 already."""
        log = MemoryLog()
        log.fill(2)
        second = log.own_end
        log.fill(2)
        third = log.own_end
        table = [(1, 0), (2, second), (3, third)]
        replica = Replica(0, log.read(0, known * second), epochs=EpochTable(table[:known]))
        follower = replica.follower()
        follower.hello()
        follower.receive(_answer(third, *table), 0.0)
        for number in range(known, 2):
            start, end = table[number][1], table[number + 1][1]
            frame = STATE_DATA.pack(2, end - start, start, *table[number + 1], 0) + log.read(start, end - start)
            replica.do(follower.receive(frame, 0.0))
        assert (bytes(replica.data), replica.epochs) == (bytes(log.data), EpochTable(table))

    def test_confirmed_is_never_above_our_end_and_never_falls(self) -> None:
        replica, follower = self._slave((1, 0))
        end = replica.end
        follower.hello()
        follower.receive(_answer(end, (1, 0)), 0.0)
        assert follower.receive(STATE_DATA.pack(2, 0, end, 1, 0, 100), 0.0) == [Confirm(100)]
        assert follower.receive(STATE_DATA.pack(2, 0, end, 1, 0, 50), 0.0) == []
        assert follower.receive(STATE_DATA.pack(2, 0, end, 1, 0, -1), 0.0) == []
        assert follower.receive(STATE_DATA.pack(2, 0, end, 1, 0, 1 << 60), 0.0) == [Confirm(end)]


class TestTail:
    """R-4: a classic master that lost its end and wrote another one."""

    def _slave(self, tail: int = 200) -> tuple[MemoryLog, Replica, Follower]:
        log, replica = _slave()
        settings = FollowerSettings(file_size=FILE_SIZE)
        end = replica.end
        follower = Follower(settings, log_end=end, is_empty=False, now=0.0, tail=bytes(replica.data[-tail:]))
        assert follower.hello() == REPORT.pack(end - tail)
        return log, replica, follower

    @pytest.mark.parametrize("cut", [1, 7, 199, 200, 5000])
    def test_r4_bytes_that_both_have_are_compared_and_not_appended_again(self, cut: int) -> None:
        log, replica, follower = self._slave()
        start = log.own_end - 200
        log.fill(3)
        assert follower.report(replica.end, 0.0) == b""
        data = log.read(start, log.own_end - start)
        for at in range(0, len(data), cut):
            piece = data[at : at + cut]
            replica.do(follower.receive(DATA.pack(start + at, len(piece)) + piece, 0.0))
        assert bytes(replica.data) == bytes(log.data)
        assert follower.report(replica.end, 0.0) == REPORT.pack(log.own_end)

    def test_r4_a_master_with_another_end_is_refused_before_a_byte_of_it_is_appended(self) -> None:
        log, replica, follower = self._slave()
        data = bytearray(log.read(log.own_end - 200, 200))
        data[77] ^= 4
        with pytest.raises(RemoteProtocolError, match="lost the end of its own and wrote another one"):
            follower.receive(DATA.pack(log.own_end - 200, 200) + data, 0.0)
        assert follower.log_end == replica.end

    def test_nothing_is_acknowledged_while_the_master_has_less_than_we(self) -> None:
        log, replica, follower = self._slave()
        start = log.own_end - 200
        assert follower.receive(DATA.pack(start, 100) + log.read(start, 100) + DATA.pack(start + 100, 0), 0.0) == []
        assert follower.report(replica.end, 0.0) == b""
        assert follower.tick(5.0) == REPORT.pack(start)

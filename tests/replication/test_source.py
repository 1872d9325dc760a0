"""The master's end: where it starts, what it believes, when it speaks."""

from __future__ import annotations

import pytest

from flaremq.errors import RemoteProtocolError, UnavailableError
from flaremq.replication.epochs import EpochTable
from flaremq.replication.frames import (
    DATA,
    DATA_MAX,
    HANDSHAKE,
    HANDSHAKE_REPLY,
    REPORT,
    STATE_DATA,
    STATE_REPORT,
    HAState,
)
from tests.replication.log_lab import FILE_SIZE, MemoryLog, drain, source_of


def _log(records: int = 40, min_offset: int = 0) -> MemoryLog:
    log = MemoryLog(min_offset)
    log.fill(records)
    return log


@pytest.mark.parametrize("report", [-1, -5, -(1 << 63)])
def test_a_negative_report_ends_the_connection(report: int) -> None:
    source = source_of(_log())
    with pytest.raises(RemoteProtocolError):
        source.receive(REPORT.pack(report), 0.0)
    assert (source.acknowledged, source.next_offset, source.next_span(100.0)) == (-1, -1, None)


@pytest.mark.parametrize("above", [1, 100_000, 1 << 62])
def test_r3_a_first_report_above_the_log_counts_for_nothing(above: int) -> None:
    log = _log()
    source = source_of(log)
    with pytest.raises(RemoteProtocolError, match="ahead of its master"):
        source.receive(REPORT.pack(log.own_end + above), 0.0)
    assert source.acknowledged == -1


def test_r3_a_report_above_what_was_sent_counts_for_nothing() -> None:
    log = _log()
    source = source_of(log, batch_size=100)
    source.receive(REPORT.pack(log.record_ends[3]), 0.0)
    source.next_span(0.0)
    with pytest.raises(RemoteProtocolError, match="a report of"):
        source.receive(REPORT.pack(log.record_ends[3] + 101), 0.0)
    assert source.acknowledged == log.record_ends[3]


def test_r4_a_start_that_was_deleted_is_an_error_not_silence() -> None:
    source = source_of(_log(min_offset=2 * FILE_SIZE))
    with pytest.raises(RemoteProtocolError, match="was deleted here"):
        source.receive(REPORT.pack(FILE_SIZE), 0.0)


def test_r4_bytes_deleted_while_a_slave_catches_up_are_an_error_not_silence() -> None:
    log = _log()
    source = source_of(log, batch_size=100)
    source.receive(REPORT.pack(0), 0.0)
    source.next_span(0.0)
    log.data = log.data[FILE_SIZE:]
    log.min_offset = FILE_SIZE
    with pytest.raises(UnavailableError, match="begins at 4096 by now"):
        source.next_span(0.0)


def test_r4_a_slave_ahead_gets_nothing_when_the_log_grows_past_it() -> None:
    log = _log(3)
    source = source_of(log)
    with pytest.raises(RemoteProtocolError):
        source.receive(REPORT.pack(log.own_end + 50), 0.0)
    log.fill(5)
    assert source.next_span(100.0) is None


def test_a_report_that_falls_ends_the_connection() -> None:
    log = _log()
    source = source_of(log)
    source.receive(REPORT.pack(log.record_ends[5]), 0.0)
    drain(source, log)
    source.receive(REPORT.pack(log.record_ends[7]), 0.0)
    with pytest.raises(RemoteProtocolError):
        source.receive(REPORT.pack(log.record_ends[6]), 0.0)


def test_an_empty_slave_may_say_so_until_it_has_something() -> None:
    log = _log(min_offset=FILE_SIZE)
    source = source_of(log)
    for _ in range(3):
        source.receive(REPORT.pack(0), 0.0)
    drain(source, log)
    source.receive(REPORT.pack(0) + REPORT.pack(FILE_SIZE) + REPORT.pack(log.record_ends[2]), 0.0)
    assert source.acknowledged == log.record_ends[2]
    with pytest.raises(RemoteProtocolError):
        source.receive(REPORT.pack(0), 0.0)


def test_a_start_inside_a_record_is_served_since_java_slaves_keep_half_records() -> None:
    log = _log()
    start = log.record_ends[4] + 17
    source = source_of(log)
    source.receive(REPORT.pack(start), 0.0)
    span = source.next_span(0.0)
    assert span is not None
    assert span.offset == start


def test_reports_are_taken_however_they_are_cut() -> None:
    log = _log()
    source = source_of(log)
    stream = REPORT.pack(log.record_ends[1]) + REPORT.pack(log.record_ends[2]) + REPORT.pack(log.record_ends[3])
    source.receive(stream[:3], 0.0)
    assert source.requested == -1
    source.receive(stream[3:9], 0.0)
    drain(source, log)
    for byte in stream[9:]:
        source.receive(bytes([byte]), 0.0)
    assert (source.requested, source.acknowledged) == (log.record_ends[1], log.record_ends[3])


def test_nothing_is_sent_before_the_first_report_and_a_heartbeat_after_five_idle_seconds() -> None:
    log = _log()
    source = source_of(log)
    assert source.next_span(19.0) is None
    source.receive(REPORT.pack(log.own_end), 19.0)
    assert source.next_span(20.0) == (DATA.pack(log.own_end, 0), log.own_end, 0)
    assert (source.next_span(24.9), source.due()) == (None, 25.0)
    assert source.next_span(25.0) == (DATA.pack(log.own_end, 0), log.own_end, 0)


def test_a_silent_slave_is_given_up_after_twenty_seconds() -> None:
    source = source_of(_log())
    source.receive(b"\0", 3.0)
    source.check(23.0)
    assert source.due() == 23.0
    with pytest.raises(UnavailableError, match="nothing from the slave"):
        source.check(23.1)


@pytest.mark.parametrize("batch_size", [1, 1000, 1 << 30])
def test_frames_are_contiguous_bounded_and_stay_in_one_file(batch_size: int) -> None:
    log = MemoryLog(file_size=8 << 20)
    log.data += bytes(20 << 20 if batch_size > 1000 else 20_000)
    source = source_of(log, batch_size=batch_size)
    source.receive(REPORT.pack(5), 0.0)
    next_offset = 5
    while (span := source.next_span(0.0)) is not None:
        assert span.offset == next_offset
        assert 0 < span.length <= min(batch_size, DATA_MAX)
        assert span.offset // log.file_size == (span.offset + span.length - 1) // log.file_size
        next_offset += span.length
    assert next_offset == log.own_end == source.next_offset


def test_what_may_not_be_sent_yet_is_not_sent() -> None:
    log = _log()
    log.held_back = 500
    source = source_of(log)
    source.receive(REPORT.pack(log.own_end - 200), 0.0)
    assert source.next_span(0.0) is None
    log.held_back = 100
    span = source.next_span(0.0)
    assert span is not None
    assert (span.offset, span.length) == (log.own_end - 200, 100)


class TestControllerMode:
    TABLE = EpochTable([(1, 0), (3, 4096)])

    def test_every_handshake_is_answered_with_the_epochs(self) -> None:
        log = _log()
        source = source_of(log, epochs=lambda: self.TABLE)
        hello = HANDSHAKE.pack(HAState.HANDSHAKE, 0, 1, 7)
        answer = HANDSHAKE_REPLY.pack(1, 24, log.own_end, 3) + bytes.fromhex(
            "00000001" + "00" * 8 + "00000003" + "00" * 6 + "1000"
        )
        assert source.receive(hello[:13], 0.0) == b""
        assert source.receive(hello[13:] + hello, 0.0) == answer + answer
        assert (source.broker_id, source.is_learner, source.next_span(100.0)) == (7, True, None)

    def test_handshakes_without_end_end_the_connection(self) -> None:
        """Sixteen bytes ask for an answer of any size: a peer that does not read must not fill our memory."""
        source = source_of(_log(), epochs=lambda: self.TABLE)
        with pytest.raises(RemoteProtocolError, match="does not read the answers"):
            source.receive(HANDSHAKE.pack(HAState.HANDSHAKE, 0, 0, 7) * 4096, 0.0)

    @pytest.mark.parametrize("state", [0, 3, 4, 5, -1, 1 << 30])
    def test_a_frame_of_another_state_ends_the_connection(self, state: int) -> None:
        source = source_of(_log(), epochs=lambda: self.TABLE)
        with pytest.raises(RemoteProtocolError, match=f"state {state}"):
            source.receive(STATE_REPORT.pack(state, 0), 0.0)

    def test_a_report_before_the_handshake_ends_the_connection(self) -> None:
        source = source_of(_log(), epochs=lambda: self.TABLE)
        with pytest.raises(RemoteProtocolError, match="before its handshake"):
            source.receive(STATE_REPORT.pack(HAState.TRANSFER, 0), 0.0)

    def test_a_handshake_of_another_broker_or_in_a_transfer_ends_the_connection(self) -> None:
        for second in (HANDSHAKE.pack(1, 0, 0, 8), STATE_REPORT.pack(2, 0) + HANDSHAKE.pack(1, 0, 0, 7)):
            source = source_of(_log(), epochs=lambda: self.TABLE)
            source.receive(HANDSHAKE.pack(1, 0, 0, 7), 0.0)
            with pytest.raises(RemoteProtocolError, match="handshake"):
                source.receive(second, 0.0)

    def test_frames_end_with_their_epoch_and_name_it(self) -> None:
        log = _log()
        source = source_of(log, epochs=lambda: EpochTable([(1, 0), (3, 500), (4, 700)]), batch_size=300)
        source.receive(HANDSHAKE.pack(1, 0, 0, 7) + STATE_REPORT.pack(2, 0), 0.0)
        frames = [STATE_DATA.unpack(source.next_span(0.0, 42).header) for _ in range(4)]  # type: ignore[union-attr]
        assert frames == [
            (2, 300, 0, 1, 0, 42),
            (2, 200, 300, 1, 0, 42),
            (2, 200, 500, 3, 500, 42),
            (2, 300, 700, 4, 700, 42),
        ]

    def test_a_heartbeat_at_the_end_names_an_epoch_without_bytes(self) -> None:
        log = _log(3)
        source = source_of(log, epochs=lambda: EpochTable([(1, 0), (2, log.own_end)]))
        source.receive(HANDSHAKE.pack(1, 0, 0, 7) + STATE_REPORT.pack(2, log.own_end), 0.0)
        assert source.next_span(4.0) is None
        assert source.next_span(5.0, 9) == (STATE_DATA.pack(2, 0, log.own_end, 2, log.own_end, 9), log.own_end, 0)

    def test_a_start_in_no_epoch_is_an_error_not_silence(self) -> None:
        source = source_of(_log(), epochs=lambda: EpochTable([(2, 1000)]))
        source.receive(HANDSHAKE.pack(1, 0, 0, 7), 0.0)
        with pytest.raises(UnavailableError, match="in no epoch"):
            source.receive(STATE_REPORT.pack(2, 500), 0.0)

    def test_a_broker_that_leads_no_more_answers_no_handshake_and_sends_nothing(self) -> None:
        tables: list[EpochTable | None] = [None]
        log = _log(3)
        source = source_of(log, epochs=lambda: tables[0])
        with pytest.raises(UnavailableError, match="not the master"):
            source.receive(HANDSHAKE.pack(1, 0, 0, 7), 0.0)
        tables[0] = self.TABLE
        source = source_of(log, epochs=lambda: tables[0])
        source.receive(HANDSHAKE.pack(1, 0, 0, 7) + STATE_REPORT.pack(2, 0), 0.0)
        tables[0] = None
        with pytest.raises(UnavailableError, match="not the master"):
            source.next_span(0.0)

    @pytest.mark.parametrize(("flag", "start"), [(0, 0), (1, 4096)])
    def test_an_empty_slave_gets_the_whole_log_or_the_last_file(self, flag: int, start: int) -> None:
        log = MemoryLog()
        log.fill(15)
        assert FILE_SIZE < log.own_end < 2 * FILE_SIZE
        source = source_of(log, epochs=lambda: EpochTable([(1, 0)]))
        source.receive(HANDSHAKE.pack(1, flag, 0, 7) + STATE_REPORT.pack(2, 0), 0.0)
        assert source.next_offset == start

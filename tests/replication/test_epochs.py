"""Epochs: their order, their file, and where histories part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.replication.epochs import EpochTable, format_epochs, parse_epochs


def test_the_file_is_as_java_writes_it() -> None:
    text = b"2\n2107832152\n1-0\n2-1144516\n"
    assert parse_epochs(text) == [(1, 0), (2, 1144516)]
    assert format_epochs([(1, 0), (2, 1144516)]) == text
    assert parse_epochs(b"1\n0\n1-0\n") == [(1, 0)]


@pytest.mark.parametrize(
    "text",
    [b"", b"1\n", b"2\n1725254278\n1-0\n", b"1\n1725254279\n1-0\n", b"1\n0\n1-0-0\n", b"x\n0\n1-0\n", b"1\n0\nx\n",
     b"2\n0\n2-0\n1-5\n", b"2\n0\n1-5\n2-0\n", b"\xff\xfe", b"1\n0\n1-0\n2-5\n"],
)  # fmt: skip
def test_a_damaged_file_is_refused(text: bytes) -> None:
    with pytest.raises(CorruptionError):
        parse_epochs(text)


@pytest.mark.parametrize("entries", [[(1, 5), (1, 6)], [(2, 0), (1, 6)], [(1, 5), (2, 4)], [(-1, 0)], [(1, -1)]])
def test_epochs_ascend(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(InvalidArgumentError):
        EpochTable(entries)


def test_an_epoch_without_a_byte_goes_when_the_next_begins() -> None:
    table = EpochTable().append(1, 0).append(2, 100).append(5, 100)
    assert table == EpochTable([(1, 0), (5, 100)])
    assert (table.last_epoch, EpochTable().last_epoch) == (5, 0)
    assert table.append(6, 99) == EpochTable([(1, 0), (6, 99)])  # the log lost what epoch 5 began behind
    for epoch in (5, 4):
        with pytest.raises(InvalidArgumentError, match="cannot follow 5"):
            table.append(epoch, 200)


def test_each_offset_belongs_to_one_epoch() -> None:
    table = EpochTable([(1, 10), (3, 50), (4, 90)])
    at = {offset: entry and entry.epoch for offset in (9, 10, 49, 50, 90, 1000) for entry in [table.entry_at(offset)]}
    assert at == {9: None, 10: 1, 49: 1, 50: 3, 90: 4, 1000: 4}
    assert [table.end_of(epoch, 120) for epoch in (1, 3, 4)] == [50, 90, 120]
    assert table.without_from(50) == EpochTable([(1, 10)])
    assert table.without_from(51) == EpochTable([(1, 10), (3, 50)])


CASES = [
    # own epochs, own end, master's epochs, master's end, cut
    ([(1, 0)], 100, [(1, 0)], 200, 100),
    ([(1, 0)], 200, [(1, 0)], 100, 100),
    ([(1, 0)], 200, [(1, 0), (2, 150)], 300, 150),
    ([(1, 0), (2, 150)], 200, [(1, 0), (3, 120)], 300, 120),
    ([(1, 0), (2, 150)], 200, [(1, 0), (3, 180)], 300, 150),
    ([(1, 0), (2, 150)], 200, [(1, 0), (2, 150), (3, 180)], 300, 180),
    ([(1, 0), (2, 150)], 200, [(1, 0), (2, 140)], 300, 140),
    ([(1, 0)], 200, [(2, 0)], 300, 0),
    ([(1, 10)], 200, [(2, 10)], 300, None),
    ([(1, 0)], 200, [(2, 10)], 300, None),
    ([(1, 0)], 200, [], 300, None),
    ([], 100, [(1, 0)], 100, 100),
    ([], 101, [(1, 0)], 100, None),
]


@pytest.mark.parametrize(("own", "own_end", "master", "master_end", "cut"), CASES)
def test_a_log_is_the_masters_up_to_the_end_of_the_newest_common_epoch(
    own: list[tuple[int, int]], own_end: int, master: list[tuple[int, int]], master_end: int, cut: int | None
) -> None:
    assert EpochTable(own).cut_for(EpochTable(master), own_end=own_end, master_end=master_end) == cut


@st.composite
def _tables(draw: st.DrawFn) -> EpochTable:
    table = EpochTable()
    epoch, start = 0, 0
    for _ in range(draw(st.integers(0, 8))):
        epoch += draw(st.integers(1, 3))
        start += draw(st.integers(0, 50))
        table = table.append(epoch, start)
    return table


@given(_tables())
def test_what_is_written_is_read_again(table: EpochTable) -> None:
    assert EpochTable(parse_epochs(format_epochs(table))) == table


class _History:
    """A log as the list of the masters that wrote its bytes; ground truth for the comparison of tables."""

    def __init__(self) -> None:
        self.writers: list[tuple[int, int]] = []  # (epoch, serial) of each byte
        self.table = EpochTable()


@given(st.data())
def test_the_cut_leaves_exactly_what_both_logs_have_in_common(data: st.DataObject) -> None:
    """Random elections among three logs, each new master followed by some of the others up to some byte."""
    logs = [_History() for _ in range(3)]
    serial = 0
    for epoch in range(1, data.draw(st.integers(1, 8)) + 1):
        master = logs[data.draw(st.integers(0, 2))]
        master.table = master.table.append(epoch, len(master.writers))
        for _ in range(data.draw(st.integers(0, 6))):
            serial += 1
            master.writers.append((epoch, serial))
        for slave in logs:
            if slave is master or data.draw(st.booleans()):
                continue
            own_end, master_end = len(slave.writers), len(master.writers)
            cut = own_end if not own_end else slave.table.cut_for(master.table, own_end=own_end, master_end=master_end)
            common = 0
            while common < min(own_end, master_end) and slave.writers[common] == master.writers[common]:
                common += 1
            if cut is None:
                assert common == 0
                cut = 0
            assert cut == common
            upto = data.draw(st.integers(cut, master_end))
            slave.writers = master.writers[:upto]
            slave.table = EpochTable(entry for entry in master.table if entry.start_offset < upto)

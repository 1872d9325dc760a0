"""Finding where the log goes on behind bytes that are no record."""

from __future__ import annotations

from flaremq.message.record.codec import BLANK, MAGIC_BLANK
from flaremq.storage.log.resync import Stretch, search_record
from tests.message.records import make_record

START = 10_000


def search(data: bytes, after: int = START, *, filler_counts: bool = True) -> tuple[int | None, int]:
    def read(at: int, length: int) -> bytes:
        return data[at : at + length]

    return search_record([Stretch(START, len(data), len(data), len(data), read, filler_counts)], after)


def test_a_short_record_right_before_the_filler_of_its_file_is_found() -> None:
    damaged = bytes(range(1, 51))
    record = make_record(topic=b"T", body=b"", properties=b"", physical_offset=START + len(damaged))
    assert len(record) + BLANK.size < 112, "shorter than the longest header"
    found, leftover = search(damaged + record + BLANK.pack(BLANK.size, MAGIC_BLANK))
    assert (found, leftover) == (START + 50, 50 + len(record) + BLANK.size)


def test_a_filler_counts_if_it_reaches_to_the_end_of_its_file_and_may_count() -> None:
    filler = BLANK.pack(28, MAGIC_BLANK) + bytes(20)
    assert search(b"x" * 9 + filler)[0] == START + 9
    assert search(b"x" * 9 + filler, filler_counts=False)[0] is None
    assert search(b"x" * 9 + filler + b"\0")[0] is None


def test_what_stands_at_or_before_the_asked_place_is_not_found_again() -> None:
    record = make_record(topic=b"T", body=b"b", physical_offset=START)
    assert search(record)[0] is None
    assert search(record, after=START - 1)[0] == START
    assert search(b"\0" * 300) == (None, 0)

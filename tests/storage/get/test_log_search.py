"""Records that contain some bytes, found in the log of an open store."""

from __future__ import annotations

import pytest

from flaremq.message.message import Message
from tests.support.store_lab import StoreLab

BROKEN_SIZES = {"size of nothing": b"\0\0\0\0", "size beyond the file": b"\x7f\xff\xff\xff"}


def test_only_records_with_a_mark_are_found_over_the_ends_of_files(lab: StoreLab) -> None:
    store = lab.open()
    puts = [
        store.put(Message("T", bytes(300), properties={"MARK" if n % 3 == 0 else "other": str(n)})) for n in range(60)
    ]
    assert store.max_physical_offset > store.options.mapped_file_size_commit_log
    found = store.inspector.find_records(0, store.max_physical_offset, [b"MARK\x01"])
    assert [record.physical_offset for record in found] == [put.physical_offset for put in puts[::3]]


@pytest.mark.parametrize("kind", BROKEN_SIZES)
def test_damaged_record_costs_itself(lab: StoreLab, kind: str) -> None:
    store = lab.open()
    puts = [store.put(Message("T", b"x", properties={"MARK": str(n)})) for n in range(5)]
    store.wait_for_dispatch()
    store._commit_log.buffer[puts[2].physical_offset : puts[2].physical_offset + 4] = BROKEN_SIZES[kind]
    found = store.inspector.find_records(0, store.max_physical_offset, [b"MARK\x01"])
    assert [record.properties["MARK"] for record in found] == ["0", "1", "3", "4"]
    store._commit_log.buffer[puts[2].physical_offset : puts[2].physical_offset + 4] = puts[2].size.to_bytes(4, "big")

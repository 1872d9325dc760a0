"""Log files of a broker as they follow from its offsets: their names are the offsets they begin at."""

from __future__ import annotations

from typing import Any, Final

FILE_BYTES: Final = 1 << 30  # RocketMQ's default
_SHOWN_MAX: Final = 200


def log_files(min_offset: int, max_offset: int, file_bytes: int) -> tuple[list[dict[str, Any]], int]:
    """The newest files of a log, newest first, and how many there are."""
    first, last = min_offset // file_bytes, max_offset // file_bytes
    count = max(0, last - first + 1)
    rows = []
    for number in range(last, max(first, last - _SHOWN_MAX + 1) - 1, -1):
        start = number * file_bytes
        begin, end = max(start, min_offset), min(start + file_bytes, max_offset)
        rows.append(
            {
                "id": f"{start:020d}",
                "name": f"{start:020d}",
                "from_offset": begin,
                "to_offset": end,
                "size_bytes": file_bytes,
                "used_bytes": max(0, end - begin),
                "current": number == last,
            }
        )
    return rows, count


def file_of(physical_offset: int, file_bytes: int) -> tuple[str, int]:
    """Name of the log file that holds a record, and where in it."""
    start = physical_offset // file_bytes * file_bytes
    return f"{start:020d}", physical_offset - start

"""The table that records are parsed into: one row a record, one column a field, and the codes that go with it.

All columns are ``int64`` and contiguous, so ``table[BODY_LENGTH][:count]`` is a vector NumPy and Arrow use as
it is. ``..._AT`` columns are file offsets into the log array the row was parsed from; a row is useless
without it. A length of 0 means "absent" for tags, keys and the unique key, as an empty property value does
not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq.core.arrays import Integers

(
    FILE_OFFSET,  # where the record starts in its file
    PHYSICAL_OFFSET,  # PHYSICALOFFSET as stored; equals base + FILE_OFFSET in every accepted record
    SIZE,  # TOTALSIZE
    VERSION,  # 1 or 2, from the magic number
    QUEUE_ID,
    QUEUE_OFFSET,
    SYS_FLAG,
    FLAG,
    BODY_CRC,
    BORN_TIMESTAMP,
    STORE_TIMESTAMP,
    RECONSUME_TIMES,
    PREPARED_OFFSET,
    BODY_AT,
    BODY_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
    RESULT,  # set by parse_at: OK, or why there is no record (then every other cell is 0)
    MARKS,  # MARK_... bits; those from properties only if properties were read
    QUEUE_HASH,  # of topic bytes and queue id; for hash tables in memory, never stored
    # The rest is filled only when properties are read (not with HEADERS_ONLY).
    TAGS_AT,
    TAGS_LENGTH,
    KEYS_AT,
    KEYS_LENGTH,
    UNIQUE_KEY_AT,
    UNIQUE_KEY_LENGTH,
    TAGS_CODE,  # Java hash of TAGS, sign-extended; 0 without tags
    DELAY_LEVEL,  # DELAY as Java's parseInt reads it; -1 if absent or negative, -2 if it is no number
    COLUMN_COUNT,
) = range(31)

# What walk, parse_at and resync check.
CHECK_BODY_CRC = 1
CHECK_RECORD_CRC = 2  # the checksum property, where a record has one
REQUIRE_RECORD_CRC = 4  # and refuse records without it
STRICT = 8  # plausibility of what no checksum covers; for tails that were never synced
HEADERS_ONLY = 16  # do not read properties

# Why a walk stopped, or what a record is. From INVALID_MAGIC on: no record stands here.
OK = 0
END = 1  # reached the given end exactly
BLANK = 2  # filler: the log goes on in the next file
FULL = 3  # the table is full; go on from the returned offset
EMPTY = 4  # size and magic are zero: nothing was written here
INVALID_MAGIC = 16
INVALID_SIZE = 17  # TOTALSIZE impossible or past the end (also a blank's that does not reach the file's end)
INVALID_LENGTHS = 18  # the parts do not add up to TOTALSIZE
INVALID_OFFSET = 19  # PHYSICALOFFSET is not this position
INVALID_BODY_CRC = 20
INVALID_RECORD_CRC = 21
IMPLAUSIBLE = 22  # STRICT only

MARK_MULTI_DISPATCH = 1  # has INNER_MULTI_DISPATCH: belongs to light queues too
MARK_INNER_BATCH = 2  # body holds several messages
MARK_SCHEDULE = 4  # topic is SCHEDULE_TOPIC_XXXX
MARK_BAD_TEXT = 8  # topic or properties are not UTF-8: hashes and texts of this row need the plain path
MARK_RECORD_CRC = 16  # properties end with the checksum property


class RecordTable:
    """Preallocated columns for ``capacity`` parsed records or a few more.

    Reuse it: it is a megabyte per 4,000 rows. A row is written to all columns at once. With a power of two
    between them they would all fall into the same few cache lines and evict each other, so the distance is
    an odd number of lines.
    """

    __slots__ = ("_columns", "_values", "capacity", "cells")

    def __init__(self, capacity: int) -> None:
        self.capacity = 8 * ((capacity + 7) // 8 | 1)
        self.cells = bytearray(8 * COLUMN_COUNT * self.capacity)
        self._columns: Integers | None = None
        self._values = memoryview(self.cells).cast("q")

    def cell(self, column: int, row: int) -> int:
        """One field of one row."""
        return self._values[column * self.capacity + row]

    def column(self, column: int, count: int) -> list[int]:
        """One field of the first rows, as Python numbers."""
        return self._values[column * self.capacity : column * self.capacity + count].tolist()

    @property
    def columns(self) -> Integers:
        """All cells as an array, a row of it a column; a view."""
        if self._columns is None:
            import numpy as np  # only who looks at the table from Python needs it

            self._columns = np.frombuffer(self.cells, np.int64).reshape(COLUMN_COUNT, self.capacity)
        return self._columns

    def __getitem__(self, column: int) -> Integers:
        """One field of all rows; a view."""
        values: Integers = self.columns[column]
        return values

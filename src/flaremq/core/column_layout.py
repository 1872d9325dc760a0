"""The numbers of ``columns``: its columns, the rows of its layout, why it stops. ``column_layout.pxd`` has them too."""

from __future__ import annotations

# The columns of the table of numbers.
(
    QUEUE_ID,
    QUEUE_OFFSET,
    PHYSICAL_OFFSET,
    SIZE,
    FLAG,
    SYS_FLAG,
    BORN_TIMESTAMP,
    STORE_TIMESTAMP,
    RECONSUME_TIMES,
    PREPARED_OFFSET,
    NUMBER_COUNT,
) = range(11)
# The columns of texts; the last two are keys and values of the map of properties.
TOPIC, TAGS, KEYS, TRANSACTION_ID, MESSAGE_ID, BORN_HOST, STORE_HOST, BODY, MAP_KEYS, MAP_VALUES, TEXT_COUNT = range(11)

# A row of the layout, four for each text: where the next byte goes, where the column's part of the buffer ends and
# begins, and the place of its first offset, -1 if nobody wants the column. The last one is the map's own offsets.
NEXT, LIMIT, BEGIN, ENDS, LAYOUT_COUNT = range(5)

# Why a call stopped.
DONE = 0
DIFFERS = 1  # no record, or not the one that was expected
BAD_TEXT = 2  # topic or properties are not UTF-8
SPECIAL = 3  # one of the given bits of SYSFLAG is set
NO_ROOM = 4  # a column's part of the buffer is too small

# The numbers of column_layout.py as C constants; a test holds the two equal.

cdef enum:
    QUEUE_ID = 0
    QUEUE_OFFSET = 1
    PHYSICAL_OFFSET = 2
    SIZE = 3
    FLAG = 4
    SYS_FLAG = 5
    BORN_TIMESTAMP = 6
    STORE_TIMESTAMP = 7
    RECONSUME_TIMES = 8
    PREPARED_OFFSET = 9
    NUMBER_COUNT = 10
    TOPIC = 0
    TAGS = 1
    KEYS = 2
    TRANSACTION_ID = 3
    MESSAGE_ID = 4
    BORN_HOST = 5
    STORE_HOST = 6
    BODY = 7
    MAP_KEYS = 8
    MAP_VALUES = 9
    TEXT_COUNT = 10
    NEXT = 0
    LIMIT = 1
    BEGIN = 2
    ENDS = 3
    LAYOUT_COUNT = 4
    DONE = 0
    DIFFERS = 1
    BAD_TEXT = 2
    SPECIAL = 3
    NO_ROOM = 4

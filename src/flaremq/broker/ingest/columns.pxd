# The numbers of columns.py as C constants; a test holds the two equal.

cdef enum:
    KIND = 0
    OPAQUE = 1
    FLAG = 2
    TOPIC_AT = 3
    TOPIC_LENGTH = 4
    QUEUE_ID = 5
    SYS_FLAG = 6
    BORN = 7
    MESSAGE_FLAG = 8
    PROPERTIES_AT = 9
    PROPERTIES_LENGTH = 10
    BODY_AT = 11
    BODY_LENGTH = 12
    RECORD_OFFSET = 13
    QUEUE_OFFSET = 14
    RAW_LENGTH = 15
    KEY_AT = 16
    KEY_LENGTH = 17
    SIGNATURE_AT = 18
    SIGNATURE_LENGTH = 19
    LETTERS = 20
    MESSAGES = 48
    COLUMN_COUNT = 49
    RUN_MESSAGES_MAX = 4096

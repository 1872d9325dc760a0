# The numbers of json_layout.py as C constants; a test holds the two equal.

cdef enum:
    LONG = 0
    DOUBLE = 1
    BOOLEAN = 2
    TEXT = 3
    NUMBER = 4
    RAW = 5
    KIND = 0
    LOW = 1
    HIGH = 2
    SLOT = 3
    PLAN_COUNT = 4

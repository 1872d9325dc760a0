# The numbers of frames as C. Header only.

cdef enum:
    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9
    END_STREAM = 1
    ACK = 1
    END_HEADERS = 4
    PADDED = 8
    WITH_PRIORITY = 32
    FRAME_SIZE_MIN = 16384
    WINDOW_DEFAULT = 65535
    WINDOW_MAX = 2147483647
    TABLE_SIZE_DEFAULT = 4096

cimport cython
from libc.stdint cimport int64_t
from flaremq.core.crc cimport crc32_at
from flaremq.core.memory cimport View, copy_bytes, store_i16, store_i32, store_i64, store_u8

cdef struct Head:
    int64_t magic
    View topic
    int64_t queue_id
    int64_t sys_flag
    int64_t born_timestamp
    View born_host
    int64_t store_timestamp
    View store_host
    int64_t reconsume_times
    int64_t prepared_offset

cdef bytes _CRC_KEY
cdef int64_t _CRC_SIZE

cdef int64_t bare_size(int64_t hosts, int64_t topic) noexcept nogil
cdef int64_t write_record(
    View log, int64_t at, int64_t base, Head head, int64_t queue_offset, int64_t flag, View body, View text
) noexcept nogil
@cython.locals(place=int64_t, size=int64_t)
cdef int64_t write_head(
    View log, int64_t at, int64_t base, Head head, int64_t queue_offset, int64_t flag, View body, int64_t body_at,
    int64_t body_length, int64_t text_length
) noexcept nogil
@cython.locals(checksum=int64_t, place=int64_t, byte=int64_t)
cdef void seal_record(View log, int64_t at, int64_t end) noexcept

cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.crc cimport crc32_at
from flaremq.core.memory cimport (
    Table, View, as_i64, as_u64, load_i8, load_i16, load_i32, load_i64, load_u8, load_word, prefetch_read, word_before,
)
from flaremq.core.properties cimport (
    RECORD_CRC_SIZE, has_record_crc, properties_plausible, read_properties, stored_record_crc,
)
from flaremq.core.table cimport (
    BLANK, BODY_AT, BODY_CRC, BODY_LENGTH, BORN_TIMESTAMP, CHECK_BODY_CRC, CHECK_RECORD_CRC, EMPTY,
    FILE_OFFSET, FLAG, HEADERS_ONLY, IMPLAUSIBLE, INVALID_BODY_CRC, INVALID_LENGTHS, INVALID_MAGIC, INVALID_OFFSET,
    INVALID_RECORD_CRC, INVALID_SIZE, MARK_BAD_TEXT, MARK_INNER_BATCH, MARK_SCHEDULE, MARKS, OK, PHYSICAL_OFFSET,
    PREPARED_OFFSET, PROPERTIES_AT, PROPERTIES_LENGTH, QUEUE_HASH, QUEUE_ID, QUEUE_OFFSET, RECONSUME_TIMES, REQUIRE_RECORD_CRC,
    SIZE, STORE_TIMESTAMP, STRICT, SYS_FLAG, TOPIC_AT, TOPIC_LENGTH, VERSION,
)
from flaremq.core.text cimport is_utf8

cdef struct Frame:
    int64_t code
    int64_t size
    int64_t body_at
    int64_t body_length
    int64_t topic_at
    int64_t topic_length
    int64_t properties_at
    int64_t properties_length

cdef int64_t MAGIC_V1, MAGIC_V2, _MAGIC_BLANK, SMALLEST_RECORD, _HEAD
cdef uint64_t _SCHEDULE_1, _SCHEDULE_2, _SCHEDULE_3, _TOPIC_LOW, _TOPIC_HIGH, _MIX

@cython.locals(born=int64_t, place=int64_t)
cdef bint _plausible(View log, int64_t at, Frame frame) noexcept nogil
cdef Frame _refuse(int64_t code) noexcept nogil
@cython.locals(head=int64_t, version=int64_t, code=int64_t, text_length=int64_t)
cdef Frame frame_at(View log, int64_t at, int64_t end, int64_t base, int64_t flags) noexcept nogil
@cython.locals(hashed=uint64_t)
cdef int64_t queue_hash(View log, int64_t at, int64_t length, int64_t queue_id) noexcept nogil
@cython.locals(marks=int64_t)
cdef void fill_row(View log, int64_t at, Frame frame, int64_t flags, Table table, int64_t row) noexcept nogil

cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.memory cimport Table, View, find_byte, load_i32, load_u8, load_word, word_before
from flaremq.core.table cimport (
    DELAY_LEVEL, KEYS_AT, KEYS_LENGTH, MARK_BAD_TEXT, MARK_MULTI_DISPATCH, MARK_RECORD_CRC, TAGS_AT, TAGS_CODE,
    TAGS_LENGTH, UNIQUE_KEY_AT, UNIQUE_KEY_LENGTH,
)
from flaremq.core.text cimport NOT_UTF8, hash_text, is_utf8, signed

cdef uint64_t _FIVE_BYTES, _SIX_BYTES, _KEYS, _TAGS, _DELAY, _UNIQ_KEY, _CRC_KEY, _MULTI_1, _MULTI_2
cdef int64_t _INT_END, _MULTI_3, NO_DELAY, UNREADABLE_DELAY, RECORD_CRC_SIZE

@cython.locals(word=uint64_t, tags_at=int64_t, tags_length=int64_t, keys_at=int64_t, keys_length=int64_t,
               unique_at=int64_t, unique_length=int64_t, marks=int64_t, code=int64_t, delay=int64_t)
cdef int64_t read_properties(View log, int64_t start, int64_t end, Table table, int64_t row) noexcept nogil
@cython.locals(value=int64_t, back=int64_t)
cdef int64_t stored_record_crc(View log, int64_t record_end) noexcept nogil
@cython.locals(key=uint64_t, before=int64_t, rest=int64_t)
cdef bint has_record_crc(View log, int64_t start, int64_t end) noexcept nogil
cdef bint properties_plausible(View log, int64_t start, int64_t end) noexcept nogil
@cython.locals(value=int64_t)
cdef int64_t _parse_level(View log, int64_t start, int64_t end) noexcept nogil

cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport Frame, fill_row, frame_at
from flaremq.core.index cimport ENTRY, HEADER, capacity_of
from flaremq.core.memory cimport (
    Longs, Table, View, find_byte, load_i32, load_i64, longs_of, prefetch_read, same_bytes, table_of, view_of,
    writable_longs_of,
)
from flaremq.core.table cimport (
    CHECK_BODY_CRC, CHECK_RECORD_CRC, COLUMN_COUNT, KEYS_AT, KEYS_LENGTH, MARK_BAD_TEXT, MARKS, OK, STORE_TIMESTAMP,
    UNIQUE_KEY_AT, UNIQUE_KEY_LENGTH,
)

cdef int64_t _AHEAD, _END_OF_TIME, _NO_MATCH, _UNDECIDED

@cython.locals(limit=int64_t, base=int64_t, number=int64_t, entry=int64_t, time=int64_t, found=list)
cpdef list index_lookup(object index, int64_t slots, int64_t entries, int64_t hashed, int64_t begin_ms, int64_t end_ms,
                        int64_t max_count)
@cython.locals(limit=int64_t, number=int64_t, count=int64_t, entry=int64_t)
cpdef tuple index_lookup_many(object index, int64_t slots, int64_t entries, object hashes, int64_t max_each)
cdef int64_t _readable(View index, int64_t slots, int64_t entries) noexcept nogil
cdef void _fetch_slot(View index, int64_t slots, int64_t hashed) noexcept nogil
@cython.locals(number=int64_t)
cdef int64_t _first_entry(View index, int64_t slots, int64_t limit, int64_t hashed) noexcept nogil
@cython.locals(previous=int64_t)
cdef int64_t _next_entry(View index, int64_t slots, int64_t number) noexcept nogil
cdef int64_t _usable(View index, int64_t slots, int64_t number) noexcept nogil
@cython.locals(count=int64_t)
cdef int64_t _count_entries(View index, int64_t slots, int64_t number, int64_t hashed, int64_t max_each) noexcept nogil
@cython.locals(at=int64_t, end=int64_t, number=int64_t, entry=int64_t)
cdef void _take_entries(View index, int64_t slots, int64_t limit, int64_t hashed, Longs bounds, int64_t position,
                        Longs places) noexcept nogil
cpdef int64_t match_record(object log, int64_t at, int64_t base, int64_t end, object topic, object key, int64_t begin_ms,
                           int64_t end_ms) except? -2
@cython.locals(count=int64_t, judged=int64_t, number=int64_t, key_at=int64_t, key_length=int64_t, stop=int64_t,
               candidate=int64_t, at=int64_t)
cpdef int64_t match_records(object log, int64_t base, int64_t end, object topic, object keys, object key_offsets,
                            object starts, object offsets, object verdicts) except? -2
@cython.locals(time=int64_t, word=int64_t, stop=int64_t, word_end=int64_t)
cdef int64_t _judge(View log, int64_t at, int64_t base, int64_t end, View topic, View keys, int64_t key_at,
                    int64_t key_length, int64_t begin_ms, int64_t end_ms, Table scratch) noexcept nogil

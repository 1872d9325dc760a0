cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport (
    Longs, Table, View, find_byte, load_i32, load_i64, longs_of, prefetch_write, release_fence, store_i32, store_i64,
    table_of, view_of, writable_longs_of, writable_view_of, zero_bytes,
)
from flaremq.core.table cimport (
    COLUMN_COUNT, KEYS_AT, KEYS_LENGTH, MARK_BAD_TEXT, MARKS, PHYSICAL_OFFSET, STORE_TIMESTAMP, SYS_FLAG, TAGS_AT,
    TAGS_LENGTH, TOPIC_AT, TOPIC_LENGTH, UNIQUE_KEY_AT, UNIQUE_KEY_LENGTH,
)
from flaremq.core.text cimport hash_text, index_hash

cdef int64_t HEADER, ENTRY, _AHEAD, _SECONDS_MAX, _DONE, _FULL, _RESERVE, _INVALID

cdef int64_t capacity_of(View index, int64_t slots, int64_t entries) noexcept nogil
cdef bint inside(View log, int64_t at, int64_t length) noexcept nogil
@cython.locals(row=int64_t, end=int64_t, count=int64_t, length=int64_t)
cpdef bytearray index_keys(object log, object table, int64_t first_row, int64_t end_row, int64_t skip_below, bint with_tags)
@cython.locals(keys_at=int64_t, keys_length=int64_t, unique_at=int64_t, unique_length=int64_t, tags_at=int64_t,
               tags_length=int64_t, topic_at=int64_t, topic_length=int64_t, offset=int64_t, time=int64_t, prefix=int64_t,
               stop=int64_t, word_end=int64_t)
cdef int64_t _keys_of(View log, Table table, int64_t row, bint with_tags, Longs keys, int64_t count) noexcept nogil
cdef int64_t _add_key(Longs keys, int64_t count, int64_t hashed, int64_t offset, int64_t time) noexcept nogil
@cython.locals(total=int64_t, number=int64_t, limit=int64_t, count=int64_t, code=int64_t, ahead=int64_t)
cpdef tuple index_put(object index, int64_t slots, int64_t entries, int64_t reserved, object keys, int64_t first)
cdef void _fetch_slot(View index, int64_t slots, int64_t limit, int64_t hashed) noexcept nogil
@cython.locals(hashed=int64_t, offset=int64_t, time=int64_t, chain=int64_t, previous=int64_t, begin=int64_t,
               seconds=int64_t, entry=int64_t)
cdef int64_t _put_one(View index, int64_t slots, int64_t limit, int64_t reserved, int64_t count, Longs keys,
                      int64_t number) noexcept nogil
@cython.locals(limit=int64_t, used=int64_t, number=int64_t, entry=int64_t, chain=int64_t, previous=int64_t)
cpdef int64_t index_rebuild_slots(object index, int64_t slots, int64_t entries, int64_t count) except? -2

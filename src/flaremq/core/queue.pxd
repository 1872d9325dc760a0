cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport (
    Longs, Table, View, as_i64, bytes_at, load_i32, load_i64, longs_of, same_bytes, store_i32, store_i64, table_of,
    view_of, writable_longs_of, writable_view_of,
)
from flaremq.core.table cimport (
    COLUMN_COUNT, DELAY_LEVEL, MARK_SCHEDULE, MARKS, PHYSICAL_OFFSET, QUEUE_HASH, QUEUE_ID, QUEUE_OFFSET, SIZE,
    STORE_TIMESTAMP, SYS_FLAG, TAGS_CODE, TOPIC_AT, TOPIC_LENGTH,
)

cdef int64_t _UNIT, _UNKNOWN_DELAY_MS

@cython.locals(row=int64_t, stop=int64_t)
cpdef int64_t find_marked(object table, int64_t first, int64_t end, int64_t marks) except? -1
@cython.locals(offsets_at=int64_t, group=int64_t, begin=int64_t, stop=int64_t, after=int64_t, number=int64_t, runs=list)
cpdef tuple queue_runs(object log, object table, int64_t first, int64_t end, object delay_ms)
@cython.locals(topic=bytes)
cdef tuple _run_of(View log, Table table, int64_t first_row, int64_t last_row, int64_t first, int64_t end)
@cython.locals(transaction=int64_t, at=int64_t, length=int64_t)
cdef bint _has_place(View log, Table table, int64_t row) noexcept nogil
@cython.locals(mask=int64_t, groups=int64_t, group=int64_t, number=int64_t)
cpdef tuple group_queues(object log, object table, int64_t count, int64_t first=*)
@cython.locals(mask=int64_t, groups=int64_t, group=int64_t, number=int64_t, row=int64_t, hashed=int64_t, slot=int64_t,
               start=int64_t)
cdef int64_t _assign(View log, Table table, int64_t first, int64_t count, Longs slots, Longs group_of, Longs heads,
                     Longs ends) noexcept nogil
@cython.locals(length=int64_t)
cdef bint _same_queue(View log, Table table, int64_t one, int64_t other) noexcept nogil
@cython.locals(count=int64_t, done=int64_t)
cpdef int64_t fill_units(object table, object order, object delay_ms, object out) except? -1
@cython.locals(code=int64_t, level=int64_t, delay=int64_t)
cdef void _store_unit(View target, int64_t at, Table table, int64_t row, Longs delays) noexcept nogil
@cython.locals(count=int64_t, number=int64_t, at=int64_t)
cpdef int64_t parse_units(object data, object out) except? -1

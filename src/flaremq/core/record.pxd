cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, Frame, fill_row, frame_at
from flaremq.core.memory cimport (
    Longs, Table, View, bytes_view, find_byte, load_i32, load_i64, load_u8, longs_of, same_bytes, table_of, view_of,
)
from flaremq.core.table cimport (
    CHECK_BODY_CRC, CHECK_RECORD_CRC, COLUMN_COUNT, END, FULL, INVALID_SIZE, OK, RESULT,
)

cdef bytes _ZEROS

@cython.locals(limit=int64_t, at=int64_t, row=int64_t, code=int64_t)
cpdef tuple walk(object log, int64_t start, int64_t end, int64_t base, int64_t flags, object table)
@cython.locals(count=int64_t, at=int64_t, row=int64_t, code=int64_t)
cpdef int64_t parse_at(object log, object offsets, int64_t base, int64_t flags, object table) except? -1
@cython.locals(column=int64_t)
cdef void judge_row(Table table, int64_t row, int64_t code) noexcept nogil
@cython.locals(limit=int64_t, found=int64_t, at=int64_t)
cpdef int64_t find_candidate(object log, int64_t start, int64_t end, int64_t base) except? -2
@cython.locals(at=int64_t, length=int64_t)
cpdef int64_t nonzero_end(object log, int64_t start, int64_t end) except? -1

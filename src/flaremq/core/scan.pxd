cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, Frame, fill_row, frame_at, queue_hash
from flaremq.core.memory cimport (
    Longs, Table, View, find_byte, load_i32, load_i64, longs_of, same_bytes, table_of, view_of, writable_longs_of,
)
from flaremq.core.record cimport judge_row
from flaremq.core.table cimport COLUMN_COUNT, INVALID_SIZE, OK

@cython.locals(count=int64_t, row=int64_t, place=int64_t, code=int64_t)
cpdef int64_t parse_pieces(object log, object at, object physical, int64_t flags, object table) except? -1
@cython.locals(room=int64_t, place=int64_t, count=int64_t, size=int64_t, magic=int64_t)
cpdef tuple split_records(object log, int64_t start, object at, object physical)
cpdef int64_t topic_hash(object topic, int64_t queue_id) except? -1

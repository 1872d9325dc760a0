cimport cython
from libc.stdint cimport int64_t
from flaremq.core.column_layout cimport (
    BAD_TEXT, BEGIN, BODY, BORN_HOST, BORN_TIMESTAMP, DIFFERS, DONE, ENDS, FLAG, KEYS, LAYOUT_COUNT, LIMIT, MAP_KEYS, MAP_VALUES, MESSAGE_ID, NEXT,
    NO_ROOM, NUMBER_COUNT, PHYSICAL_OFFSET, PREPARED_OFFSET, QUEUE_ID, QUEUE_OFFSET, RECONSUME_TIMES, SIZE, SPECIAL, STORE_HOST, STORE_TIMESTAMP, SYS_FLAG, TAGS, TEXT_COUNT, TOPIC, TRANSACTION_ID,
)
from flaremq.core.frame cimport Frame, frame_at, queue_hash
from flaremq.core.gather cimport drop_repeated, new_scratch, split_pieces
from flaremq.core.memory cimport (
    Ints, Longs, Table, View, copy_bytes, load_i32, load_i64, load_u8, load_u16, longs_of, prefetch_read, same_bytes,
    store_u8, table_of, view_of, writable_ints_of, writable_longs_of, writable_view_of,
)
from flaremq.core.table cimport OK
from flaremq.core.text cimport is_utf8

cdef int64_t _LARGEST, _TAGS_KEY, _KEYS_KEY, _HOST_ROOM, _TEXT_AT, _FETCHED_AHEAD

@cython.locals(
    count=int64_t, row=int64_t, entries=int64_t, code=int64_t, place=int64_t, found=int64_t, sys_flag=int64_t, left=bint,
    length=int64_t, host_at=int64_t, end=int64_t, number=int64_t, wants_properties=bint,
)
cpdef tuple fill_columns(
    object log, object at, object physical, object sizes, object queue_offsets, object hashes, int64_t queue_id,
    int64_t flags, int64_t special, object numbers, object layout, object ends, object texts,
)
@cython.locals(column=int64_t, at=int64_t, rows=int64_t, begin=int64_t, limit=int64_t)
cdef bint _fits(Longs plan, int64_t count, Ints bounds, View out) noexcept nogil
cdef bint _is_wanted(Longs plan, int64_t column) noexcept nogil
cdef void _numbers(View log, int64_t at, Frame frame, int64_t sys_flag, Table table, int64_t row) noexcept nogil
@cython.locals(place=int64_t, done=int64_t)
cdef bint _put(View out, Longs plan, Ints bounds, int64_t column, int64_t row, View source, int64_t at, int64_t length) noexcept nogil
@cython.locals(
    tags_at=int64_t, tags_length=int64_t, keys_at=int64_t, keys_length=int64_t, id_at=int64_t, id_length=int64_t,
    piece=int64_t, start=int64_t, separator=int64_t, length=int64_t, key=int64_t,
)
cdef bint _put_known(
    View out, Longs plan, Ints bounds, int64_t row, View log, Longs pieces, int64_t count, View transaction
) noexcept nogil
@cython.locals(keys_end=int64_t, values_end=int64_t, room=int64_t, piece=int64_t, start=int64_t, separator=int64_t, length=int64_t)
cdef int64_t _put_map(
    View out, Longs plan, Ints bounds, int64_t row, int64_t entries, View log, Longs pieces, int64_t count
) noexcept nogil
cdef bint _put_host(
    View out, Longs plan, Ints bounds, int64_t column, int64_t row, View log, int64_t at, int64_t length, View kept
) noexcept nogil
@cython.locals(byte=int64_t, group=int64_t, value=int64_t, shift=int64_t, port=int64_t)
cdef int64_t _format_host(View out, int64_t done, View log, int64_t at, int64_t length) noexcept nogil
cdef int64_t _character(View out, int64_t at, int64_t code) noexcept nogil
@cython.locals(power=int64_t)
cdef int64_t _decimal(View out, int64_t at, int64_t value) noexcept nogil
cdef int64_t _digit(int64_t value) noexcept nogil
@cython.locals(done=int64_t, end=int64_t, byte=int64_t, value=int64_t, at=int64_t)
cdef bint _put_id(
    View out, Longs plan, Ints bounds, int64_t row, View log, int64_t host_at, int64_t host_length, int64_t offset_at
) noexcept nogil

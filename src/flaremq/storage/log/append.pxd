cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport (
    View, ascii_view, bytes_view, copy_bytes, find_byte, load_i32, load_u16, store_u8, view_of,
)
from flaremq.core.write cimport Head, bare_size, seal_record, write_head, write_record
from flaremq.storage.log.log_end cimport LogEnd

cdef int64_t BATCH_ITEM_BYTES, _NO_QUEUE_UNIT, _ITEM_HEAD, _PROPERTIES_MAX, _CRC_HEAD, _CRC_TAIL
cdef bytes _KEYS, _TAGS

cdef struct Placed:
    int64_t queue_offset
    int64_t physical_offset
    int64_t store_timestamp
    int64_t size

cdef class RecordFields:
    cdef readonly int64_t magic, queue_id, sys_flag, reconsume_times, prepared_offset
    cdef readonly object born_timestamp
    cdef readonly bytes topic, born_host, store_host
    cdef int64_t fixed_size(self) noexcept
    cdef Head head(self, int64_t now) except *

cdef class TopicEntry:
    cdef readonly int64_t magic, plain_size
    cdef readonly bytes prefix
    cdef readonly dict queue_offsets

@cython.locals(total=int64_t, at=int64_t, now=int64_t, base=int64_t, queue_offset=int64_t, head=Head)
cdef Placed append_record(
    LogEnd log, TopicEntry entry, int64_t queue_id, int64_t flag, int64_t sys_flag, object born_timestamp,
    bytes born_host, bytes store_host, int64_t reconsume_times, bytes body, bytes properties
) except *
cdef int64_t next_offset(dict queue_offsets, int64_t queue_id) except? -1
@cython.locals(
    total=int64_t, size=int64_t, at=int64_t, now=int64_t, base=int64_t, first=int64_t, place=int64_t, end=int64_t,
    number=int64_t, flag=int64_t, has_unit=bint, fixed=int64_t, head=Head
)
cpdef tuple append_records(
    LogEnd log, RecordFields fields, dict queue_offsets, list bodies, list properties, object flags, bint seal_crc=*
)
@cython.locals(fixed=int64_t, total=int64_t, size=int64_t, number=int64_t, key=int64_t, tag=int64_t)
cpdef list measure_columns(RecordFields fields, list bodies, object keys, object tags, int64_t size_max)
@cython.locals(text=View)
cdef int64_t piece_size(object value) noexcept
@cython.locals(at=int64_t)
cdef bint is_storable(View text, int64_t start, int64_t end) noexcept
@cython.locals(
    total=int64_t, size=int64_t, at=int64_t, now=int64_t, base=int64_t, first=int64_t, place=int64_t, end=int64_t,
    number=int64_t, fixed=int64_t, body=View, head=Head
)
cpdef tuple append_columns(
    LogEnd log, RecordFields fields, dict queue_offsets, list bodies, object keys, object tags, list sizes
)
@cython.locals(text=View)
cdef int64_t write_piece(View log, int64_t at, bytes name, object value) noexcept
@cython.locals(at=int64_t, count=int64_t, length=int64_t, place=int64_t, text=int64_t)
cdef int64_t count_batch(View source, int64_t start, int64_t end, int64_t count_max) noexcept
@cython.locals(length=int64_t, text_at=int64_t, text=int64_t, flag=int64_t)
cdef int64_t write_batch_item(View log, int64_t at, int64_t base, Head head, int64_t queue_offset, View source, int64_t item) noexcept
@cython.locals(
    source=View, count=int64_t, extra=int64_t, total=int64_t, at=int64_t, now=int64_t, base=int64_t, first=int64_t,
    place=int64_t, item=int64_t, number=int64_t, following=int64_t, head=Head
)
cpdef append_batch_body(
    LogEnd log, RecordFields fields, dict queue_offsets, bytes body, int64_t size_max, int64_t count_max
)

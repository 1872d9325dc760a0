cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport Frame, frame_at
from flaremq.core.memory cimport View, load_i32, load_i64, prefetch_read, view_of
from flaremq.core.table cimport CHECK_BODY_CRC, CHECK_RECORD_CRC, OK
from flaremq.message.message_ext cimport MessageExt, lent_message

cdef int64_t _UNIT_SIZE, _FILLER_SIZE, _LOW_32, _FETCHED_AHEAD, _EXT_ADDRESS_MAX

@cython.locals(
    limit=int64_t, last_physical=int64_t, count=int64_t, physical=int64_t, record_size=int64_t, room=int64_t, most=int64_t,
    code=int64_t, at=int64_t, ahead=int64_t, following=int64_t, max_count=int64_t, far=int64_t, disk_bytes=int64_t, disk_count=int64_t,
    memory_bytes=int64_t, memory_count=int64_t,
)
cpdef tuple collect(
    list found, int64_t size, object units, int64_t number, int64_t stop, object log, int64_t base, int64_t end,
    int64_t queue_id, int64_t queue_offset, int64_t skip_below, tuple limits, dict wanted,
)

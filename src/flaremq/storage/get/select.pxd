cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport Frame, frame_at
from flaremq.core.memory cimport Longs, View, load_i32, load_i64, longs_of, view_of, writable_longs_of
from flaremq.core.table cimport CHECK_BODY_CRC, CHECK_RECORD_CRC, OK

cdef int64_t _INT_MIN, _FILLER

@cython.locals(source=View, table=View, wanted_codes=Longs, places=Longs, found=int64_t, done=int64_t, runs=int64_t, run_end=int64_t, total=int64_t, number=int64_t, unit=int64_t, offset=int64_t, size=int64_t, code=int64_t, at=int64_t, wanted=bint, place=int64_t, frame=Frame)
cpdef tuple select_units(object units, object log, int64_t base, int64_t end, int64_t queue_id, int64_t queue_offset, int64_t count_max, int64_t bytes_max, object codes, object ranges)

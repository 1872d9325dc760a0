cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, load_i16, load_i32, view_of

@cython.locals(view=View, start=int64_t, length=int64_t, size=int64_t, name_at=int64_t, value_at=int64_t)
cdef dict _decode_ext(bytes data, int64_t at, int64_t end, list nulls)

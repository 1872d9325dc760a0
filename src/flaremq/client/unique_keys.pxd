cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, store_u8, writable_view_of
from flaremq.core.wall_clock cimport wall_clock_ms

cdef int64_t _COUNTED

cdef class UniqueKeys:
    cdef object _factory, _clock
    cdef bytearray _text
    cdef bint _is_wall_clock
    cdef int64_t _now_ms, _counter

    @cython.locals(now_ms=int64_t, counter=int64_t, text=View, place=int64_t, digit=int64_t)
    cpdef str make(self)

cimport cython
from libc.stdint cimport int64_t

cdef int64_t _UNIT_SIZE, _AHEAD_UNITS, _CURSORS_MAX

cdef class QueueCursor:
    cdef tuple _kept
    cdef int64_t _next
    cdef readonly object queue
    @cython.locals(start=int64_t, first=int64_t, end=int64_t, used=int64_t, units=bytes)
    cpdef tuple read(self, int64_t offset, int64_t count)

cdef class QueueCursors:
    cdef dict _cursors
    cpdef QueueCursor of(self, object queue)

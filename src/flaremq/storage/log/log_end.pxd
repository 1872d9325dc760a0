cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, writable_view_of
from flaremq.core.wall_clock cimport wall_clock_ms
from flaremq.storage.files.mapped_file cimport MappedFile
from flaremq.storage.log.put_lock cimport PutLock

cdef int64_t _SPARE, _CLOCK_BACKSTEP_MAX_MS

cdef class LogEnd:
    cdef object _clock
    cdef bint _is_system_clock
    cdef public object buffer
    cdef public PutLock lock
    cdef public MappedFile current
    cdef public int64_t end_offset, last_timestamp, limit
    cdef View view

    cpdef write_into(self, object buffer)
    @cython.locals(file=MappedFile)
    cpdef int64_t claim(self, int64_t total) except -1
    @cython.locals(now=int64_t)
    cpdef int64_t store_time(self) except? -1
    @cython.locals(file=MappedFile)
    cpdef publish(self, int64_t end, int64_t now)

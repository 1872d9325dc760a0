cimport cython
from libc.stdint cimport int64_t
from flaremq.grpc.http2.frames cimport (
    DATA, END_HEADERS, END_STREAM, FRAME_SIZE_MIN, HEADERS, TABLE_SIZE_DEFAULT, WINDOW_DEFAULT, WINDOW_MAX,
)
from flaremq.grpc.http2.stream cimport Stream

cdef class Sender:
    cdef object _waiting
    cdef public list out
    cdef public int64_t out_bytes, window, initial_window, frame_max, pending_bytes
    cdef public double now
    cdef dict _blocked
    cdef bytes _prefix
    cpdef write(self, frame)
    @cython.locals(size=int64_t, number=int64_t, frame=bytes)
    cpdef reply(self, Stream stream, bytes block, bytes data, bytes trailers)
    @cython.locals(flags=int64_t)
    cpdef headers(self, Stream stream, bytes block, bint end=*)
    cpdef data(self, Stream stream, data)
    cpdef end(self, Stream stream, trailers)
    cpdef forget(self, Stream stream)
    cdef _count(self, Stream stream, int64_t difference)
    @cython.locals(room=int64_t, at=int64_t, end=int64_t, limit=int64_t, number=int64_t, size=int64_t)
    cdef int64_t _send(self, Stream stream, data) except -1

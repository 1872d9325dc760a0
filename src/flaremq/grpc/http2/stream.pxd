from libc.stdint cimport int64_t
from flaremq.grpc.http2.header_blocks cimport RequestHeaders

cdef class Stream:
    cdef readonly int64_t id
    cdef public object owner, pending, trailers
    cdef public RequestHeaders headers
    cdef public int64_t send_window, receive_window, pending_bytes
    cdef public bint remote_closed, local_closed, head_sent
    cdef public double waits_since

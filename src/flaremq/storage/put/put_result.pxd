cimport cython
from libc.stdint cimport int64_t

cdef object _OK

# A status, a text, numbers: nothing that could lead back to the result.
@cython.no_gc
@cython.freelist(64)
cdef class PutResult:
    cdef public object status, detail
    cdef public int64_t queue_offset, physical_offset, store_timestamp, size
    cdef bytes _store_host
    cdef public list _sizes

@cython.locals(result=PutResult)
cdef PutResult stored_result(
    int64_t queue_offset, int64_t physical_offset, int64_t store_timestamp, int64_t size, bytes store_host
)

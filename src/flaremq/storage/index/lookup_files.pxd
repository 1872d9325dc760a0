cimport cython
from libc.stdint cimport int64_t
from flaremq.core.lookup cimport index_lookup
from flaremq.core.memory cimport View, load_i64, view_of

cdef int64_t _NO_TIME

@cython.locals(widened=int64_t, begin=int64_t, end=int64_t, found=list, header=View)
cpdef list lookup_files(tuple files, int64_t hashed, int64_t begin_ms, int64_t end_ms, int64_t max_count)

from libc.stdint cimport int64_t

cdef class MappedFile:
    cdef public object _file, _filesystem, _lock, _mapping
    cdef public object path, pool_buffer
    cdef public bint available, is_doubtful, random_access, read_only, singly
    cdef public int64_t committed, end, flushed, reserved, size, start, wrote

from flaremq.core.mutex cimport Mutex, free_mutex, new_mutex, release_mutex, try_mutex, wait_mutex

cdef class PutLock:
    cdef Mutex _mutex
    cdef bint _held
    cpdef bint acquire(self, double timeout=*) except -1
    cpdef release(self)

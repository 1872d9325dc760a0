cdef extern from "pythread.h" nogil:
    ctypedef void *Mutex "PyThread_type_lock"
    Mutex PyThread_allocate_lock()
    void PyThread_free_lock(Mutex mutex)
    int PyThread_acquire_lock_timed(Mutex mutex, long long microseconds, int interruptible)
    void PyThread_release_lock(Mutex mutex)

cdef inline Mutex new_mutex() except NULL:
    cdef Mutex mutex = PyThread_allocate_lock()
    if mutex is NULL:
        raise MemoryError("no memory for a lock")
    return mutex

cdef inline void free_mutex(Mutex mutex) noexcept:
    if mutex is not NULL:
        PyThread_free_lock(mutex)

cdef inline bint try_mutex(Mutex mutex) noexcept:
    return PyThread_acquire_lock_timed(mutex, 0, 0) == 1

cdef inline bint wait_mutex(Mutex mutex, double seconds) noexcept:
    cdef int answer
    cdef long long microseconds = <long long>(seconds * 1e6) if seconds >= 0 else -1
    with nogil:
        answer = PyThread_acquire_lock_timed(mutex, microseconds, 0)
    return answer == 1

cdef inline void release_mutex(Mutex mutex) noexcept:
    PyThread_release_lock(mutex)

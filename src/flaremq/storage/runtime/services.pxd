cdef class ServiceThread:
    cdef object _name, _pending, _step, _thread, _wake
    cdef bint _stopped
    cdef readonly bint idle

cimport cython
from libc.stdint cimport int64_t
from flaremq.client.producer.outgoing cimport Outgoing

cdef class Line:
    cdef object _make_future
    cdef list _messages, _futures
    cdef int64_t _at

    cpdef object put(self, Outgoing message)
    @cython.locals(
        start=int64_t, end=int64_t, stop=int64_t, room=int64_t, number=int64_t, messages=list, message=Outgoing
    )
    cpdef tuple take(self, int64_t bytes_max, int64_t count_max)
    cpdef list clear(self)

@cython.locals(number=int64_t)
cpdef object tell(list futures, list results)
cpdef object tell_failure(list futures, object error)

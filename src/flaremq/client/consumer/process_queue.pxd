cimport cython
from libc.stdint cimport int64_t
from flaremq.client.consumer.received cimport ReceivedMessage
from flaremq.core.memory cimport Longs, writable_longs_of

cdef int64_t _CROWDED
cdef object _NOTHING

cdef class ProcessQueue:
    cdef public object queue, delivery, subscription, next_offset, waiting, broker_id, reported_offset, reported_to
    cdef public object last_failure, pull_task
    cdef public double locked_until, suspended_until, last_pull
    cdef public int64_t in_hand
    cdef public bint is_dropped, is_paused, is_listed
    cdef object _offsets, _room
    cdef int64_t _first, _first_place, _last, _bytes, _bytes_max, _count_max, _span_max

    @cython.locals(offsets=Longs, end=int64_t, message=ReceivedMessage)
    cpdef object add(self, list messages, object next_offset)
    @cython.locals(count=int64_t)
    cpdef object hand_out(self, list messages, int64_t count_max)
    @cython.locals(offsets=Longs)
    cpdef object finish(self, ReceivedMessage message)
    @cython.locals(number=int64_t)
    cdef object _finish(self, ReceivedMessage message, Longs offsets)
    @cython.locals(first=int64_t)
    cdef object _tidy(self)
    cpdef object wake(self)

@cython.locals(held=ProcessQueue, offsets=Longs, message=ReceivedMessage, others=list)
cpdef list settle_done(list messages)

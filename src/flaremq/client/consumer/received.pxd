cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport SMALLEST_RECORD
from flaremq.core.memory cimport View, bytes_at, load_i32, view_of
from flaremq.message.message_ext cimport MessageExt

cdef int64_t _SYS_FLAG_AT, _INNER_BATCH

cdef class ReceivedMessage(MessageExt):
    cdef public object queue, process_queue, retry_level, outcome
    cdef public bint is_decided, is_settled
    cdef public int64_t times_here, place

    cpdef object join(self, object queue, object process_queue)

@cython.locals(view=View, at=int64_t, end=int64_t, size=int64_t, messages=list, message=ReceivedMessage)
cpdef list read_messages(object body, object queue, object process_queue=*)

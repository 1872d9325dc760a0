cimport cython
from libc.stdint cimport int64_t
from flaremq.client.producer.outgoing cimport Outgoing

# Texts, a number, the name of a queue: nothing that could lead back to the result.
@cython.no_gc
@cython.freelist(64)
cdef class SendResult:
    cdef public object status, message_id, offset_message_id, queue, transaction_id, recall_handle
    cdef public int64_t queue_offset

@cython.locals(ids=list, results=list, number=int64_t, message=Outgoing, result=SendResult)
cpdef list results_of_batch(object status, object messages, str offset_ids, object queue, int64_t queue_offset)

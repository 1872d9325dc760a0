cimport cython
from libc.stdint cimport int64_t
from flaremq.client.unique_keys cimport UniqueKeys
from flaremq.core.memory cimport (
    View, ascii_view, bytes_view, copy_bytes, new_bytearray, piece_of, store_i16, store_i32, writable_view_of,
)
from flaremq.message.message cimport Message

cdef bytes _UNIQUE_KEY_PIECE
cdef int64_t _ITEM_HEAD, _ITEM_OVERHEAD, _FLAG_MIN, _FLAG_MAX, _TOPICS_MAX
cdef set _checked_topics

# Bytes, texts and numbers: nothing that could lead back to the message.
@cython.no_gc
@cython.freelist(64)
cdef class Outgoing:
    cdef public object topic, unique_key, timeout, flag
    cdef public bytes body, properties
    cdef public int64_t sys_flag
    cdef public bint is_alone, is_uncompressed

@cython.locals(sent=Message, body=bytes, key=View, piece=bytes, properties=bytes, size=int64_t, is_alone=bint, outgoing=Outgoing)
cpdef Outgoing prepare(object message, object unique_key, object options, object extra=*)
@cython.locals(batch=list, outgoing=Outgoing)
cpdef list prepare_batch(object messages, UniqueKeys keys, object options)
@cython.locals(size=int64_t, outgoing=Outgoing)
cpdef int64_t item_bytes(object messages) except? -1
@cython.locals(data=bytearray, target=View, body=View, text=View, at=int64_t, flag=int64_t, outgoing=Outgoing)
cpdef bytearray encode_items(object messages)

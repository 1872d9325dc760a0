cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, bytes_at, bytes_view, load_u8
from flaremq.grpc.plain.wire cimport BYTES, VARINT, is_text, read_name, read_varint, varint

cdef int64_t _MESSAGE_ID_MAX, _SECONDS_MAX, _NANOS_MAX, _BAR, _HOST_MAX
cdef frozenset _RESERVED

cdef class PlainSend:
    cdef int64_t topic_at, topic_length, tag_at, tag_length, id_at, id_length, host_at, host_length, body_at, body_length
    cdef int64_t text_size
    cdef public int64_t born_ms
    cdef public bytes topic, message_id, properties, body
    cdef list keys
    cdef dict user_properties

@cython.locals(view=View, end=int64_t, tag=int64_t, length=int64_t, send=PlainSend)
cpdef PlainSend read_plain_send(bytes data, int64_t at, int64_t body_max, int64_t user_max, int64_t count_max, int64_t now_ms, bytes peer)
@cython.locals(parts=list)
cdef bytes _properties(View view, PlainSend send, bytes peer)
@cython.locals(seen=int64_t, tag=int64_t, length=int64_t, field=int64_t)
cdef bint _read_message(View view, int64_t at, int64_t end, PlainSend send) except -1
@cython.locals(tag=int64_t, length=int64_t, name=bytes)
cdef bint _read_user_property(View view, int64_t at, int64_t end, PlainSend send) except -1
cdef bint _steers(bytes name) except -1
@cython.locals(seen=int64_t, tag=int64_t, length=int64_t, field=int64_t)
cdef bint _read_system(View view, int64_t at, int64_t end, PlainSend send) except -1
@cython.locals(place=int64_t, end=int64_t)
cdef bint _has_bar(View view, int64_t at, int64_t length) noexcept nogil
@cython.locals(seconds=int64_t, nanos=int64_t, tag=int64_t, value=int64_t)
cdef bint _read_time(View view, int64_t at, int64_t end, PlainSend send) except -1
@cython.locals(size=bytes, offset=bytes, entry=bytes, message=bytes)
cpdef bytes sent_reply(bytes status, bytes message_id, int64_t queue_offset)

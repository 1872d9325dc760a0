cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, bytes_at, bytes_view, find_byte, load_u8
from flaremq.grpc.plain.wire cimport BYTES, is_text, read_name, read_varint, varint

cdef int64_t _HANDLE_MAX, _SEAL_LENGTH, _BLANK, _DIGITS_MAX

cdef class PlainAck:
    cdef public bytes topic, group, message_id, handle, words, seal, kind, broker
    cdef public int64_t start_offset, pop_time, invisible_time, revive_queue_id, queue_id, offset, physical_offset

@cython.locals(
    view=View, end=int64_t, tag=int64_t, length=int64_t, field=int64_t, name_at=int64_t, name_length=int64_t, ack=PlainAck
)
cpdef PlainAck read_plain_ack(bytes data, int64_t at)
@cython.locals(tag=int64_t, length=int64_t)
cdef bint _read_entry(View view, int64_t at, int64_t end, PlainAck ack) except -1
@cython.locals(word=int64_t, stop=int64_t, number=int64_t)
cdef bint _read_words(View view, int64_t at, int64_t end, PlainAck ack) except -1
@cython.locals(number=int64_t, place=int64_t, digit=int64_t)
cdef int64_t _number(View view, int64_t at, int64_t end) noexcept nogil
@cython.locals(entry=bytes, message=bytes)
cpdef bytes acknowledged_reply(bytes status, bytes message_id, bytes handle)

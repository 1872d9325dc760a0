cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport MAGIC_V1, MAGIC_V2
from flaremq.core.memory cimport (
    View, bytes_at, bytes_view, copy_bytes, find_byte, load_i8, load_i16, load_i32, load_i64, load_u8, store_u8, view_of,
    writable_view_of,
)
from flaremq.grpc.plain.wire cimport is_text, varint

cdef int64_t _BODY_AT, _ODD_FLAGS, _OTHER, _ID, _TAG, _KEYS, _BORN_HOST, _HIDDEN, _STEERS, _SEPARATOR, _END_OF_PIECE
cdef int64_t _HOSTS_MAX, _PREFIX, _MARGIN
cdef dict _KINDS, _hosts
cdef bytes _HEX

cdef class PlainRecord:
    cdef public int64_t queue_id, queue_offset, physical_offset, born_ms, store_ms, reconsume_times
    cdef public bytes store_host, born_host, message_id, tag, body, keys, user_properties

cdef class Deliveries:
    cdef bytes _topic, _invisible
    cdef bytearray _buffer, _scratch
    cdef readonly int64_t size

    cpdef append(self, bytes replies)
    cpdef bytes take(self)
    @cython.locals(
        view=View, at=int64_t, system_size=int64_t, message_size=int64_t, reply_size=int64_t, shift=int64_t, topic=bytes,
        user=bytes, body=bytes
    )
    cpdef add(self, PlainRecord plain, bytes handle, int64_t attempt)
    @cython.locals(view=View, digits=View, digest_view=View, at=int64_t, needed=int64_t, place=int64_t, byte=int64_t, digest=bytes)
    cdef int64_t _write_system(self, PlainRecord plain, bytes handle, int64_t attempt) except -1
    @cython.locals(missing=int64_t)
    cdef _reserve(self, int64_t count)

@cython.locals(view=View, size=int64_t, magic=int64_t, body_length=int64_t, topic_length=int64_t, at=int64_t, plain=PlainRecord)
cpdef PlainRecord read_plain_record(object record)
@cython.locals(user=list, stop=int64_t, middle=int64_t, name=bytes, value=bytes, field=bytes, kind=int64_t)
cdef bint _read_properties(View view, int64_t at, int64_t end, PlainRecord plain) except -1
@cython.locals(kind=int64_t)
cdef int64_t _kind_of(bytes name) except -1
@cython.locals(text=bytes)
cdef bytes _host(bytes stored)
@cython.locals(size=int64_t)
cdef int64_t _varint_size(int64_t value) noexcept nogil
cdef int64_t _put_number(View view, int64_t at, int64_t tag, int64_t value) noexcept nogil
cdef int64_t _put_text(View view, int64_t at, int64_t tag, bytes text) noexcept
cdef int64_t _put(View view, int64_t at, bytes data) noexcept
@cython.locals(seconds=int64_t, nanos=int64_t, size=int64_t)
cdef int64_t _put_time(View view, int64_t at, int64_t tag, int64_t milliseconds) noexcept nogil

cimport cython
from libc.stdint cimport int64_t
from flaremq.core.frame cimport MAGIC_V1
from flaremq.core.memory cimport View, bytes_at, load_i8, load_i16, load_i32, load_i64, part_of, view_of

cdef int64_t _COMPRESSED, _INNER_BATCH, _HEADER_BYTES

# No cycle can lead through a message: it holds bytes, texts and a dictionary of texts.
@cython.no_gc
@cython.freelist(64)
cdef class MessageExt:
    cdef object _record, _source, _offset, _topic, _text, _properties
    cdef int64_t _at, _length

    cpdef object lend(self, object source, int64_t at, int64_t length)
    cpdef object own(self, bytes record)
    @cython.locals(view=View)
    cpdef object plain_body(self)
    cdef View _prefix(self, str name) except *
    @cython.locals(end=int64_t)
    cdef int64_t _body_end(self, str name) except -1
    @cython.locals(at=int64_t, start=int64_t, length=int64_t, properties_at=int64_t, properties_length=int64_t,
                   properties_end=int64_t)
    cdef object _read_texts(self, str name)

cpdef MessageExt lent_message(object source, int64_t at, int64_t length)
cdef int64_t _born_host_end(View record) noexcept nogil
@cython.locals(flags=int64_t)
cdef int64_t _body_at(View record) noexcept nogil

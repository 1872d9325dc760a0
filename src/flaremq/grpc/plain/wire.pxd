cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, load_u8

cdef int64_t VARINT, BYTES, _MORE, _FIRST, _LAST

@cython.locals(value=int64_t, shift=int64_t, byte=int64_t)
cdef (int64_t, int64_t) read_varint(View view, int64_t at, int64_t end) noexcept nogil
@cython.locals(place=int64_t, byte=int64_t, has_more=bint)
cdef bint is_text(View view, int64_t at, int64_t length) noexcept nogil
@cython.locals(tag=int64_t, length=int64_t)
cdef (int64_t, int64_t) read_name(View view, int64_t at, int64_t end) noexcept nogil
@cython.locals(out=bytearray)
cpdef bytes varint(int64_t value)

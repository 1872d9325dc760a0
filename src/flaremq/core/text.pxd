cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.memory cimport View, Longs, as_i32, load_u8, load_word, longs_of, view_of, writable_longs_of

cdef int64_t NOT_UTF8
cdef uint64_t _HIGH_BITS
cdef int64_t _INT_MIN, _LOW_32, _P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8

cdef int64_t next_character(View text, int64_t at, int64_t end) noexcept nogil
cdef bint is_utf8(View text, int64_t at, int64_t end) noexcept nogil
@cython.locals(word=uint64_t, code=int64_t)
cdef int64_t hash_text(int64_t h, View text, int64_t at, int64_t length) noexcept nogil
cdef int64_t signed(int64_t h) noexcept nogil
cdef int64_t index_hash(int64_t h) noexcept nogil
@cython.locals(h=int64_t)
cpdef int64_t key_hash(object topic, object key) except? -2
@cython.locals(number=int64_t, h=int64_t, at=int64_t, length=int64_t, count=int64_t)
cpdef int64_t key_hashes(object topic, object keys, object key_offsets, object out) except? -1

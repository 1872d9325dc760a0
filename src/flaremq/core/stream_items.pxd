cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.memory cimport (
    Longs, View, as_i64, as_u64, copy_bytes, load_u8, load_word, longs_of, store_i16, store_i32, store_u8, view_of,
    writable_longs_of, writable_view_of,
)

cdef int64_t _HEAD, _PROPERTIES_MAX, _SUFFIX, _KEY_AT, _CHAIN_AT
cdef uint64_t _FACTOR, _FIRST, _SECOND

cdef uint64_t _mixed(uint64_t value) noexcept nogil
@cython.locals(value=uint64_t, last=uint64_t, end=int64_t)
cdef uint64_t _hash_bytes(View content, int64_t at, int64_t length, uint64_t seed) noexcept nogil
cdef bint _fits(Longs offsets, int64_t size, int64_t row) noexcept nogil
@cython.locals(done=int64_t, row=int64_t, at=int64_t, value=uint64_t)
cpdef int64_t hash_rows(
    object bodies, object body_offsets, object properties, object property_offsets, object rows, object hashes
) except? -2
@cython.locals(value=uint64_t, number=int64_t)
cpdef int64_t chain_rows(object hashes, int64_t chain) except? -1
@cython.locals(place=int64_t, digit=int64_t)
cdef void _store_hex(View target, int64_t at, uint64_t value, int64_t digits, int64_t ten) noexcept nogil
@cython.locals(
    value=uint64_t, order=uint64_t, at=int64_t, done=int64_t, row=int64_t, length=int64_t, own=int64_t, size=int64_t,
    place=int64_t,
)
cpdef tuple encode_items(
    object bodies, object body_offsets, object properties, object property_offsets, object rows, object hashes,
    int64_t start, int64_t count_max, object suffix, int64_t number, int64_t chain, object out,
)

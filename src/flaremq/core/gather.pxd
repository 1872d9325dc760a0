cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.memory cimport (
    Ints, Longs, View, as_u64, copy_bytes, find_byte, load_i32, load_i64, longs_of, new_bytearray, prefetch_read, same_bytes, view_of, word_before,
    writable_ints_of, writable_longs_of, writable_view_of,
)

cdef int64_t _LARGEST, _PIECES, _SLOTS, _FEW, _FILLER_SIZE
cdef uint64_t _MIX

@cython.locals(room=int64_t, count=int64_t, done=int64_t, number=int64_t, place=int64_t, size=int64_t)
cpdef int64_t gather(object log, object at, object length, object offsets, object out) except? -2
@cython.locals(
    copied=int64_t, done=int64_t, number=int64_t, stop=int64_t, room=int64_t, offset=int64_t, size=int64_t, at=int64_t
)
cpdef tuple copy_units(
    object units, int64_t first, int64_t count, object log, int64_t base, int64_t end, int64_t queue_id,
    int64_t queue_offset, int64_t bytes_max,
)
@cython.locals(hashed=uint64_t)
cdef int64_t _key_slot(View log, int64_t start, int64_t end) noexcept nogil
cpdef bytearray new_scratch()
@cython.locals(found=int64_t, stop=int64_t, separator=int64_t)
cdef int64_t split_pieces(View text, int64_t at, int64_t end, Longs pieces) noexcept nogil
@cython.locals(piece=int64_t, later=int64_t, back=int64_t, size=int64_t, start=int64_t, slot=int64_t, other=int64_t)
cdef void drop_repeated(View text, Longs pieces, int64_t count, int64_t record) noexcept nogil

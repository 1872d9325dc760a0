cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.crc cimport crc32_at
from flaremq.core.memory cimport Ints, Longs, View, as_i64, as_u64, ints_of, longs_of, view_of, writable_longs_of

cdef uint64_t _A, _B, _STEP, _OTHER_LANE

cdef uint64_t _mix(uint64_t value) noexcept nogil
@cython.locals(row=int64_t, at=int64_t, end=int64_t)
cpdef object crc_slices(object data, object offsets, object out)
@cython.locals(count=int64_t, row=int64_t, at=int64_t, end=int64_t, entry=int64_t, total=uint64_t, mixed=uint64_t)
cpdef object hash_entries(object offsets, object keys, object values, object out)
@cython.locals(
    low=uint64_t, high=uint64_t, value=uint64_t, step=uint64_t, rows=int64_t, row=int64_t, field=int64_t,
)
cpdef tuple digest_fields(object fields, int64_t count)

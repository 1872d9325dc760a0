from libc.stdint cimport int64_t, uint8_t
from flaremq.core.memory cimport View, fmq_check

cdef extern from "flaremq/core/crc32.h":
    int64_t fmq_crc32(const uint8_t *data, int64_t length) noexcept nogil

cdef inline int64_t crc32_at(View view, int64_t at, int64_t length) noexcept nogil:
    fmq_check(view.size, at, length)
    return fmq_crc32(view.data + at, length)

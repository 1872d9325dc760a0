from libc.stdint cimport int64_t

cdef class StoreStatistics:
    cdef public int64_t get_found_count, get_miss_count, get_transferred_count
    cdef public int64_t put_count, put_failed_count, put_latency_max_ms
    cdef public list slow_puts
    cpdef note_put(self, int64_t elapsed_ms, int64_t weight=*)

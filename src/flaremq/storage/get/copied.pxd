cimport cython
from libc.stdint cimport int64_t
from flaremq.core.gather cimport copy_units
from flaremq.core.memory cimport View, load_i32, load_i64, view_of
from flaremq.storage.files.mapped_file cimport MappedFile
from flaremq.storage.get.cursor cimport QueueCursor

cdef int64_t _UNIT_SIZE, _BYTES_MAX

@cython.locals(
    units=bytes, unit=View, first=int64_t, count=int64_t, size=int64_t, room=int64_t, copied=int64_t, examined=int64_t,
    file=MappedFile
)
cpdef copy_messages(object log, QueueCursor cursor, int64_t offset, int64_t max_count, object max_bytes)

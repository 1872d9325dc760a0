cimport cython
from libc.stdint cimport int64_t
from flaremq.core.lookup cimport index_lookup_many, match_record, match_records
from flaremq.core.memory cimport Longs, longs_of, writable_longs_of
from flaremq.message.message_ext cimport MessageExt, lent_message
from flaremq.storage.files.mapped_file cimport MappedFile
from flaremq.storage.index.lookup_files cimport lookup_files

cdef int64_t _CROWD, _END_OF_TIME

@cython.locals(
    name=bytes, text=bytes, hashed=int64_t, asked=int64_t, offsets=list, found=list, physical_offset=int64_t, at=int64_t,
    end=int64_t, size=int64_t, file=MappedFile, message=MessageExt
)
cpdef list query_one(
    object log, object index, str topic, str key, int64_t max_count, int64_t begin_ms, int64_t end_ms,
    int64_t deleted_before
)
@cython.locals(found=list, messages=list, number=int64_t, bounds=Longs)
cpdef list query_many(
    object log, object index, str topic, object keys, int64_t max_count, int64_t deleted_before, object query_one
)

cdef class _Wanted:
    cdef str topic
    cdef object keys, bounds, hashes
    cdef bytes topic_bytes, blob

@cython.locals(
    end=int64_t, size=int64_t, first=int64_t, place=int64_t, number=int64_t, last=int64_t, base=int64_t, key=int64_t,
    length=int64_t, bounds=Longs, places=Longs, verdicts=Longs, file=MappedFile
)
cdef _collect(object log, _Wanted wanted, object starts, object offsets, int64_t deleted_before, list found)
cdef MessageExt _odd_message(
    object log, int64_t physical_offset, str topic, str key, int64_t begin_ms, int64_t end_ms
)
cdef bytes _encoded(str text)

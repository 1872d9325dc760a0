cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, bytes_at, bytes_view, load_u8

cdef class Field:
    cdef readonly str name, value
    cdef readonly int64_t size, kind

cdef class RequestHeaders:
    cdef public dict fields, pseudo
    cdef public bint is_malformed, is_too_large

cdef class HeaderDecoder:
    cdef list _entries
    cdef int64_t _size, _size_max, _list_size_max
    @cython.locals(
        result=RequestHeaders, fields=dict, pseudo=dict, entries=list, room=int64_t, view=View, at=int64_t, end=int64_t,
        has_begun=bint, first=int64_t, index=int64_t, place=int64_t, size=int64_t, mask=int64_t, length=int64_t, name=str,
        field=Field
    )
    cpdef RequestHeaders decode(self, bytes block)
    cdef _enter(self, Field field)
    cdef Field _find(self, int64_t index)
    @cython.locals(entries=list, count=int64_t, left=int64_t, room=int64_t)
    cdef _evict(self, int64_t size)

cdef int64_t _STATIC_COUNT, _OVERHEAD, REGULAR, PSEUDO, WRONG, _SHORT, _REMEMBERED_MAX

cdef int64_t _kind_of_name(str name) except -1
@cython.locals(kind=int64_t)
cpdef Field make_field(str name, str value)
@cython.locals(value=int64_t, shift=int64_t, byte=int64_t)
cdef (int64_t, int64_t) _integer(View view, int64_t at, int64_t end, int64_t start) except *
@cython.locals(first=int64_t, length=int64_t)
cdef (int64_t, int64_t) _length_at(View view, int64_t at, int64_t end) except *
cdef str _text(View view, int64_t at, int64_t length)

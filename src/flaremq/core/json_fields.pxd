cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.json_layout cimport BOOLEAN, DOUBLE, HIGH, KIND, LONG, LOW, PLAN_COUNT, RAW, SLOT, TEXT
from flaremq.core.json_walk cimport (
    NULL, TRUE, after_blanks, number_end, put_text, text_end, text_stop, value_end, value_of_name, word_end,
)
from flaremq.core.memory cimport (
    Ints, Longs, View, as_i64, as_u64, bytes_at, copy_bytes, double_bits, ints_of, load_i32, load_u8, longs_of, same_bytes, store_u8,
    view_of, writable_ints_of, writable_longs_of, writable_view_of,
)

cdef int64_t _QUOTE, _OPEN, _CLOSE, _COMMA, _MINUS, _POINT, _ABSENT, _NULL, _BROKEN, _LONG_DIGITS, _EXACT_POWER
cdef uint64_t _LONG_MAX, _EXACT
cdef double _INFINITY

@cython.final
cdef class Fields:
    cdef int64_t count, room, rows, stride
    cdef View names, texts, valid
    cdef Ints ends, name_ends
    cdef Longs met, plan, values

@cython.locals(
    odd_count=int64_t, row=int64_t, at=int64_t, end=int64_t, field=int64_t, taken=bint, fields=Fields,
)
cpdef int64_t scan_fields(
    object data, object bounds, int64_t first, int64_t rows, object names, object name_ends, object plan, object valid,
    object values, object ends, object texts, object scratch, object odd,
) except -1
@cython.locals(slots=int64_t, longs=int64_t, field=int64_t, slot=int64_t, is_text=bint)
cdef bint _fits(Fields fields, int64_t size) noexcept
@cython.locals(count=int64_t, field=int64_t, length=int64_t, place=int64_t, slot=int64_t)
cdef void _end_row(Fields fields, int64_t row, bint taken) noexcept
@cython.locals(expected=int64_t, name=int64_t, stop=int64_t, field=int64_t, byte=int64_t)
cdef bint _take(Fields fields, int64_t row, View data, int64_t at, int64_t end) except? False
@cython.locals(step=int64_t, field=int64_t, begin=int64_t)
cdef int64_t _field(Fields fields, View data, int64_t at, int64_t length, int64_t expected) noexcept
@cython.locals(kind=int64_t, slot=int64_t, byte=int64_t, stop=int64_t, begin=int64_t)
cdef int64_t _take_value(Fields fields, int64_t field, int64_t row, View data, int64_t at, int64_t end) except -2
@cython.locals(negative=bint, number=uint64_t, digit=int64_t, value=int64_t)
cdef bint _take_long(Fields fields, int64_t field, int64_t place, View data, int64_t at, int64_t stop) noexcept
@cython.locals(
    start=int64_t, negative=bint, mantissa=uint64_t, power=int64_t, has_point=bint, byte=int64_t, value=double, divisor=double
)
cdef bint _take_double(Fields fields, int64_t place, View data, int64_t at, int64_t stop) except? False

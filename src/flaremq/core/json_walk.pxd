cimport cython
from libc.stdint cimport int64_t, uint64_t
from flaremq.core.memory cimport View, as_u64, copy_bytes, first_marked_byte, load_i32, load_u8, load_word, store_u8
from flaremq.core.text cimport next_character

cdef int64_t _QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _ZERO, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST
cdef int64_t _LOWER_E, _LOWER_U, _LOWER_B, _LOWER_F, _LOWER_N, _LOWER_R, _LOWER_T, NULL, TRUE, _FALS, _DEEPEST
cdef uint64_t _HIGH_BITS, _ONES, _QUOTES, _BACKSLASHES, _BLANKS

@cython.locals(byte=int64_t)
cdef int64_t after_blanks(View data, int64_t at, int64_t end) noexcept nogil
@cython.locals(word=uint64_t, marked=uint64_t, byte=int64_t, character=int64_t)
cdef int64_t text_stop(View data, int64_t at, int64_t end) noexcept nogil
@cython.locals(byte=int64_t, code=int64_t)
cdef int64_t escape_length(View data, int64_t at, int64_t end) noexcept nogil
@cython.locals(code=int64_t)
cdef int64_t put_escape(View out, int64_t done, View data, int64_t at, int64_t length) noexcept nogil
@cython.locals(stop=int64_t, length=int64_t)
cdef int64_t put_text(View out, int64_t done, View data, int64_t at, int64_t end) noexcept nogil
@cython.locals(length=int64_t)
cdef int64_t text_end(View data, int64_t at, int64_t end) noexcept nogil
@cython.locals(stop=int64_t)
cdef int64_t number_end(View data, int64_t at, int64_t end) noexcept nogil
@cython.locals(word=int64_t)
cdef int64_t word_end(View data, int64_t at, int64_t end) noexcept nogil
cdef int64_t value_of_name(View data, int64_t at, int64_t end) noexcept nogil
@cython.locals(depth=int64_t, kinds=uint64_t, byte=int64_t)
cdef int64_t value_end(View data, int64_t at, int64_t end) noexcept nogil
cdef int64_t _member_value(View data, int64_t at, int64_t end) noexcept nogil
cdef int64_t _plain_end(View data, int64_t at, int64_t end, int64_t byte) noexcept nogil
@cython.locals(byte=int64_t)
cdef int64_t _digits_end(View data, int64_t at, int64_t end) noexcept nogil
cdef int64_t _plain_escape(int64_t byte) noexcept nogil
@cython.locals(code=int64_t, place=int64_t, byte=int64_t)
cdef int64_t _hex(View data, int64_t at, int64_t end) noexcept nogil

# Buffers and single machine operations as C: what memory.py means, at the cost of an instruction. Header only: every
# module that cimports it has them inline. Built with FLAREMQ_CHECKED, each access is compared with the buffer's size.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "Python.h":
    bytearray PyByteArray_FromStringAndSize(const char *data, Py_ssize_t size)

cdef struct View:
    uint8_t *data
    int64_t size

cdef struct Longs:
    int64_t *data
    int64_t size

cdef struct Ints:
    int32_t *data
    int64_t size

cdef struct Table:
    int64_t *data
    int64_t stride

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>

    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the core swaps bytes on load and assumes a little-endian machine"
    #endif

    #ifndef FLAREMQ_MEMORY
    #define FLAREMQ_MEMORY
    #ifdef FLAREMQ_CHECKED
    static inline void fmq_check(int64_t size, int64_t at, int64_t length) {
        if (at < 0 || length < 0 || at > size - length) {
            fprintf(stderr, "flaremq: core touches %lld bytes at %lld of a buffer of %lld\\n",
                    (long long)length, (long long)at, (long long)size);
            abort();
        }
    }
    #else
    #define fmq_check(size, at, length) ((void)0)
    #endif

    #define FMQ_LOAD(name, type, swap) \\
        static inline int64_t name(uint8_t *data, int64_t size, int64_t at) { \\
            type value; fmq_check(size, at, sizeof value); \\
            memcpy(&value, data + at, sizeof value); return (int64_t)(type)swap(value); }
    FMQ_LOAD(fmq_load_u8, uint8_t, )
    FMQ_LOAD(fmq_load_i8, int8_t, )
    FMQ_LOAD(fmq_load_u16, uint16_t, __builtin_bswap16)
    FMQ_LOAD(fmq_load_i16, int16_t, __builtin_bswap16)
    FMQ_LOAD(fmq_load_i32, int32_t, __builtin_bswap32)
    FMQ_LOAD(fmq_load_i64, int64_t, __builtin_bswap64)
    FMQ_LOAD(fmq_load_word, uint64_t, )

    #define FMQ_STORE(name, type, swap) \\
        static inline void name(uint8_t *data, int64_t size, int64_t at, int64_t value) { \\
            type stored = (type)swap((type)value); fmq_check(size, at, sizeof stored); \\
            memcpy(data + at, &stored, sizeof stored); }
    FMQ_STORE(fmq_store_u8, uint8_t, )
    FMQ_STORE(fmq_store_i16, uint16_t, __builtin_bswap16)
    FMQ_STORE(fmq_store_i32, uint32_t, __builtin_bswap32)
    FMQ_STORE(fmq_store_i64, uint64_t, __builtin_bswap64)

    static inline void fmq_copy(uint8_t *to, int64_t to_size, int64_t to_at,
                                const uint8_t *from, int64_t from_size, int64_t from_at, int64_t length) {
        fmq_check(to_size, to_at, length);
        fmq_check(from_size, from_at, length);
        memcpy(to + to_at, from + from_at, (size_t)length);
    }

    static inline int fmq_same(const uint8_t *a, int64_t a_size, int64_t a_at,
                               const uint8_t *b, int64_t b_size, int64_t b_at, int64_t length) {
        fmq_check(a_size, a_at, length);
        fmq_check(b_size, b_at, length);
        return memcmp(a + a_at, b + b_at, (size_t)length) == 0;
    }

    static inline int64_t fmq_find(const uint8_t *data, int64_t size, int64_t at, int64_t end, int64_t byte) {
        fmq_check(size, at, end > at ? end - at : 0);
        if (at >= end) return end;
        const uint8_t *found = (const uint8_t *)memchr(data + at, (int)byte, (size_t)(end - at));
        return found ? found - data : end;
    }

    static inline uint64_t fmq_word_before(const uint8_t *data, int64_t size, int64_t at, int64_t end) {
        uint64_t word = 0;
        int64_t left = end - at;
        fmq_check(size, at, left < 8 ? left : 8);
        if (left >= 8) { memcpy(&word, data + at, 8); return word; }
        if (at <= size - 8) { memcpy(&word, data + at, 8); return word & ((1ULL << (8 * left)) - 1); }
        memcpy(&word, data + at, (size_t)left);
        return word;
    }

    static inline int64_t fmq_double_bits(double value) {
        int64_t bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    #define fmq_first_marked_byte(word) (__builtin_ctzll(word) >> 3)

    static inline void fmq_zero(uint8_t *data, int64_t size, int64_t at, int64_t length) {
        fmq_check(size, at, length);
        memset(data + at, 0, (size_t)length);
    }
    #define fmq_release_fence() __atomic_thread_fence(__ATOMIC_RELEASE)
    #define fmq_prefetch_read(data, at) __builtin_prefetch((data) + (at), 0, 3)
    #define fmq_prefetch_write(data, at) __builtin_prefetch((data) + (at), 1, 3)
    #endif
    """
    void fmq_check(int64_t size, int64_t at, int64_t length) noexcept nogil
    int64_t fmq_load_u8(uint8_t *data, int64_t size, int64_t at) noexcept nogil
    int64_t fmq_load_i8(uint8_t *data, int64_t size, int64_t at) noexcept nogil
    int64_t fmq_load_u16(uint8_t *data, int64_t size, int64_t at) noexcept nogil
    int64_t fmq_load_i16(uint8_t *data, int64_t size, int64_t at) noexcept nogil
    int64_t fmq_load_i32(uint8_t *data, int64_t size, int64_t at) noexcept nogil
    int64_t fmq_load_i64(uint8_t *data, int64_t size, int64_t at) noexcept nogil
    uint64_t fmq_load_word(uint8_t *data, int64_t size, int64_t at) noexcept nogil
    void fmq_store_u8(uint8_t *data, int64_t size, int64_t at, int64_t value) noexcept nogil
    void fmq_store_i16(uint8_t *data, int64_t size, int64_t at, int64_t value) noexcept nogil
    void fmq_store_i32(uint8_t *data, int64_t size, int64_t at, int64_t value) noexcept nogil
    void fmq_store_i64(uint8_t *data, int64_t size, int64_t at, int64_t value) noexcept nogil
    void fmq_copy(uint8_t *to, int64_t to_size, int64_t to_at, uint8_t *source, int64_t from_size, int64_t from_at, int64_t length) noexcept nogil
    bint fmq_same(uint8_t *a, int64_t a_size, int64_t a_at, uint8_t *b, int64_t b_size, int64_t b_at, int64_t length) noexcept nogil
    int64_t fmq_find(uint8_t *data, int64_t size, int64_t at, int64_t end, int64_t byte) noexcept nogil
    uint64_t fmq_word_before(uint8_t *data, int64_t size, int64_t at, int64_t end) noexcept nogil
    int64_t fmq_double_bits(double value) noexcept nogil
    int64_t fmq_first_marked_byte(uint64_t word) noexcept nogil
    void fmq_zero(uint8_t *data, int64_t size, int64_t at, int64_t length) noexcept nogil
    void fmq_release_fence() noexcept nogil
    void fmq_prefetch_read(uint8_t *data, int64_t at) noexcept nogil
    void fmq_prefetch_write(uint8_t *data, int64_t at) noexcept nogil

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    bint PyLong_CheckExact(object value)
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

# A view is used while its object is alive and its memory stays in place: a function's argument, a kept reference.
cdef inline View buffer_view(object owner, int flags) except *:
    cdef Py_buffer buffer
    cdef View view
    PyObject_GetBuffer(owner, &buffer, flags)
    view.data = <uint8_t *>buffer.buf
    view.size = buffer.len
    PyBuffer_Release(&buffer)
    return view

cdef inline View view_of(object source) except *:
    return buffer_view(source, PyBUF_SIMPLE)

cdef inline View writable_view_of(object target) except *:
    return buffer_view(target, PyBUF_WRITABLE)

cdef inline View part_of(View view, int64_t at, int64_t length) noexcept nogil:
    cdef View part
    fmq_check(view.size, at, length)
    part.data = view.data + at
    part.size = length
    return part

cdef inline bytearray new_bytearray(int64_t size):
    return PyByteArray_FromStringAndSize(NULL, size)

cdef inline Longs as_longs(View view) noexcept:
    return Longs(<int64_t *>view.data, view.size // 8)

cdef inline Longs longs_of(object source) except *:
    return as_longs(view_of(source))

cdef inline Longs writable_longs_of(object target) except *:
    return as_longs(writable_view_of(target))

cdef inline Ints as_ints(View view) noexcept:
    return Ints(<int32_t *>view.data, view.size // 4)

cdef inline Ints ints_of(object source) except *:
    return as_ints(view_of(source))

cdef inline Ints writable_ints_of(object target) except *:
    return as_ints(writable_view_of(target))

cdef inline Table table_of(object columns, int64_t count) except *:
    cdef View view = writable_view_of(columns)
    cdef Table table
    table.data = <int64_t *>view.data
    table.stride = view.size // (8 * count)
    return table

cdef inline int64_t load_u8(View view, int64_t at) noexcept nogil:
    return fmq_load_u8(view.data, view.size, at)

cdef inline int64_t load_i8(View view, int64_t at) noexcept nogil:
    return fmq_load_i8(view.data, view.size, at)

cdef inline int64_t load_u16(View view, int64_t at) noexcept nogil:
    return fmq_load_u16(view.data, view.size, at)

cdef inline int64_t load_i16(View view, int64_t at) noexcept nogil:
    return fmq_load_i16(view.data, view.size, at)

cdef inline int64_t load_i32(View view, int64_t at) noexcept nogil:
    return fmq_load_i32(view.data, view.size, at)

cdef inline int64_t load_i64(View view, int64_t at) noexcept nogil:
    return fmq_load_i64(view.data, view.size, at)

cdef inline uint64_t load_word(View view, int64_t at) noexcept nogil:
    return fmq_load_word(view.data, view.size, at)

cdef inline void store_u8(View view, int64_t at, int64_t value) noexcept nogil:
    fmq_store_u8(view.data, view.size, at, value)

cdef inline void store_i16(View view, int64_t at, int64_t value) noexcept nogil:
    fmq_store_i16(view.data, view.size, at, value)

cdef inline void store_i32(View view, int64_t at, int64_t value) noexcept nogil:
    fmq_store_i32(view.data, view.size, at, value)

cdef inline void store_i64(View view, int64_t at, int64_t value) noexcept nogil:
    fmq_store_i64(view.data, view.size, at, value)

cdef inline void copy_bytes(View target, int64_t target_at, View source, int64_t source_at, int64_t length) noexcept nogil:
    fmq_copy(target.data, target.size, target_at, source.data, source.size, source_at, length)

cdef inline bint same_bytes(View first, int64_t first_at, View second, int64_t second_at, int64_t length) noexcept nogil:
    return fmq_same(first.data, first.size, first_at, second.data, second.size, second_at, length)

cdef inline void zero_bytes(View target, int64_t at, int64_t length) noexcept nogil:
    fmq_zero(target.data, target.size, at, length)

cdef inline int64_t find_byte(View view, int64_t at, int64_t end, int64_t byte) noexcept nogil:
    return fmq_find(view.data, view.size, at, end, byte)

cdef inline uint64_t word_before(View view, int64_t at, int64_t end) noexcept nogil:
    return fmq_word_before(view.data, view.size, at, end)

cdef inline int64_t first_marked_byte(uint64_t word) noexcept nogil:
    return fmq_first_marked_byte(word)

cdef inline int64_t double_bits(double value) noexcept nogil:
    return fmq_double_bits(value)

cdef inline void prefetch_read(View view, int64_t at) noexcept nogil:
    fmq_prefetch_read(view.data, at)

cdef inline void prefetch_write(View view, int64_t at) noexcept nogil:
    fmq_prefetch_write(view.data, at)

cdef inline void release_fence() noexcept nogil:
    fmq_release_fence()

cdef inline bytes bytes_at(View view, int64_t at, int64_t length):
    fmq_check(view.size, at, length)
    return PyBytes_FromStringAndSize(<char *>view.data + at, length)

cdef inline int64_t as_i32(int64_t value) noexcept nogil:
    return <int><unsigned int>value

cdef inline int64_t as_i64(uint64_t value) noexcept nogil:
    return <int64_t>value

cdef inline uint64_t as_u64(int64_t value) noexcept nogil:
    return <uint64_t>value

cdef inline View bytes_view(bytes data) noexcept:
    cdef View view
    view.data = <uint8_t *>PyBytes_AS_STRING(data)
    view.size = PyBytes_GET_SIZE(data)
    return view

cdef inline View ascii_view(object text) noexcept:
    cdef View view
    view.data = NULL
    view.size = -1
    if type(text) is str and PyUnicode_IS_ASCII(text):
        view.data = <uint8_t *>PyUnicode_DATA(text)
        view.size = PyUnicode_GET_LENGTH(text)
    return view

cdef inline int64_t whole_number(object value, int64_t low, int64_t high, int64_t otherwise) noexcept:
    cdef int overflow = 0
    cdef int64_t number
    if not PyLong_CheckExact(value):
        return otherwise
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    return otherwise if overflow or number < low or number > high else number

cdef inline bytes piece_of(bytes name, View value):
    cdef View target, source
    cdef bytes piece = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(name) + value.size + 1)
    source = bytes_view(name)
    target = bytes_view(piece)
    copy_bytes(target, 0, source, 0, source.size)
    copy_bytes(target, source.size, value, 0, value.size)
    store_u8(target, source.size + value.size, 2)
    return piece

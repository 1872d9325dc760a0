cimport cython
from libc.stdint cimport int64_t
from flaremq.broker.ingest.columns cimport (
    BODY_AT, BODY_LENGTH, BORN, COLUMN_COUNT, FLAG, KEY_AT, KEY_LENGTH, KIND, LETTERS, MESSAGE_FLAG, MESSAGES, OPAQUE,
    PROPERTIES_AT, PROPERTIES_LENGTH, QUEUE_ID, QUEUE_OFFSET, RAW_LENGTH, RECORD_OFFSET, RUN_MESSAGES_MAX, SIGNATURE_AT, SIGNATURE_LENGTH, SYS_FLAG, TOPIC_AT,
    TOPIC_LENGTH,
)
from flaremq.core.memory cimport (
    Longs, View, bytes_view, copy_bytes, find_byte, load_i16, load_i32, load_u8, longs_of, same_bytes, store_i32, store_i64, store_u8, view_of,
    writable_longs_of, writable_view_of,
)
from flaremq.core.write cimport Head, bare_size, write_head
from flaremq.storage.log.append cimport BATCH_ITEM_BYTES, TopicEntry, count_batch, next_offset, write_batch_item
from flaremq.storage.log.log_end cimport LogEnd

cdef int64_t _KEY_MAX, _CODE, _BATCH_CODE, _STEERED, _BARE, _KEYED, _ONEWAY, _QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _ESCAPE, _NAME_END, _VALUE_END, _FRAME_MAX, _PROPERTIES_MAX, _NOTHING, _N_CODE, _N_FLAG, _N_OPAQUE, _N_VERSION, _N_EXT, _N_DELAY, _N_TRAN, _N_CLUSTER, _N_TRACE, _N_POP, _N_WAIT, _N_TRUE, _N_KEY, _N_TIMER, _N_INNER, _N_REGION, _N_FALSE, _N_ACCESS, _N_SIGNATURE

@cython.locals(value=int64_t, place=int64_t)
cdef int64_t _name(View view, int64_t at, int64_t length) noexcept nogil
@cython.locals(value=int64_t, place=int64_t, digit=int64_t)
cdef int64_t _number(View view, int64_t at, int64_t length) noexcept nogil
@cython.locals(byte=int64_t)
cdef int64_t _string_end(View view, int64_t at, int64_t end) noexcept nogil
cdef int64_t _hex(int64_t byte) noexcept nogil
@cython.locals(written=int64_t, byte=int64_t, high=int64_t, low=int64_t)
cdef int64_t _unescape(View view, int64_t at, int64_t end, View target, int64_t target_at, int64_t room, Longs cells, int64_t row) noexcept nogil
@cython.locals(end=int64_t, kind=int64_t, name_end=int64_t, value_end=int64_t, size=int64_t, value_size=int64_t, first=int64_t, place=int64_t)
cdef int64_t _kind_of(View view, int64_t at, int64_t length) noexcept nogil
@cython.locals(end=int64_t, stop=int64_t, place=int64_t, byte=int64_t)
cdef bint _note_key(View view, int64_t at, int64_t length, Longs cells, int64_t row) noexcept nogil
@cython.locals(number=int64_t)
cdef bint _take_field(View view, int64_t letter, int64_t at, int64_t length, Longs cells, int64_t row) noexcept nogil
cdef bint _take_proof(View view, int64_t name_at, int64_t at, int64_t length, Longs cells, int64_t row) noexcept nogil
cdef bint _is_whole(Longs cells, int64_t row) noexcept nogil
@cython.locals(length=int64_t)
cdef bint _is_like_first(View view, Longs cells, int64_t row) noexcept nogil
@cython.locals(properties=int64_t, has_code=bint, has_opaque=bint, name_end=int64_t, name_at=int64_t, size=int64_t, name=int64_t, first=int64_t, stop=int64_t, letter=int64_t, byte=int64_t, number=int64_t, proof_at=int64_t)
cdef int64_t _parse_json(View view, int64_t at, int64_t end, Longs cells, int64_t row, View scratch, int64_t scratch_at, int64_t room) noexcept nogil
@cython.locals(properties=int64_t, letter=int64_t, length=int64_t, byte=int64_t, place=int64_t, size=int64_t, name_at=int64_t)
cdef int64_t _parse_compact(View view, int64_t at, int64_t end, Longs cells, int64_t row, View scratch, int64_t scratch_at, int64_t room) noexcept nogil
@cython.locals(read=View, marks=View, notes=View, cells=Longs, at=int64_t, used=int64_t, count=int64_t, total=int64_t, length=int64_t, word=int64_t, kind=int64_t, header=int64_t, row=int64_t, column=int64_t, room=int64_t, header_at=int64_t, size=int64_t, body_length=int64_t, messages=int64_t, found=int64_t, is_batch=bint)
cpdef tuple parse_sends(object data, int64_t start, int64_t body_max, object stamp, object scratch, object table)
@cython.locals(read=View, notes=View, target=View, cells=Longs, places=Longs, done=int64_t, number=int64_t, row=int64_t, letter=int64_t, at=int64_t, length=int64_t, total=int64_t)
cpdef int64_t write_signed(object data, object scratch, object table, int64_t count, object out, object ends) except? -2
@cython.locals(
    read=View, notes=View, cells=Longs, head=Head, fixed=int64_t, total=int64_t, number=int64_t, row=int64_t, at=int64_t,
    now=int64_t, base=int64_t, queue_id=int64_t, queue_offset=int64_t, length=int64_t, text=int64_t, flag=int64_t,
    following=dict
)
cpdef append_sends(
    LogEnd log, TopicEntry entry, bytes born_host, bytes store_host, object data, object scratch, object table, int64_t count
)
@cython.locals(
    read=View, cells=Longs, offsets=Longs, head=Head, extra=int64_t, total=int64_t, done=int64_t, number=int64_t, row=int64_t,
    at=int64_t, now=int64_t, base=int64_t, queue_id=int64_t, queue_offset=int64_t, item=int64_t, place=int64_t, end=int64_t,
    following=dict
)
cpdef append_batches(
    LogEnd log, TopicEntry entry, bytes born_host, bytes store_host, object data, object table, int64_t count, object places
)
@cython.locals(
    cells=Longs, limits=Longs, found=Longs, number=int64_t, row=int64_t, following=int64_t, size=int64_t, bucket=int64_t,
    total=int64_t
)
cpdef int64_t count_sizes(object table, int64_t count, int64_t end, object bounds, object counts) except? -2
@cython.locals(digits=int64_t, rest=int64_t, place=int64_t)
cdef int64_t _write_number(View target, int64_t at, int64_t number) noexcept nogil
@cython.locals(digit=int64_t, place=int64_t)
cdef int64_t _write_hex(View target, int64_t at, int64_t number) noexcept nogil
cdef int64_t _write_text(View target, int64_t at, View text, int64_t start, int64_t end) noexcept nogil
@cython.locals(number=int64_t)
cdef int64_t _write_ids(View target, int64_t at, View host, Longs cells, int64_t row, Longs offsets, int64_t first) noexcept nogil
cdef int64_t _write_json_ack(View target, int64_t at, View text, Longs ends, View host, View notes, Longs cells, int64_t row, Longs offsets, int64_t first) noexcept nogil
@cython.locals(block=int64_t, end=int64_t)
cdef int64_t _write_compact_ack(View target, int64_t at, View text, Longs ends, View host, View notes, Longs cells, int64_t row, Longs offsets, int64_t first) noexcept nogil
@cython.locals(
    cells=Longs, target=View, store_host=View, offsets=Longs, text=View, text_ends=Longs, fields=View, field_ends=Longs, notes=View,
    messages=int64_t, room=int64_t, done=int64_t, number=int64_t, row=int64_t, first=int64_t, start=int64_t, place=int64_t
)
cpdef int64_t acks_bytes_max(int64_t count, int64_t messages, int64_t pieces, int64_t host) except? -2
cpdef int64_t encode_acks(
    object table, int64_t count, object scratch, object json, object json_ends, object compact, object compact_ends, object host,
    object places, object out
) except? -2

cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport View, bytes_view, load_i32, load_u8
from flaremq.grpc.http2.frames cimport (
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS,
    WINDOW_DEFAULT, WINDOW_MAX, WINDOW_UPDATE, WITH_PRIORITY,
)
from flaremq.grpc.http2.header_blocks cimport HeaderDecoder, RequestHeaders
from flaremq.grpc.http2.sender cimport Sender
from flaremq.grpc.http2.stream cimport Stream

cdef int64_t _REMEMBERED_MAX

cdef class ServerConnection:
    cdef object _listener, _limits, _block, _control_pace, _settings_pace, _reset_pace
    cdef HeaderDecoder _decoder
    cdef bytes _buffer
    cdef int64_t _preface_at, _block_stream, _block_flags, _continuations, _window, _owed
    cdef readonly dict _closed
    cdef list _unbegun
    cdef bint _was_told
    cdef readonly bint holds_back
    cdef readonly Sender sender
    cdef readonly dict streams
    cdef readonly int64_t last_stream
    cdef readonly bint is_over
    cdef readonly str failure
    @cython.locals(view=View, at=int64_t, end=int64_t, frame_max=int64_t, kind=int64_t, flags=int64_t, number=int64_t, length=int64_t, begin=int64_t)
    cdef _take_frames(self, bytes data, double now)
    cdef _take_headers(self, bytes payload, int64_t flags, int64_t number, double now)
    @cython.locals(begin=int64_t, end=int64_t)
    cdef bytes _strip(self, bytes payload, int64_t flags, int64_t number, double now)
    @cython.locals(headers=RequestHeaders, stream=Stream)
    cdef _take_block(self, bytes block, int64_t flags, int64_t number, double now)
    @cython.locals(size=int64_t, whole=int64_t, stream=Stream)
    cdef _take_data(self, bytes payload, int64_t flags, int64_t number, double now)
    @cython.locals(headers=RequestHeaders)
    cdef bint _begin(self, Stream stream) except -1
    cdef bint _answer(self, Stream stream, RequestHeaders headers, bytes data) except -1
    cpdef release(self, Stream stream)
    cpdef finish(self, Stream stream)
    cdef _remember(self, int64_t number, bint by_us)
    cpdef credit(self, int64_t size)

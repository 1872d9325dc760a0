cimport cython
from flaremq.core.memory cimport View, ascii_view, find_byte, piece_of

cdef bytes _KEYS_PIECE

@cython.freelist(64)
cdef class Message:
    cdef public object topic, body, tags, key_text, properties, flag, delay_level, wait_store_msg_ok
    @cython.locals(text=View)
    cpdef bytes encoded_properties(self)
    cdef bytes _encode_all(self)
    cdef bytes _encode_with_care(self)

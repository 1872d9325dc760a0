cdef class Message:
    cdef public object topic, body, tags, key_text, properties, flag, delay_level, wait_store_msg_ok
    cpdef bytes encoded_properties(self)
    cdef bytes _encode_all(self)
    cdef bytes _encode_with_care(self)

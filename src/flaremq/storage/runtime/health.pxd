cdef class Health:
    cdef object _lock
    cdef public object flags, on_fail_stop, poison, reasons, refusal
    cdef _work_out_refusal(self)

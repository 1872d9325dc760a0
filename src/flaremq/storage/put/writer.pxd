cimport cython
from libc.stdint cimport int64_t
from flaremq.core.memory cimport bytes_view, find_byte, whole_number
from flaremq.message.message cimport Message
from flaremq.storage.log.append cimport Placed, TopicEntry, append_record, is_storable
from flaremq.storage.log.log_end cimport LogEnd
from flaremq.storage.log.put_lock cimport PutLock
from flaremq.storage.put.put_result cimport PutResult, stored_result
from flaremq.storage.runtime.health cimport Health
from flaremq.storage.runtime.services cimport ServiceThread
from flaremq.storage.runtime.statistics cimport StoreStatistics

cdef int64_t _SAMPLED, _INT_MIN, _INT_MAX, _NO_NUMBER, _NOT_PLAIN, _PROPERTIES_MAX

cdef class MessageWriter:
    cdef object _after_append, _clock, _commit, _delay_levels, _rules
    cdef public double _busy_seconds
    cdef double _timeout
    cdef bint _crc
    cdef public bint fast_path, sync_mode
    cdef public LogEnd log
    cdef public ServiceThread dispatch_service
    cdef public Health health
    cdef public StoreStatistics statistics
    cdef public int64_t plain_size_max
    cdef public dict queue_offsets, topics
    cdef public bytes store_host

    @cython.locals(
        properties=bytes, entry=TopicEntry, queue=int64_t, flag=int64_t, log=LogEnd, lock=PutLock, placed=Placed, host=bytes,
        service=ServiceThread, statistics=StoreStatistics
    )
    cpdef PutResult put(
        self, Message message, object queue_id=*, object born_timestamp=*, object born_host=*,
        object reconsume_times=*, object sys_flag=*, object prepared_transaction_offset=*
    )
    @cython.locals(
        entry=TopicEntry, queue=int64_t, mark=int64_t, bits=int64_t, tries=int64_t, log=LogEnd, lock=PutLock, placed=Placed
    )
    cpdef append(
        self, str topic, object queue_id, bytes body, bytes properties, object flag, object sys_flag,
        object born_timestamp, bytes born_host, object reconsume_times
    )

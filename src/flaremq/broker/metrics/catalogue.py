"""Every metric of a broker: RocketMQ's names, labels and buckets, wrong units included, and ours behind them.

Where the unit in RocketMQ's name is wrong the sentence says so: dashboards ask for the name.
"""

from __future__ import annotations

from typing import Any, Final

from flaremq.broker.delay.timer_figures import DELAY_BOUNDS
from flaremq.broker.pop.figures import SCAN_BOUNDS
from flaremq.broker.statistics.latencies import MS_BOUNDS
from flaremq.broker.statistics.traffic import SIZE_BOUNDS
from flaremq.broker.store_loop.durability import GROUP_BOUNDS, SYNC_BOUNDS
from flaremq.broker.transactions.figures import FINISH_BOUNDS
from flaremq.metrics.family import Family, counter, gauge, histogram
from flaremq.metrics.loop_delay import BOUNDS as LOOP_BOUNDS

_MS, _S, _BYTES = "milliseconds", "seconds", "bytes"
CREATE_BOUNDS: Final = (10, 100, 1_000, 3_000, 5_000)
_STATS: Final[Any] = {"switch": "enableStatsMetrics"}
_REQUEST: Final[Any] = {"switch": "enableRequestMetrics"}
_LAG: Final[Any] = {"switch": "enableLagAndDlqMetrics"}
_POP: Final[Any] = {"switch": "enablePopMetrics"}
_TRANSACTION: Final[Any] = {"switch": "enableTransactionMetrics"}
_CONNECTION: Final[Any] = {"switch": "enableConnectionMetrics"}
_STORE: Final[Any] = {
    "switch": "enableMessageStoreMetrics",
    "constant": (("storage_medium", "disk"), ("storage_type", "local")),
}
_PAIR: Final = "consumer_group is_retry is_system topic"

# The broker as a whole
PROCESSOR_WATERMARK = gauge(
    "rocketmq_processor_watermark", "Requests of a family that wait for their turn.", "processor", **_STATS
)
BROKER_PERMISSION = gauge("rocketmq_broker_permission", "6: read and write, 4: read, 2: write.", **_STATS)
TOPIC_NUMBER = gauge("rocketmq_topic_number", "Topics, system topics included.", **_STATS)
GROUP_NUMBER = gauge("rocketmq_consumer_group_number", "Consumer groups, system groups included.", **_STATS)

# Messages
_KIND: Final = "is_system message_type topic"
MESSAGES_IN = counter("rocketmq_messages_in", "Messages that producers have stored.", _KIND, **_REQUEST)
THROUGHPUT_IN = counter("rocketmq_throughput_in", "Bytes of their records.", _KIND, **_REQUEST)
MESSAGE_SIZE = histogram(
    "rocketmq_message_size", "Bytes of a record; of a batch the mean.", _KIND, bounds=tuple(SIZE_BOUNDS), **_REQUEST
)
MESSAGES_OUT = counter("rocketmq_messages_out", "Messages given to groups.", _PAIR, **_REQUEST)
THROUGHPUT_OUT = counter("rocketmq_throughput_out", "Bytes of their records.", _PAIR, **_REQUEST)
TOPIC_CREATE_TIME = histogram(
    "rocketmq_topic_create_execution_time",
    "What creating or changing topics took.",
    "invocation_status is_system",
    unit=_MS,
    bounds=CREATE_BOUNDS,
    **_REQUEST,
)
GROUP_CREATE_TIME = histogram(
    "rocketmq_consumer_group_create_execution_time",
    "What creating or changing a group took.",
    "invocation_status",
    unit=_MS,
    bounds=CREATE_BOUNDS,
    **_REQUEST,
)
RPC_LATENCY = histogram(
    "rocketmq_rpc_latency",
    "From the arrival of a request to its answer; is_long_polling: it waited for messages.",
    "is_long_polling protocol_type request_code response_code result",
    unit=_MS,
    bounds=MS_BOUNDS,
    switch="enableRemotingMetrics",
)

# Clients
PRODUCER_CONNECTIONS = gauge(
    "rocketmq_producer_connections",
    "Registered producers: pairs of group and connection.",
    "language protocol_type version",
    **_CONNECTION,
)
CONSUMER_CONNECTIONS = gauge(
    "rocketmq_consumer_connections",
    "Registered consumers.",
    "consume_mode consumer_group is_system language protocol_type version",
    **_CONNECTION,
)
CONSUMER_LAG = gauge("rocketmq_consumer_lag_messages", "Messages that are not committed.", _PAIR, **_LAG)
CONSUMER_LAG_LATENCY = gauge(
    "rocketmq_consumer_lag_latency", "Age of the first of them; 0 if there is none.", _PAIR, unit=_MS, **_LAG
)
CONSUMER_INFLIGHT = gauge("rocketmq_consumer_inflight_messages", "Given out and not committed.", _PAIR, **_LAG)
CONSUMER_QUEUEING_LATENCY = gauge(
    "rocketmq_consumer_queueing_latency",
    "Age of the first message that was not given out; 0 if there is none.",
    _PAIR,
    unit=_MS,
    **_LAG,
)
CONSUMER_READY = gauge("rocketmq_consumer_ready_messages", "Not given out yet.", _PAIR, **_LAG)
SEND_TO_DLQ = counter(
    "rocketmq_send_to_dlq_messages",
    "Dead letters, by the topic they came from.",
    "consumer_group is_system topic",
    **_LAG,
)

# Transactions
COMMIT_MESSAGES = counter("rocketmq_commit_messages", "Transactions committed.", "topic", **_TRANSACTION)
ROLLBACK_MESSAGES = counter("rocketmq_rollback_messages", "Transactions rolled back.", "topic", **_TRANSACTION)
HALF_MESSAGES = gauge("rocketmq_half_messages", "Transactions that are open.", "topic", **_TRANSACTION)
FINISH_LATENCY = histogram(
    "rocketmq_finish_message_latency",
    "From making a message to its commit, in whole seconds: the unit in RocketMQ's name is wrong.",
    "topic",
    unit=_MS,
    bounds=FINISH_BOUNDS,
    **_TRANSACTION,
)
FINISH_LATENCY_SECONDS = histogram(
    "rocketmq_finish_message_latency_seconds",
    "The same under the right unit.",
    "topic",
    bounds=FINISH_BOUNDS,
    **_TRANSACTION,
)

# The store
STORAGE_SIZE = gauge(
    "rocketmq_storage_size", "Used bytes of the file system that holds the store.", unit=_BYTES, **_STORE
)
FLUSH_BEHIND = gauge("rocketmq_storage_flush_behind", "Appended, not yet on disk.", unit=_BYTES, **_STORE)
DISPATCH_BEHIND = gauge("rocketmq_storage_dispatch_behind", "Appended, not yet shown.", unit=_BYTES, **_STORE)
RESERVE_TIME = gauge("rocketmq_storage_message_reserve_time", "Age of the oldest message.", unit=_MS, **_STORE)
TIMER_ENQUEUE_LAG = gauge("rocketmq_timer_enqueue_lag", "Timed messages that are not noted yet.", **_STORE)
TIMER_ENQUEUE_LATENCY = gauge("rocketmq_timer_enqueue_latency", "Age of the first of them.", unit=_MS, **_STORE)
TIMER_DEQUEUE_LAG = gauge("rocketmq_timer_dequeue_lag", "Timed messages that are noted, not delivered.", **_STORE)
TIMER_DEQUEUE_LATENCY = gauge(
    "rocketmq_timer_dequeue_latency", "How long the first of them has been due.", unit=_MS, **_STORE
)
TIMING_MESSAGES = gauge("rocketmq_timing_messages", "Timed messages that wait.", "topic", **_STORE)
TIMER_ENQUEUE = counter("rocketmq_timer_enqueue", "Timed messages noted.", "topic", **_STORE)
TIMER_DEQUEUE = counter("rocketmq_timer_dequeue", "Timed messages delivered.", "topic", **_STORE)
TIMER_SNAPSHOT = gauge(
    "rocketmq_timer_message_snapshot",
    "Waiting messages that are due between the bound before and this one, in seconds from now.",
    "timer_bound_s",
    **_STORE,
)
DELAY_LATENCY = histogram(
    "rocketmq_delay_message_latency",
    "For how long timed messages were to wait.",
    "topic",
    unit=_S,
    bounds=DELAY_BOUNDS,
    **_STORE,
)

# POP
POP_SCAN_TIME = histogram(
    "rocketmq_pop_buffer_scan_time_consume",
    "What a look at all that is handed out took.",
    unit=_MS,
    bounds=SCAN_BOUNDS,
    **_POP,
)
POP_REVIVE_IN = counter(
    "rocketmq_pop_revive_in_message",
    "Check points and acknowledgements written to the revive topic.",
    "consumer_group put_status revive_message_type topic",
    **_POP,
)
POP_REVIVE_OUT = counter(
    "rocketmq_pop_revive_out_message",
    "Read from it: at start, and what others have written. RocketMQ reads all it wrote, several times.",
    "consumer_group queue_id revive_message_type topic",
    **_POP,
)
POP_REVIVE_RETRY = counter(
    "rocketmq_pop_revive_retry_messages",
    "Messages given again, because nobody acknowledged them in time.",
    "consumer_group put_status topic",
    **_POP,
)
POP_OFFSET_BUFFER = gauge("rocketmq_pop_offset_buffer_size", "Check points that an offset waits for.", **_POP)
POP_CHECKPOINT_BUFFER = gauge("rocketmq_pop_checkpoint_buffer_size", "Check points that are open.", **_POP)
POP_REVIVE_LAG = gauge(
    "rocketmq_pop_revive_lag",
    "Records of the revive topic from the first open one on: the unit in RocketMQ's name is wrong.",
    "queue_id",
    unit=_MS,
    **_POP,
)
POP_REVIVE_LATENCY = gauge(
    "rocketmq_pop_revive_latency", "How long the first open one is overdue.", "queue_id", unit=_MS, **_POP
)

# Ours
SYNC_LATENCY = histogram("flaremq_sync_latency_seconds", "What syncs of the log took (SYNC_FLUSH).", bounds=SYNC_BOUNDS)
PUT_LATENCY = histogram(
    "flaremq_put_latency_seconds",
    "From the log to the acknowledgement, where disk or slaves are waited for.",
    bounds=SYNC_BOUNDS,
)
GROUP_COMMIT = histogram("flaremq_group_commit_messages", "Messages that one sync acknowledged.", bounds=GROUP_BOUNDS)
DISPATCH_LAG = gauge("flaremq_dispatch_lag_bytes", "Appended, not yet shown to consumers.")
RECOVERY_SECONDS = gauge("flaremq_recovery_seconds", "What opening the store took.")
RECOVERY_RECORDS = gauge(
    "flaremq_recovery_records",
    "What recovery found: checked_bytes and truncated_bytes in bytes, set_aside in ranges of the log.",
    "found",
)
DAMAGED_RECORDS = gauge("flaremq_damaged_records", "Ranges of the log that cannot be read and were stepped over.")
SET_ASIDE_RECORDS = gauge(
    "flaremq_set_aside_records", "Delayed and timed messages that could not be delivered and are dead letters."
)
LOOP_DELAY = histogram("flaremq_event_loop_delay_seconds", "How late the event loop is.", bounds=LOOP_BOUNDS)
REQUESTS = counter("flaremq_requests", "Sends taken by compiled code or by plain code.", "path")
DISK_USED = gauge("flaremq_disk_used_ratio", "Used share of the fullest disk of the store.")
DISK_FULL_DAYS = gauge(
    "flaremq_disk_full_days", "Days until that disk is full, as it grew in the last hours; +Inf: it does not grow."
)
LOG_FILES = gauge("flaremq_log_files", "Files of the log.")
OLDEST_FILE = gauge("flaremq_oldest_file_seconds", "Age of the newest record in the oldest file of the log.")
RETENTION = gauge("flaremq_retention_seconds", "Age at which a file is deleted (fileReservedTime).")
DELETED_FILES = counter("flaremq_deleted_files", "Files of the log deleted.")
CLEANING_FAILURES = counter("flaremq_cleaning_failures", "Rounds of deletion that ended early.")
REFUSED_REQUESTS = counter(
    "flaremq_refused_requests",
    "Requests that were answered with an error, by RocketMQ's name of the code; connections that were not let in.",
    "reason",
)
REPLICATION_LAG = gauge(
    "flaremq_replication_lag_bytes", "What a slave does not have yet; its brokerId, else its address.", "slave"
)
REPLICATION_EPOCH = gauge("flaremq_replication_epoch", "Epoch of the master under a controller, else 0.")
REPLICAS_IN_SYNC = gauge("flaremq_replicas_in_sync", "Copies that are not too far behind, the master's included.")
BROKER_WRITABLE = gauge("flaremq_broker_writable", "1: messages are taken.")
BROKER_READY = gauge("flaremq_broker_ready", "1: /readyz says so.")
CERTIFICATE_EXPIRY = gauge("flaremq_certificate_expiry_seconds", "Until the certificate of this broker expires.")
NAME_SERVERS = gauge("flaremq_name_servers_connected", "Name servers that know this broker.")
BUILD_INFO = gauge("flaremq_build_info", "Always 1; the version, and whether the core is compiled.", "core version")

LAG_FAMILIES: Final = (CONSUMER_LAG, CONSUMER_LAG_LATENCY, CONSUMER_INFLIGHT, CONSUMER_QUEUEING_LATENCY, CONSUMER_READY)
CATALOGUE: Final[tuple[Family, ...]] = tuple(
    sorted({*(found for found in list(globals().values()) if isinstance(found, Family))}, key=lambda one: one.name)
)

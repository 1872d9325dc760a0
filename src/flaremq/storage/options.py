"""What can be set about a store: :class:`StoreOptions`, one row an option.

Names and defaults are RocketMQ's, with few exceptions: ``flushDiskType`` is ``SYNC_FLUSH`` here, so an
acknowledged message is on disk unless the user says otherwise, and a SYNC_MASTER waits for a slave. A
``broker.conf`` is one file for all layers of a broker; the names that other layers own are accepted in silence,
names without an effect are kept in :attr:`StoreOptions.warnings`, and a name that nobody knows is refused
(:mod:`flaremq.storage.option_names` holds the lists).

A store is defined by its sizes: opening one with another ``mappedFileSize…``, ``maxHashSlotNum`` or
``maxIndexNum`` than it was written with cannot work, because RocketMQ keeps none of them in the files.

Long on purpose: all rows stand in one table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flaremq.errors import InvalidArgumentError
from flaremq.options import (
    AT_START,
    FILES,
    IDENTITY,
    JAVA_INT_MAX,
    PATH,
    STORED,
    UnknownName,
    check_values,
    find_unknown_names,
    idle_warnings,
    load_properties,
    option,
    properties_of,
    rows_by_key,
    value_text,
    values_from_properties,
)
from flaremq.storage.files import layout
from flaremq.storage.option_names import IGNORED_BY_ROCKETMQ, NOT_IMPLEMENTED, OTHER_LAYERS, OTHER_LAYERS_OWN

_REPLICA_PROMISES = (
    "brokerRole", "inSyncReplicas", "minInSyncReplicas", "totalReplicas", "enableAutoInSyncReplicas",
    "allAckInSyncStateSet", "enableDLegerCommitLog",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Options of one store. Immutable; ``dataclasses.replace`` makes a changed, checked copy."""

    # A row reads as a row, its name and bounds, then its sentence; the formatter would give each word a line.
    # fmt: off

    # --- where the files are and how large ------------------------------------------------------------------
    store_path_root_dir: str = option(
        "", rocketmq="storePathRootDir", affects="behaviour", fixed=PATH,
        doc="Root folder of the store; empty means `store` in the home folder. A path given to `open` wins.")
    store_path_commit_log: str = option(
        "", rocketmq="storePathCommitLog", affects="behaviour", fixed=PATH,
        doc="Folder of the commit log, or several joined by `,`; empty means `commitlog` below the root.")
    read_only_commit_log_store_paths: str = option(
        "", rocketmq="readOnlyCommitLogStorePaths", affects="behaviour", fixed=PATH,
        doc="Those of the commit-log folders, joined by `,`, in which no new file is made.")
    mapped_file_size_commit_log: int = option(
        1_073_741_824, rocketmq="mappedFileSizeCommitLog", affects="behaviour", fixed=FILES, minimum=128,
        doc="Bytes of one commit-log file; a record that does not fit into one is refused.")
    mapped_file_size_consume_queue: int = option(
        6_000_000, rocketmq="mappedFileSizeConsumeQueue", affects="behaviour", fixed=FILES, minimum=20,
        doc="Bytes (not entries) of one consume-queue file, rounded up to a multiple of 20.")
    enable_consume_queue_ext: bool = option(
        False, rocketmq="enableConsumeQueueExt", affects="behaviour", fixed=FILES,
        doc="Keep filter bitmaps beside the consume queue.",
        unused="ext files are read wherever they exist and never written.")
    mapped_file_size_consume_queue_ext: int = option(
        50_331_648, rocketmq="mappedFileSizeConsumeQueueExt", affects="behaviour", fixed=FILES, minimum=64,
        doc="Bytes of one consume-queue extension file.")
    bit_map_length_consume_queue_ext: int = option(
        64, rocketmq="bitMapLengthConsumeQueueExt", affects="behaviour", fixed=FILES,
        doc="Bits of one filter bitmap; a RocketMQ broker replaces it by the size of its filter, 112.",
        unused="ext files are read wherever they exist and never written.")
    mapper_file_size_batch_consume_queue: int = option(
        13_800_000, rocketmq="mapperFileSizeBatchConsumeQueue", affects="behaviour", fixed=FILES, minimum=46,
        doc="Bytes of one batch consume-queue file; not rounded.")
    max_hash_slot_num: int = option(
        5_000_000, rocketmq="maxHashSlotNum", affects="behaviour", fixed=FILES, minimum=1,
        doc="Hash slots of one index file; not stored in the file, so it must be "
        "what the store was written with.")
    max_index_num: int = option(
        20_000_000, rocketmq="maxIndexNum", affects="behaviour", fixed=FILES, minimum=2,
        doc="Entries of one index file, the unused entry 0 included; not stored in the file either.")

    # --- who we are -----------------------------------------------------------------------------------------
    broker_role: str = option(
        "ASYNC_MASTER", rocketmq="brokerRole", affects="behaviour", fixed=IDENTITY,
        choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        doc="Part this broker plays in replication: ASYNC_MASTER answers sends without waiting for slaves, SYNC_MASTER "
        "when slaves have them too, SLAVE copies a master and takes no sends. A store that is opened without a broker "
        "has no slaves: SYNC_MASTER is refused there.")
    broker_ip1: str = option(
        "127.0.0.1", rocketmq="brokerIP1", affects="behaviour", fixed=IDENTITY,
        form="an IPv4 or IPv6 address, not a host name",
        doc="Address written into every record as its store host, and so into message ids.")
    listen_port: int = option(
        10911, rocketmq="listenPort", affects="behaviour", fixed=IDENTITY, maximum=65535,
        doc="Port written into every record as its store host's.")

    # --- messages -------------------------------------------------------------------------------------------
    max_message_size: int = option(
        4_194_304, rocketmq="maxMessageSize", affects="behaviour", live=True, minimum=1,
        doc="Largest body in bytes; topic and properties come on top. A batch takes no more in all.")
    auto_message_version_on_topic_len: bool = option(
        True, rocketmq="autoMessageVersionOnTopicLen", affects="behaviour", fixed=STORED,
        doc="Write a record in form V2 if, and only if, its topic does not fit into the 127 bytes of V1.")
    message_delay_level: str = option(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", rocketmq="messageDelayLevel",
        affects="behaviour", fixed=STORED, pattern=r"\s*\d{1,9}[smhd](\s+\d{1,9}[smhd])*\s*",
        form="delays such as 1s 5s 1m 2h 1d, separated by blanks",
        doc="Delay of level 1, 2, … of delayed messages.")
    os_page_cache_busy_time_out_mills: int = option(
        1_000, rocketmq="osPageCacheBusyTimeOutMills", affects="behaviour", live=True,
        doc="A put is answered OS_PAGE_CACHE_BUSY when the append lock has been "
        "held for this many milliseconds.")
    duplication_enable: bool = option(
        False, rocketmq="duplicationEnable", affects="behaviour", fixed=STORED,
        doc="Recover only up to the confirmed offset of a duplicated log.",
        unused="the log is not duplicated.")

    # --- reading --------------------------------------------------------------------------------------------
    max_transfer_bytes_on_message_in_memory: int = option(
        262_144, rocketmq="maxTransferBytesOnMessageInMemory", affects="behaviour", live=True,
        doc="A get ends before this many bytes while it reads recent messages; one message always passes.")
    max_transfer_count_on_message_in_memory: int = option(
        32, rocketmq="maxTransferCountOnMessageInMemory", affects="behaviour", live=True, minimum=1,
        doc="A get returns at most this many recent messages.")
    max_transfer_bytes_on_message_in_disk: int = option(
        65_536, rocketmq="maxTransferBytesOnMessageInDisk", affects="behaviour", live=True,
        doc="A get ends before this many bytes while it reads messages too old to be in memory.")
    max_transfer_count_on_message_in_disk: int = option(
        8, rocketmq="maxTransferCountOnMessageInDisk", affects="behaviour", live=True, minimum=1,
        doc="A get returns at most this many messages too old to be in memory.")
    access_message_in_memory_max_ratio: int = option(
        40, rocketmq="accessMessageInMemoryMaxRatio", affects="behaviour", live=True, maximum=100,
        doc="Percent of physical memory: messages further from the log's end count as on disk.")
    max_filter_message_size: int = option(
        16_000, rocketmq="maxFilterMessageSize", affects="behaviour", live=True, minimum=20, maximum=16_000_000,
        doc="Bytes of queue entries one get examines at most, or 20 for each "
        "message asked for if that is more.")
    travel_cq_file_num_when_get_message: int = option(
        1, rocketmq="travelCqFileNumWhenGetMessage", affects="behaviour", live=True, minimum=1, maximum=100,
        doc="Queue files one get walks through at most while it has found nothing.")
    max_msgs_num_batch: int = option(
        64, rocketmq="maxMsgsNumBatch", affects="behaviour", live=True, minimum=1, maximum=10_000,
        doc="Messages one query by key returns at most.")
    default_query_max_num: int = option(
        32, rocketmq="defaultQueryMaxNum", affects="behaviour", live=True, minimum=1, maximum=10_000,
        doc="Messages a broker returns at most for a query by unique key.")
    offset_check_in_slave: bool = option(
        False, rocketmq="offsetCheckInSlave", affects="behaviour", live=True,
        doc="Let a slave correct a consumer's offset that lies outside the queue.")
    read_un_committed: bool = option(
        False, rocketmq="readUnCommitted", affects="durability", live=True,
        doc="With SYNC_FLUSH, let consumers see messages before they are on disk; a "
        "power cut can then take them back.")
    message_index_enable: bool = option(
        True, rocketmq="messageIndexEnable", affects="behaviour", fixed=STORED,
        doc="Index messages by their keys; without it queries by key find nothing.")
    message_index_safe: bool = option(
        False, rocketmq="messageIndexSafe", affects="durability", live=True,
        doc="Let RocketMQ's recovery start no later than the key index is known to be on disk.",
        unused="our recovery always does, by offsets of its own.")

    # --- deleting old files ---------------------------------------------------------------------------------
    delete_when: str = option(
        "04", rocketmq="deleteWhen", affects="behaviour", live=True,
        pattern=r"\s*([01]?\d|2[0-3])\s*(;\s*([01]?\d|2[0-3])\s*)*;?\s*",
        form="hours from 00 to 23, joined by ;",
        doc="Local hours in which expired files are deleted even if there is space.")
    file_reserved_time: int = option(
        72, rocketmq="fileReservedTime", affects="behaviour", live=True,
        doc="Hours after its last message at which a commit-log file is expired.")
    delete_file_batch_max: int = option(
        10, rocketmq="deleteFileBatchMax", affects="behaviour", live=True, minimum=1,
        doc="Commit-log files deleted in one round at most.")
    disk_max_used_space_ratio: int = option(
        75, rocketmq="diskMaxUsedSpaceRatio", affects="behaviour", live=True, minimum=10, maximum=95,
        doc="Percent of the partition in use above which expired files are deleted at any hour.")
    disk_space_clean_forcibly_ratio: int = option(
        85, rocketmq="diskSpaceCleanForciblyRatio", affects="behaviour", live=True, minimum=30, maximum=99,
        doc="Percent in use above which files are deleted before they expire; "
        "RocketMQ takes more than 85 as 85.")
    disk_space_warning_level_ratio: int = option(
        90, rocketmq="diskSpaceWarningLevelRatio", affects="behaviour", live=True, minimum=35, maximum=99,
        doc="Percent in use above which puts are refused, until diskSpaceCleanForciblyRatio is reached again; "
        "RocketMQ takes more than 90 as 90.")
    clean_file_forcibly_enable: bool = option(
        True, rocketmq="cleanFileForciblyEnable", affects="behaviour", live=True,
        doc="Allow files to be deleted before they expire when the disk is nearly full; false keeps them.")
    clean_resource_interval: int = option(
        10_000, rocketmq="cleanResourceInterval", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds between two rounds of cleaning.")
    delete_commit_log_files_interval: int = option(
        100, rocketmq="deleteCommitLogFilesInterval", affects="speed", live=True,
        doc="Pause in milliseconds between two deleted commit-log files.")
    delete_consume_queue_files_interval: int = option(
        100, rocketmq="deleteConsumeQueueFilesInterval", affects="speed", live=True,
        doc="Pause in milliseconds after a queue in which files were deleted.")
    destroy_maped_file_interval_forcibly: int = option(
        120_000, rocketmq="destroyMapedFileIntervalForcibly", affects="behaviour", live=True,
        doc="Milliseconds after which RocketMQ unmaps a deleted file under its readers.",
        unused="a file is never unmapped under a reader.")
    redelete_hanged_file_interval: int = option(
        120_000, rocketmq="redeleteHangedFileInterval", affects="behaviour", live=True,
        doc="Milliseconds after which RocketMQ tries again to delete a file that readers held.",
        unused="every cleaning round tries again.")

    # --- durability -----------------------------------------------------------------------------------------
    flush_disk_type: str = option(
        "SYNC_FLUSH", rocketmq="flushDiskType", affects="durability", live=True, choices=("SYNC_FLUSH", "ASYNC_FLUSH"),
        doc="SYNC_FLUSH: a put is answered when its record is on disk. ASYNC_FLUSH: earlier; a power cut "
        "loses the last moments. RocketMQ's default is ASYNC_FLUSH.")
    sync_flush_timeout: int = option(
        5_000, rocketmq="syncFlushTimeout", affects="durability", live=True, minimum=1,
        doc="Milliseconds a put waits for the sync of another thread before FLUSH_DISK_TIMEOUT.")
    flush_interval_commit_log: int = option(
        500, rocketmq="flushIntervalCommitLog", affects="durability", live=True, minimum=1,
        doc="With ASYNC_FLUSH, milliseconds between two syncs of the log.")
    flush_commit_log_timed: bool = option(
        True, rocketmq="flushCommitLogTimed", affects="durability", live=True,
        doc="With ASYNC_FLUSH, keep to the interval; false also lets a put wake the flush.",
        unused="the flush thread always waits for its interval.")
    flush_commit_log_least_pages: int = option(
        4, rocketmq="flushCommitLogLeastPages", affects="durability", live=True,
        doc="With ASYNC_FLUSH, a sync waits until this many 4 KiB pages are unwritten; 0 always syncs.")
    flush_commit_log_thorough_interval: int = option(
        10_000, rocketmq="flushCommitLogThoroughInterval", affects="durability", live=True, minimum=1,
        doc="With ASYNC_FLUSH, milliseconds after which a sync no longer waits for pages.")
    flush_interval_consume_queue: int = option(
        1_000, rocketmq="flushIntervalConsumeQueue", affects="durability", live=True, minimum=1,
        doc="Milliseconds between two looks whether queues and index are due to be made durable.")
    flush_consume_queue_least_pages: int = option(
        2, rocketmq="flushConsumeQueueLeastPages", affects="durability", live=True,
        doc="A queue is synced when this many 4 KiB pages of it are unwritten; 0 always syncs.",
        unused="queues become durable together, at each checkpoint.")
    flush_consume_queue_thorough_interval: int = option(
        60_000, rocketmq="flushConsumeQueueThoroughInterval", affects="durability", live=True, minimum=1,
        doc="Milliseconds after which all queues are synced whatever they hold, and "
        "the checkpoint is written.")
    flush_delay_offset_interval: int = option(
        10_000, rocketmq="flushDelayOffsetInterval", affects="durability", live=True, minimum=1,
        doc="Milliseconds between two writes of the delivery progress of delayed messages.",
        unused="delivery of delayed messages is not part of the store.")
    check_crc_on_recover: bool = option(
        True, rocketmq="checkCRCOnRecover", affects="durability", live=True,
        doc="Compare every body with its checksum during recovery.",
        unused="recovery always checks.")
    enabled_append_prop_crc: bool = option(
        False, rocketmq="enabledAppendPropCRC", affects="durability", fixed=STORED,
        doc="Add a checksum of the whole record to its properties; 20 bytes a message.")
    force_verify_prop_crc: bool = option(
        False, rocketmq="forceVerifyPropCRC", affects="durability", fixed=STORED,
        doc="Let recovery take a record without that checksum as damage; needs `enabledAppendPropCRC`.",
        unused="the checksum is checked wherever a record has one, and none is asked of others.")
    offset_checkpoint_bytes: int = option(
        268_435_456, flaremq="offsetCheckpointBytes", affects="durability", live=True, minimum=4_096, maximum=2**40,
        doc="Log bytes after which queues and index are synced and the start of the next recovery moves up.")

    # --- replication ----------------------------------------------------------------------------------------
    ha_listen_port: int = option(
        0, rocketmq="haListenPort", affects="behaviour", fixed=IDENTITY, maximum=65535,
        doc="Port at which slaves fetch the log; 0 is the port after `listenPort`.")
    ha_master_address: str = option(
        "", rocketmq="haMasterAddress", affects="behaviour", fixed=PATH,
        doc="Address, `host:port`, from which a slave fetches the log; empty asks the name server.")
    ha_send_heartbeat_interval: int = option(
        5_000, rocketmq="haSendHeartbeatInterval", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds of silence after which either side reports.")
    ha_housekeeping_interval: int = option(
        20_000, rocketmq="haHousekeepingInterval", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds of silence after which a connection is closed.")
    ha_transfer_batch_size: int = option(
        1_048_576, rocketmq="haTransferBatchSize", affects="speed", live=True, minimum=1, maximum=4_194_303,
        doc="Log bytes in one frame to a slave at most. RocketMQ's default is 32768; its slaves take 4 MiB.")
    ha_slave_fallbehind_max: int = option(
        268_435_456, rocketmq="haSlaveFallbehindMax", affects="durability", live=True,
        doc="Bytes behind a record at which no slave is waited for: the send is answered SLAVE_NOT_AVAILABLE at once. "
        "Without `inSyncReplicas` only.")
    ha_max_gap_not_in_sync: int = option(
        268_435_456, rocketmq="haMaxGapNotInSync", affects="durability", live=True,
        doc="Bytes behind the master at which a slave does not count as in sync.")
    ha_max_time_slave_not_catchup: int = option(
        15_000, rocketmq="haMaxTimeSlaveNotCatchup", affects="durability", live=True, minimum=100,
        doc="Under a controller: milliseconds that a broker may be behind before sends no longer wait for it, and it "
        "cannot be elected.")
    async_learner: bool = option(
        False, rocketmq="asyncLearner", affects="durability", fixed=AT_START,
        doc="Under a controller: follow the master without ever being in sync, so that no send waits for this copy and "
        "it is not elected.")
    sync_from_last_file: bool = option(
        False, rocketmq="syncFromLastFile", affects="durability", fixed=AT_START,
        doc="Under a controller: a broker without a log fetches the master's last log file and what follows, not the "
        "whole log.")
    ha_flow_control_enable: bool = option(
        False, rocketmq="haFlowControlEnable", affects="speed", live=True,
        doc="Send no slave more than `maxHaTransferByteInSecond`.")
    max_ha_transfer_byte_in_second: int = option(
        104_857_600, rocketmq="maxHaTransferByteInSecond", affects="speed", live=True, minimum=1, maximum=2**40,
        doc="Log bytes a second that one slave gets with `haFlowControlEnable`.")
    slave_timeout: int = option(
        3_000, rocketmq="slaveTimeout", affects="durability", live=True, minimum=1,
        doc="Milliseconds a put waits for slaves before it is answered FLUSH_SLAVE_TIMEOUT.")
    in_sync_replicas: int = option(
        0, rocketmq="inSyncReplicas", affects="durability", fixed=AT_START,
        doc="Copies, the master's included, that a send to a SYNC_MASTER waits for. 0 leaves it at RocketMQ 4.9's "
        "rule: any one slave. RocketMQ 5's default is 1, with which a SYNC_MASTER waits for nobody.")
    min_in_sync_replicas: int = option(
        1, rocketmq="minInSyncReplicas", affects="durability", fixed=AT_START, minimum=1,
        doc="Copies that must be in sync, the master's included, or sends are refused before anything is stored. Needs "
        "`enableAutoInSyncReplicas` or a controller.")
    total_replicas: int = option(
        1, rocketmq="totalReplicas", affects="durability", fixed=AT_START, minimum=1,
        doc="Copies there are meant to be, the master's included.",
        unused="the slaves that are connected are counted.")
    enable_auto_in_sync_replicas: bool = option(
        False, rocketmq="enableAutoInSyncReplicas", affects="durability", fixed=AT_START,
        doc="When fewer copies are in sync than `inSyncReplicas`, wait for those, but for no fewer than "
        "`minInSyncReplicas`.")
    all_ack_in_sync_state_set: bool = option(
        False, rocketmq="allAckInSyncStateSet", affects="durability", fixed=AT_START,
        doc="Wait for every slave that the controller counts as in sync.",
        unused="under a controller that is always so: any of them may become the master.")
    enable_d_leger_commit_log: bool = option(
        False, rocketmq="enableDLegerCommitLog", affects="durability", fixed=AT_START,
        doc="Keep the log by consensus. Only false is accepted where messages are stored.")

    # --- speed ----------------------------------------------------------------------------------------------
    reserve_step_commit_log: int = option(
        67_108_864, flaremq="reserveStepCommitLog", affects="speed", fixed=AT_START, maximum=2**40,
        doc="Bytes of disk reserved ahead of the log's end; a full disk shows "
        "there, not in the middle of a record.")
    reserve_step_index: int = option(
        16_777_216, flaremq="reserveStepIndex", affects="speed", fixed=AT_START, maximum=2**40,
        doc="Bytes of disk reserved ahead of the last entry of the key index.")
    data_read_ahead_enable: bool = option(
        True, rocketmq="dataReadAheadEnable", affects="speed", fixed=AT_START,
        doc="Let the system read ahead in log files; false advises random access.")
    warm_maped_file_enable: bool = option(
        False, rocketmq="warmMapedFileEnable", affects="speed", fixed=AT_START,
        doc="Take the space of a new log file, touch every page and lock it in memory before the file is used.")
    flush_least_pages_when_warm_maped_file: int = option(
        4_096, rocketmq="flushLeastPagesWhenWarmMapedFile", affects="speed", fixed=AT_START, minimum=1,
        doc="With SYNC_FLUSH, warming syncs each time this many 4 KiB pages are touched.")
    use_reentrant_lock_when_put_message: bool = option(
        True, rocketmq="useReentrantLockWhenPutMessage", affects="speed", live=True,
        doc="Guard appends by a mutex instead of a spin lock.", unused="there is one kind of lock, a mutex.")
    transient_store_pool_enable: bool = option(
        False, rocketmq="transientStorePoolEnable", affects="durability", fixed=AT_START,
        doc="Append to memory of its own first; a killed process then loses acknowledged messages.")
    transient_store_pool_size: int = option(
        5, rocketmq="transientStorePoolSize", affects="speed", fixed=AT_START, minimum=1,
        doc="Buffers in that pool, each of the size of a log file and locked in memory.")
    fast_fail_if_no_buffer_in_store_pool: bool = option(
        False, rocketmq="fastFailIfNoBufferInStorePool", affects="behaviour", live=True,
        doc="Refuse a put at once when the pool is empty.",
        unused="an empty pool falls back to the mapped file.")
    commit_interval_commit_log: int = option(
        200, rocketmq="commitIntervalCommitLog", affects="durability", live=True, minimum=1,
        doc="Milliseconds between two copies from the pool to the file.")
    commit_commit_log_least_pages: int = option(
        4, rocketmq="commitCommitLogLeastPages", affects="durability", live=True,
        doc="Pages in the pool that such a copy waits for.",
        unused="every round copies everything.")
    commit_commit_log_thorough_interval: int = option(
        200, rocketmq="commitCommitLogThoroughInterval", affects="durability", live=True, minimum=1,
        doc="Milliseconds after which it no longer waits for pages.",
        unused="every round copies everything.")

    # fmt: on

    # Names that were loaded but change nothing; no option, only the memory that `warnings` needs.
    ignored_names: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(self)
        if self.broker_ip1 != "127.0.0.1":
            _check_address(self)
        if self.force_verify_prop_crc and not self.enabled_append_prop_crc:
            raise InvalidArgumentError(
                "option forceVerifyPropCRC='true' is not allowed without enabledAppendPropCRC=true: "
                "recovery would take the records written meanwhile as damage"
            )
        if self.index_file_size > JAVA_INT_MAX:
            raise InvalidArgumentError(
                f"options maxHashSlotNum={self.max_hash_slot_num} and maxIndexNum={self.max_index_num} "
                f"are not allowed together: an index file of {self.index_file_size} bytes is too large"
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> StoreOptions:
        """Options from the names and texts of a ``broker.conf``; unknown names and bad values are refused."""
        unknown = unknown_names(properties)
        if unknown:
            raise InvalidArgumentError("; ".join(map(str, unknown)))
        values: dict[str, Any] = dict(values_from_properties(cls, properties))
        ignored = tuple(name for name in properties if name in IGNORED_BY_ROCKETMQ or name in NOT_IMPLEMENTED)
        return cls(**values, ignored_names=ignored)

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None, overrides: Mapping[str, str] | None = None) -> StoreOptions:
        """Options from a file, if one is given, with ``overrides`` (same names) on top."""
        return cls.from_properties({**(load_properties(path) if path is not None else {}), **(overrides or {})})

    def to_properties(self, *, changed_only: bool = False) -> dict[str, str]:
        """The names and texts that :meth:`from_properties` would read back."""
        return properties_of(self, changed_only=changed_only)

    @property
    def warnings(self) -> list[str]:
        """A sentence for each thing that was set and will not do what it says."""
        result = [
            IGNORED_BY_ROCKETMQ.get(name)
            or f"{name} is ignored: it belongs to a part of RocketMQ's store that does not exist here"
            for name in self.ignored_names
        ]
        result += idle_warnings(self)
        largest = self.max_message_size + 65_536 + 8
        if largest > self.mapped_file_size_commit_log:
            result.append(
                f"mappedFileSizeCommitLog={self.mapped_file_size_commit_log} cannot hold every message that "
                f"maxMessageSize={self.max_message_size} allows: records of more than "
                f"{self.mapped_file_size_commit_log - 8} bytes are refused"
            )
        if self.disk_space_clean_forcibly_ratio > self.disk_space_warning_level_ratio:
            result.append(
                f"diskSpaceCleanForciblyRatio={self.disk_space_clean_forcibly_ratio} is above "
                f"diskSpaceWarningLevelRatio={self.disk_space_warning_level_ratio}: puts are refused before "
                "space is made"
            )
        return result

    @property
    def replica_promises(self) -> list[str]:
        """The options, as ``name=value``, that promise copies on other machines. A broker keeps them; nobody may store
        messages under such a promise without one. A store that was written under it can be read."""
        known = rows_by_key(StoreOptions)
        values = {name: getattr(self, known[name].field_name) for name in _REPLICA_PROMISES}
        return [
            f"{name}={value_text(value)}"
            for name, value in values.items()
            if value != known[name].default and value != "SLAVE"
        ]

    def without_replicas(self) -> StoreOptions:
        """These options without such promises, to repair a store to which nothing is added."""
        known = rows_by_key(StoreOptions)
        values: dict[str, Any] = {known[name].field_name: known[name].default for name in _REPLICA_PROMISES}
        return replace(self, **values)

    @property
    def store_root(self) -> str:
        """The root folder these options name."""
        return self.store_path_root_dir or os.path.join(os.path.expanduser("~"), "store")

    def commit_log_folders(self, root: str | os.PathLike[str]) -> list[str]:
        """All commit-log folders of a store at ``root``, in the order given."""
        return _paths(self.store_path_commit_log) or [os.path.join(os.fspath(root), layout.COMMIT_LOG)]

    @property
    def read_only_commit_log_folders(self) -> list[str]:
        """Those of them in which no new file is made."""
        return _paths(self.read_only_commit_log_store_paths)

    @property
    def delete_hours(self) -> frozenset[int]:
        """The local hours of ``deleteWhen``."""
        return frozenset(int(hour) for hour in self.delete_when.split(";") if hour.strip())

    @property
    def consume_queue_file_size(self) -> int:
        """Bytes of a queue file as it is on disk: whole units of 20."""
        return -(-self.mapped_file_size_consume_queue // 20) * 20

    @property
    def index_file_size(self) -> int:
        """Bytes of an index file: header, slots, entries."""
        return 40 + 4 * self.max_hash_slot_num + 20 * self.max_index_num


def no_replication(*promises: str) -> InvalidArgumentError:
    """The refusal of options that ask for more than one copy where nobody makes any."""
    return InvalidArgumentError(
        f"{', '.join(promises)} cannot be kept without a broker, which copies messages to its slaves: answered as if "
        "they had copies elsewhere, they would be lost with this machine; open the store as brokerRole=ASYNC_MASTER"
    )


def unknown_names(names: Iterable[str]) -> list[UnknownName]:
    """Those of the names that no layer of a broker knows, each with the nearest known one."""
    store_names = rows_by_key(StoreOptions)
    elsewhere = {*OTHER_LAYERS, *OTHER_LAYERS_OWN, *NOT_IMPLEMENTED, *IGNORED_BY_ROCKETMQ}
    return find_unknown_names(names, {*store_names, *elsewhere})


def _check_address(options: StoreOptions) -> None:
    import ipaddress  # 5 ms that an embedded store at the default address need not pay

    try:
        ipaddress.ip_address(options.broker_ip1)
    except ValueError:
        raise rows_by_key(StoreOptions)["brokerIP1"].refusal(options.broker_ip1) from None


def _paths(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

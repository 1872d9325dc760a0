"""What can be set about a name server: :class:`NamesrvOptions`, one row an option.

Names and defaults are those of RocketMQ's ``namesrv.conf``, with one exception: the server listens on
127.0.0.1 unless told otherwise. Names of RocketMQ that have no meaning here (its thread pools, its buffers) are
accepted and reported in :attr:`NamesrvOptions.warnings`; a name that nobody knows is refused.

What may be changed over the wire while the server runs is said row by row (``live``), a list of what is allowed, not of
what is forbidden, without any path or address: RocketMQ's list of forbidden names was how files could be written
anywhere (CVE-2023-37582).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import ClassVar

from flaremq.metrics.options import NamesrvMetricsOptions
from flaremq.options import AT_START, IDENTITY, PATH, option
from flaremq.server.options import ServerOptions

_NO_POOLS = "requests run on one event loop, without pools."


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvOptions(ServerOptions):
    """Options of one name server. Nothing but :meth:`change` alters an instance."""

    SERVER: ClassVar = "name server"
    METRICS: ClassVar = NamesrvMetricsOptions
    # Of RocketMQ 4.9 and 5.x: its network, its paths.
    ONLY_IN_ROCKETMQ: ClassVar = frozenset(
        """
        configBlackList configStorePath enableShutdownGracefully productEnvName rocketmqHome serverAsyncSemaphoreValue
        serverCallbackExecutorThreads serverNettyWorkerGroupEnable serverOnewaySemaphoreValue
        serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog serverSocketRcvBufSize
        serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds useEpollNativeSelector
        writeBufferHighWaterMark writeBufferLowWaterMark
        """.split()  # noqa: SIM905  (a list would take a line for each name)
    )

    # A row reads as a row, its name and bounds, then its sentence; the formatter would give each word a line.
    # fmt: off

    # --- where it listens and what it keeps -----------------------------------------------------------------
    listen_port: int = option(
        9876, rocketmq="listenPort", affects="behaviour", fixed=IDENTITY, maximum=65535,
        doc="Port to listen at; 0 takes a free one.")
    kv_config_path: str = option(
        "", rocketmq="kvConfigPath", affects="behaviour", fixed=PATH,
        doc="File of the key-value configuration; empty means `namesrv/kvConfig.json` in the home folder.")

    # --- brokers --------------------------------------------------------------------------------------------
    scan_not_active_broker_interval: int = option(
        5_000, rocketmq="scanNotActiveBrokerInterval", affects="behaviour", live=True, minimum=10, maximum=3_600_000,
        doc="Milliseconds between two looks for brokers that no longer register.")
    broker_channel_expired_time: int = option(
        120_000, flaremq="brokerChannelExpiredTime", affects="behaviour", live=True, minimum=100,
        doc="Milliseconds of silence after which a broker that named no limit of its own is forgotten.")
    delete_topic_with_broker_registration: bool = option(
        False, rocketmq="deleteTopicWithBrokerRegistration", affects="behaviour", live=True,
        doc="Let a registration remove the topics it does not name; the brokers must then always send "
        "all of them (`enableSingleTopicRegister=false`).")
    support_acting_master: bool = option(
        False, rocketmq="supportActingMaster", affects="behaviour", live=True,
        doc="Show the slave of the lowest id as master in routes while there is none, if its brokers want that.")

    # --- answers --------------------------------------------------------------------------------------------
    order_message_enable: bool = option(
        False, rocketmq="orderMessageEnable", affects="behaviour", live=True,
        doc="Add a topic's order configuration to its route.")
    return_order_topic_config_to_broker: bool = option(
        True, rocketmq="returnOrderTopicConfigToBroker", affects="behaviour", live=True,
        doc="Answer a registration with the order configuration of all topics.")
    enable_all_topic_list: bool = option(
        True, rocketmq="enableAllTopicList", affects="behaviour", live=True,
        doc="Answer the question for all topics.")
    enable_topic_list: bool = option(
        True, rocketmq="enableTopicList", affects="behaviour", live=True,
        doc="Answer questions for the topics of a cluster, of the system and of units.")
    need_wait_for_service: bool = option(
        False, rocketmq="needWaitForService", affects="behaviour", live=True,
        doc="Refuse routes for a while after the start, until all brokers had the time to register.")
    wait_seconds_for_service: int = option(
        45, rocketmq="waitSecondsForService", affects="behaviour", live=True, maximum=3_600,
        doc="Seconds of that while.")

    # --- RocketMQ's, without a meaning here -----------------------------------------------------------------
    cluster_test: bool = option(
        False, rocketmq="clusterTest", affects="behaviour", live=True,
        doc="Ask the name servers of another environment for the routes that are not known here.",
        unused="there is no other environment to ask.")
    enable_controller_in_namesrv: bool = option(
        False, rocketmq="enableControllerInNamesrv", affects="behaviour", fixed=AT_START,
        doc="Run a controller inside of the name server.", unused="run `flaremq controller`.")
    notify_min_broker_id_changed: bool = option(
        False, rocketmq="notifyMinBrokerIdChanged", affects="behaviour", live=True,
        doc="Tell the brokers of a group when the smallest id among them changed.", unused="nobody is told.")
    client_request_thread_pool_nums: int = option(
        8, rocketmq="clientRequestThreadPoolNums", affects="speed", live=True, minimum=1,
        doc="Threads that answer questions for routes.", unused=_NO_POOLS)
    client_request_thread_pool_queue_capacity: int = option(
        50_000, rocketmq="clientRequestThreadPoolQueueCapacity", affects="speed", live=True, minimum=1,
        doc="Such questions that may wait for a thread.", unused=_NO_POOLS)
    default_thread_pool_nums: int = option(
        16, rocketmq="defaultThreadPoolNums", affects="speed", live=True, minimum=1,
        doc="Threads that answer everything else.", unused=_NO_POOLS)
    default_thread_pool_queue_capacity: int = option(
        10_000, rocketmq="defaultThreadPoolQueueCapacity", affects="speed", live=True, minimum=1,
        doc="Other requests that may wait for a thread.", unused=_NO_POOLS)
    un_register_broker_queue_capacity: int = option(
        3_000, rocketmq="unRegisterBrokerQueueCapacity", affects="speed", live=True, minimum=1,
        doc="Brokers whose leaving may wait to be noted.", unused="it is noted at once.")

    # fmt: on

    metrics: NamesrvMetricsOptions = field(default_factory=NamesrvMetricsOptions)

    @property
    def kv_config_file(self) -> str:
        """The file of the key-value configuration."""
        return self.kv_config_path or os.path.join(os.path.expanduser("~"), "namesrv", "kvConfig.json")

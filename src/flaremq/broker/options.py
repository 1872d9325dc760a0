"""What can be set about a broker: :class:`BrokerOptions`, one row an option.

Names and defaults are RocketMQ 5's unless the row says otherwise. One ``broker.conf`` serves all layers: broker, store
and network read it through :func:`load_options`, each takes its own names, names that only RocketMQ has give a warning
and a name that nobody knows is refused with the nearest known one. A few names belong to two layers (the address and
port are registered by the broker and written into records by the store).

Some options may be changed while the broker runs (rows that are ``live``: plain switches, numbers and choices, never a
path, an address or a name). So the parts of a broker share one object and read a value where they need it.

Long on purpose: all rows stand in one table.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.access.options import AccessOptions, check_bind, load_private
from flaremq.errors import InvalidArgumentError
from flaremq.grpc.options import GrpcOptions
from flaremq.message.topics import NAME_LETTER
from flaremq.metrics.options import MetricsOptions, check_reach
from flaremq.options import (
    AT_START,
    IDENTITY,
    SECURITY,
    STORED,
    UnknownName,
    change_live,
    check_values,
    find_unknown_names,
    idle_warnings,
    option,
    properties_of,
    rows,
    rows_by_key,
    values_from_properties,
)
from flaremq.remoting.address import format_address
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.option_names import IGNORED_BY_ROCKETMQ, NOT_IMPLEMENTED, OTHER_LAYERS
from flaremq.storage.options import StoreOptions

_NAME = f"{NAME_LETTER}{{1,127}}"
_NAME_FORM = "1 to 127 of ASCII letters, digits, '%', '-', '_', '|'"
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """Options of one broker. Nothing but :meth:`change` alters an instance."""

    # A row reads as a row, its name and bounds, then its sentence; the formatter would give each word a line.
    # fmt: off

    # --- who and where we are -------------------------------------------------------------------------------
    broker_name: str = option(
        "broker-a", rocketmq="brokerName", affects="behaviour", fixed=IDENTITY, pattern=_NAME, form=_NAME_FORM,
        doc="Name of this broker; masters and slaves of the same data share it. RocketMQ's default is the host name.")
    broker_cluster_name: str = option(
        "DefaultCluster", rocketmq="brokerClusterName", affects="behaviour", fixed=IDENTITY, pattern=_NAME,
        form=_NAME_FORM,
        doc="Cluster this broker belongs to.")
    broker_id: int = option(
        0, rocketmq="brokerId", affects="behaviour", fixed=IDENTITY, minimum=-1, maximum=_LONG_MAX,
        doc="A slave's number, 1 or more, its own among the slaves of a master. A master is always 0. A controller "
        "gives out numbers by itself; -1 is what RocketMQ's users set there.")
    bind_address: str = option(
        "127.0.0.1", rocketmq="bindAddress", affects="behaviour", fixed=IDENTITY,
        form="an IPv4 or IPv6 address, not a host name",
        doc="Address the broker listens at. RocketMQ's default is every address of the machine.")
    insecure_bind_enable: bool = option(
        False, flaremq="insecureBindEnable", affects="behaviour", fixed=SECURITY,
        doc="Allow a `bindAddress` that other machines reach without access control: everybody who reaches it may do "
            "everything.")
    listen_port: int = option(
        10911, rocketmq="listenPort", affects="behaviour", fixed=IDENTITY, maximum=65535,
        doc="Port the broker listens at; 2 less is the port for sends of old clients. 0 takes any free port.")
    broker_ip1: str = option(
        "127.0.0.1", rocketmq="brokerIP1", affects="behaviour", fixed=IDENTITY,
        form="an IPv4 or IPv6 address, not a host name",
        doc="Address at which clients reach this broker, as the name servers hand it out.")
    broker_ip2: str = option(
        "", rocketmq="brokerIP2", affects="behaviour", fixed=IDENTITY, form="an IPv4 or IPv6 address, or nothing",
        doc="Address at which slaves reach this broker; empty means `brokerIP1`.")
    namesrv_addr: str = option(
        "", rocketmq="namesrvAddr", affects="behaviour", fixed=IDENTITY,
        doc="Addresses of all name servers, joined by `;`. Empty registers nowhere.")
    region_id: str = option(
        "DefaultRegion", rocketmq="regionId", affects="behaviour", fixed=IDENTITY, pattern=r"[\x21-\x7e]{0,127}",
        form="up to 127 visible ASCII characters", doc="Region told to clients with every message.")
    trace_on: bool = option(
        True, rocketmq="traceOn", affects="behaviour", live=True,
        doc="Tell clients that this broker likes message traces; they send them only if they trace at all.")

    # --- name servers ---------------------------------------------------------------------------------------
    register_name_server_period: int = option(
        30_000, rocketmq="registerNameServerPeriod", affects="behaviour", live=True, minimum=10_000, maximum=60_000,
        doc="Milliseconds between two registrations at the name servers.")
    register_broker_timeout_mills: int = option(
        24_000, rocketmq="registerBrokerTimeoutMills", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds a name server has to answer a registration.")
    force_register: bool = option(
        True, rocketmq="forceRegister", affects="behaviour", live=True,
        doc="Register in full each time; false asks first whether anything changed.")
    compressed_register: bool = option(
        False, rocketmq="compressedRegister", affects="speed", live=True,
        doc="Compress what is registered. Name servers of RocketMQ before 4.3 do not understand it.")

    enable_single_topic_register: bool = option(
        True, rocketmq="enableSingleTopicRegister", affects="speed", live=True,
        doc="Tell name servers only the topics that changed; all of them follow with the next periodic registration. "
        "Must be false where a name server has `deleteTopicWithBrokerRegistration`. RocketMQ's default is false.")

    log_level: str = option(
        "", flaremq="logLevel", affects="behaviour", live=True, pattern="(debug|info|warning|error)?",
        form="debug, info, warning or error",
        doc="What goes into the log of the process; empty leaves it at what `--log-level` says.")

    # --- topics and groups ----------------------------------------------------------------------------------
    broker_permission: int = option(
        6, rocketmq="brokerPermission", affects="behaviour", live=True, maximum=7,
        doc="What clients may do: 4 read, 2 write, 6 both, 0 nothing.")
    auto_create_topic_enable: bool = option(
        True, rocketmq="autoCreateTopicEnable", affects="behaviour", live=True,
        doc="Create a topic when somebody sends to it.")
    default_topic_queue_nums: int = option(
        8, rocketmq="defaultTopicQueueNums", affects="behaviour", live=True, minimum=1, maximum=65_536,
        doc="Queues an automatically created topic has at most; clients ask for 4 by default.")
    cluster_topic_enable: bool = option(
        True, rocketmq="clusterTopicEnable", affects="behaviour", fixed=AT_START,
        doc="Let new topics be modelled on the topic named after the cluster.")
    broker_topic_enable: bool = option(
        True, rocketmq="brokerTopicEnable", affects="behaviour", fixed=AT_START,
        doc="Let new topics be modelled on the topic named after the broker.")
    auto_create_subscription_group: bool = option(
        True, rocketmq="autoCreateSubscriptionGroup", affects="behaviour", live=True,
        doc="Create a consumer group when somebody uses it.")
    validate_system_topic_when_update_topic: bool = option(
        True, rocketmq="validateSystemTopicWhenUpdateTopic", affects="behaviour", live=True,
        doc="Refuse to change or delete RocketMQ's own topics.")
    enable_mixed_message_type: bool = option(
        False, rocketmq="enableMixedMessageType", affects="behaviour", live=True,
        doc="Allow topics whose attribute `message.type` is MIXED.")
    clear_retry_topic_when_delete_topic: bool = option(
        True, rocketmq="clearRetryTopicWhenDeleteTopic", affects="behaviour", live=True,
        doc="Delete the retry topics that POP consumption made for a topic together with it.")
    trace_topic_enable: bool = option(
        False, rocketmq="traceTopicEnable", affects="behaviour", fixed=AT_START,
        doc="Have the topic of message traces from the start.")
    msg_trace_topic_name: str = option(
        "RMQ_SYS_TRACE_TOPIC", rocketmq="msgTraceTopicName", affects="behaviour", fixed=IDENTITY, pattern=_NAME,
        form=_NAME_FORM,
        doc="Name of that topic.")

    # --- sending --------------------------------------------------------------------------------------------
    start_accept_send_request_time_stamp: int = option(
        0, rocketmq="startAcceptSendRequestTimeStamp", affects="behaviour", live=True, maximum=_LONG_MAX,
        doc="Milliseconds since 1970 before which sends are refused.")
    store_reply_message_enable: bool = option(
        True, rocketmq="storeReplyMessageEnable", affects="behaviour", live=True,
        doc="Store answers to request messages besides pushing them to the asking client.")
    reject_transaction_message: bool = option(
        False, rocketmq="rejectTransactionMessage", affects="behaviour", live=True,
        doc="Refuse transactional messages.")
    recall_message_enable: bool = option(
        False, rocketmq="recallMessageEnable", affects="behaviour", live=True,
        doc="Let producers take back timed messages that were not delivered yet.")

    # --- consuming ------------------------------------------------------------------------------------------
    long_polling_enable: bool = option(
        True, rocketmq="longPollingEnable", affects="behaviour", live=True,
        doc="Hold a pull that finds nothing as long as the client asked; false holds it `shortPollingTimeMills`.")
    short_polling_time_mills: int = option(
        1_000, rocketmq="shortPollingTimeMills", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds a pull is held without long polling.")
    lite_pull_message_enable: bool = option(
        True, rocketmq="litePullMessageEnable", affects="behaviour", live=True,
        doc="Serve the pulls of lite pull consumers of RocketMQ 5.")
    reject_pull_consumer_enable: bool = option(
        False, rocketmq="rejectPullConsumerEnable", affects="behaviour", live=True,
        doc="Ignore the heartbeats of consumers that pull on their own.")
    enable_property_filter: bool = option(
        False, rocketmq="enablePropertyFilter", affects="behaviour", live=True,
        doc="Let consumers filter by SQL92 expressions over message properties.")
    filter_support_retry: bool = option(
        False, rocketmq="filterSupportRetry", affects="behaviour", live=True,
        doc="Apply a group's SQL92 expression to its retried messages too.",
        unused="a consumer subscribes to its retry topic with an expression of its own, and that one is applied.")
    notify_consumer_ids_changed_enable: bool = option(
        True, rocketmq="notifyConsumerIdsChangedEnable", affects="behaviour", live=True,
        doc="Tell the clients of a group at once when one comes or goes; false leaves it to their own pace.")
    use_server_side_reset_offset: bool = option(
        True, rocketmq="useServerSideResetOffset", affects="behaviour", live=True,
        doc="Reset offsets in the broker, not by asking the clients of the group to do it.")
    flush_consumer_offset_interval: int = option(
        5_000, rocketmq="flushConsumerOffsetInterval", affects="durability", live=True, minimum=1,
        doc="Milliseconds between two writes of the consumer offsets.")
    consumer_offset_update_version_step: int = option(
        500, rocketmq="consumerOffsetUpdateVersionStep", affects="behaviour", live=True, minimum=1,
        doc="Commits after which the version of the offset table goes up.")
    flush_delay_offset_interval: int = option(
        10_000, rocketmq="flushDelayOffsetInterval", affects="durability", live=True, minimum=1,
        doc="Milliseconds between two writes of the delivery progress of delayed messages.")
    channel_expired_timeout: int = option(
        120_000, rocketmq="channelExpiredTimeout", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds without a heartbeat after which a client counts as gone.")
    disable_consume_if_consumer_read_slowly: bool = option(
        False, rocketmq="disableConsumeIfConsumerReadSlowly", affects="behaviour", live=True,
        doc="Switch off a group that has fallen behind by `consumerFallbehindThreshold`.")
    consumer_fallbehind_threshold: int = option(
        17_179_869_184, rocketmq="consumerFallbehindThreshold", affects="behaviour", live=True, minimum=1,
        maximum=_LONG_MAX,
        doc="Bytes of backlog at which that happens.")
    slave_read_enable: bool = option(
        False, rocketmq="slaveReadEnable", affects="behaviour", live=True,
        doc="Send consumers of messages that no longer fit into the memory to a slave. A slave serves whoever comes in "
        "any case, so that consumers go on while their master is away.")
    transfer_msg_by_heap: bool = option(
        True, rocketmq="transferMsgByHeap", affects="speed", live=True,
        doc="Copy messages into the reply; false hands the mapped file to the socket.",
        unused="the way is chosen by the size of the reply.")

    # --- rebalance by the broker, POP -----------------------------------------------------------------------
    server_load_balancer_enable: bool = option(
        True, rocketmq="serverLoadBalancerEnable", affects="behaviour", live=True,
        doc="Share queues out among clients that ask the broker for their assignment; false gives all to each.")
    default_message_request_mode: str = option(
        "PULL", rocketmq="defaultMessageRequestMode", affects="behaviour", live=True, choices=("PULL", "POP"),
        doc="How such clients read a topic for which nothing was set.")
    default_pop_share_queue_num: int = option(
        -1, rocketmq="defaultPopShareQueueNum", affects="behaviour", live=True, minimum=-1,
        doc="Clients that share each queue in POP mode besides its own; -1 means all.")
    revive_queue_num: int = option(
        8, rocketmq="reviveQueueNum", affects="behaviour", fixed=AT_START, minimum=1, maximum=1_024,
        doc="Queues of the topic that remembers what was popped.")
    revive_interval: int = option(
        1_000, rocketmq="reviveInterval", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds between two looks for popped messages that nobody acknowledged in time.",
        unused="what is due is known without looking, and given again at once.")
    revive_max_slow: int = option(
        3, rocketmq="reviveMaxSlow", affects="speed", live=True, minimum=1,
        doc="How many of those pauses an idle look may wait.", unused="there are no such looks.")
    revive_scan_time: int = option(
        10_000, rocketmq="reviveScanTime", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds one look may take.", unused="there are no such looks.")
    revive_ack_wait_ms: int = option(
        180_000, rocketmq="reviveAckWaitMs", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds an acknowledgement without its pop is kept.")
    pop_revive_max_attempt_times: int = option(
        16, rocketmq="popReviveMaxAttemptTimes", affects="behaviour", live=True, minimum=1,
        doc="Tries to put an unacknowledged message into its retry topic.",
        unused="it is tried until it is there: giving up would lose the message.")
    pop_from_retry_probability: int = option(
        20, rocketmq="popFromRetryProbability", affects="behaviour", live=True, maximum=100,
        doc="Percentage of pops that look into the retry topic first.")
    enable_retry_topic_v2: bool = option(
        False, rocketmq="enableRetryTopicV2", affects="behaviour", fixed=STORED,
        doc="Name POP's retry topics `%RETRY%group+topic` instead of `%RETRY%group_topic`. "
        "Switched off again, what waits under the new names is no longer read.")
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True, rocketmq="retrieveMessageFromPopRetryTopicV1", affects="behaviour", live=True,
        doc="With the new names, still read the topics with the old ones.")
    pop_polling_size: int = option(
        1_024, rocketmq="popPollingSize", affects="behaviour", live=True, minimum=1,
        doc="Pops held for one topic, group and queue at most.")
    max_pop_polling_size: int = option(
        100_000, rocketmq="maxPopPollingSize", affects="behaviour", live=True, minimum=1,
        doc="Pops held in all at most.")
    pop_polling_map_size: int = option(
        100_000, rocketmq="popPollingMapSize", affects="behaviour", live=True, minimum=1,
        doc="Topic, group and queue combinations with held pops at most.",
        unused="`maxPopPollingSize` bounds them: a combination lasts as long as a pop is held for it.")
    enable_pop_buffer_merge: bool = option(
        True, rocketmq="enablePopBufferMerge", affects="speed", live=True,
        doc="Note acknowledgements of the first seconds in memory only: a crash delivers such messages again, loses "
        "none. RocketMQ's default is false.")
    enable_pop_batch_ack: bool = option(
        False, rocketmq="enablePopBatchAck", affects="speed", live=True,
        doc="Store acknowledgements of one pop together.", unused="those that come together always are.")
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True, rocketmq="initPopOffsetByCheckMsgInMem", affects="behaviour", live=True,
        doc="A new group starts a young queue at its beginning.")

    # --- delay and transactions -----------------------------------------------------------------------------
    timer_wheel_enable: bool = option(
        True, rocketmq="timerWheelEnable", affects="behaviour", fixed=AT_START,
        doc="Accept messages with a delivery time of their own.")
    timer_max_delay_sec: int = option(
        259_200, rocketmq="timerMaxDelaySec", affects="behaviour", live=True, minimum=1,
        doc="Seconds such a time may lie ahead.")
    timer_precision_ms: int = option(
        1_000, rocketmq="timerPrecisionMs", affects="behaviour", fixed=STORED, minimum=1,
        doc="Milliseconds to which delivery times are rounded.")
    timer_intercept_delay_level: bool = option(
        False, rocketmq="timerInterceptDelayLevel", affects="behaviour", live=True,
        doc="Deliver messages with a delay level the same way.",
        unused="delay levels always have queues of their own.")
    transaction_time_out: int = option(
        6_000, rocketmq="transactionTimeOut", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds after which the producer of an undecided transactional message is asked.")
    transaction_check_max: int = option(
        15, rocketmq="transactionCheckMax", affects="behaviour", live=True, minimum=1,
        doc="How often it is asked before the message is put away.")
    transaction_check_interval: int = option(
        30_000, rocketmq="transactionCheckInterval", affects="behaviour", live=True, minimum=1,
        doc="Milliseconds between two rounds of asking. RocketMQ 4.9 waits 60,000.")
    transaction_op_msg_max_size: int = option(
        4_096, rocketmq="transactionOpMsgMaxSize", affects="speed", live=True, minimum=1,
        doc="Bytes of decisions written together at most.")
    transaction_op_batch_interval: int = option(
        3_000, rocketmq="transactionOpBatchInterval", affects="speed", live=True, minimum=1,
        doc="Milliseconds decisions may wait to be written together.",
        unused="a decision is written at once, with those that came during the last write.")

    # --- limits on what clients can make us keep ------------------------------------------------------------
    topics_max: int = option(
        100_000, flaremq="topicsMax", affects="behaviour", live=True, minimum=32,
        doc="Topics at most; beyond it none is created.")
    queues_per_topic_max: int = option(
        65_536, flaremq="queuesPerTopicMax", affects="behaviour", live=True, minimum=1_024, maximum=65_536,
        doc="Queues of one topic at most.")
    groups_max: int = option(
        100_000, flaremq="groupsMax", affects="behaviour", live=True, minimum=16,
        doc="Consumer groups at most; beyond it none is created.")
    registrations_max: int = option(
        200_000, flaremq="registrationsMax", affects="behaviour", live=True, minimum=1,
        doc="Pairs of client and group that may be registered at a time, producers and consumers each.")
    subscriptions_per_group_max: int = option(
        10_000, flaremq="subscriptionsPerGroupMax", affects="behaviour", live=True, minimum=1,
        doc="Topics one consumer group may subscribe to.")
    filter_expression_bytes_max: int = option(
        2_048, flaremq="filterExpressionBytesMax", affects="behaviour", live=True, minimum=1, maximum=65_536,
        doc="Length of a filter expression at most, tags or SQL92.")
    consumer_offsets_max: int = option(
        2_000_000, flaremq="consumerOffsetsMax", affects="behaviour", live=True, minimum=1,
        doc="Committed offsets (one for each group and queue) at most.")
    queue_locks_max: int = option(
        200_000, flaremq="queueLocksMax", affects="behaviour", live=True, minimum=1,
        doc="Queues that orderly consumers may hold locked at a time.")
    held_pulls_max: int = option(
        100_000, flaremq="heldPullsMax", affects="behaviour", live=True, minimum=1,
        doc="Pulls held at a time; beyond it a pull that finds nothing is answered at once.")

    # --- replication ----------------------------------------------------------------------------------------
    enable_controller_mode: bool = option(
        False, rocketmq="enableControllerMode", affects="durability", fixed=AT_START,
        doc="Let a controller choose the master; `brokerRole` and `brokerId` then mean nothing. Every broker that the "
        "controller counts as in sync holds a message before it is acknowledged.")
    controller_addr: str = option(
        "", rocketmq="controllerAddr", affects="behaviour", fixed=IDENTITY,
        doc="Addresses of all controllers, joined by `;`.")
    controller_heart_beat_timeout_mills: int = option(
        10_000, rocketmq="controllerHeartBeatTimeoutMills", affects="behaviour", fixed=AT_START, minimum=1_000,
        maximum=300_000,
        doc="Milliseconds without a heartbeat after which the controller elects another master; a master that has not "
        "heard of its controller for as long takes no messages until it does.")
    broker_heartbeat_interval: int = option(
        1_000, rocketmq="brokerHeartbeatInterval", affects="behaviour", fixed=AT_START, minimum=100, maximum=60_000,
        doc="Milliseconds between two heartbeats to the controllers.")
    sync_broker_metadata_period: int = option(
        1_000, rocketmq="syncBrokerMetadataPeriod", affects="behaviour", fixed=AT_START, minimum=100, maximum=60_000,
        doc="Milliseconds between two questions to the controller who is master. RocketMQ's default is 5000.")
    sync_controller_metadata_period: int = option(
        10_000, rocketmq="syncControllerMetadataPeriod", affects="behaviour", fixed=AT_START, minimum=100,
        maximum=600_000,
        doc="Milliseconds between two questions which controller leads.")
    broker_election_priority: int = option(
        2**31 - 1, rocketmq="brokerElectionPriority", affects="behaviour", fixed=AT_START, maximum=2**31 - 1,
        doc="Among brokers whose logs go equally far the one with the lowest number is elected.")
    enable_slave_acting_master: bool = option(
        False, rocketmq="enableSlaveActingMaster", affects="behaviour", fixed=AT_START,
        doc="Let a slave stand in for its master. Only false is accepted: to become the master takes a controller.")

    ha_bind_address: str = option(
        "", flaremq="haBindAddress", affects="behaviour", fixed=SECURITY, form="an IPv4 or IPv6 address, or nothing",
        doc="Address at which slaves fetch the log; empty means `bindAddress`. RocketMQ listens at every address.")
    ha_peer_allow: str = option(
        "", flaremq="haPeerAllow", affects="behaviour", fixed=SECURITY,
        form="addresses and networks such as 10.0.0.7;10.0.1.0/24, or nothing",
        doc="Addresses and networks, joined by `;`, that replicate with this broker without proving the shared secret: "
        "needed for brokers of RocketMQ, which know none. Empty is this machine; nobody beside a secret or access "
        "control.")
    ha_secret_file: str = option(
        "", flaremq="haSecretFile", affects="behaviour", fixed=SECURITY,
        doc="File, for its owner's eyes only, with a secret of 16 bytes or more that master and slave prove to each "
        "other before the first byte is replicated. It encrypts nothing: see `haTlsMode`. Empty: with access control "
        "the account of `innerClientAuthenticationCredentials` is proven instead.")
    ha_tls_mode: str = option(
        "disabled", flaremq="haTlsMode", affects="behaviour", fixed=SECURITY, choices=("disabled", "enforcing"),
        doc="Replicate over TLS, with `tlsCertPath` and `tlsKeyPath` of either end; not with RocketMQ's brokers.")
    ha_tls_trust_path: str = option(
        "", flaremq="haTlsTrustPath", affects="behaviour", fixed=SECURITY,
        doc="Certificates that have signed those of all brokers that replicate; empty means `tlsTrustPath`.")
    ha_connections_max: int = option(
        64, flaremq="haConnectionsMax", affects="behaviour", fixed=AT_START, minimum=1, maximum=1024,
        doc="Slaves that may be connected at a time.")

    # --- access control -------------------------------------------------------------------------------------

    # fmt: on

    # What it tells about itself: rows of their own class, loaded from the same file.
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    # The port of gRPC: rows of their own class, loaded from the same file.
    grpc: GrpcOptions = field(default_factory=GrpcOptions)
    # Who may do what: rows of their own class, loaded from the same file.
    access: AccessOptions = field(default_factory=AccessOptions)
    # Names that were loaded but change nothing; no option, only the memory that `warnings` needs.
    ignored_names: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(self)
        for name, value in (("brokerIP1", self.broker_ip1), ("brokerIP2", self.broker_ip2 or self.broker_ip1)):
            _checked_address(name, value)
        _checked_address("bindAddress", self.bind_address)
        check_bind(self.bind_address, self.access, insecure=self.insecure_bind_enable)
        check_reach(self.metrics.endpoint, insecure=self.insecure_bind_enable)
        if self.ha_bind_address:
            _checked_address("haBindAddress", self.ha_bind_address)
        parse_networks(self.ha_peer_allow)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerOptions:
        """Options from the names and texts of a ``broker.conf``; unknown names and bad values are refused."""
        unknown = unknown_names(properties)
        if unknown:
            raise InvalidArgumentError("; ".join(map(str, unknown)))
        values: dict[str, Any] = dict(values_from_properties(cls, properties))
        access: dict[str, Any] = dict(values_from_properties(AccessOptions, properties))
        metrics: dict[str, Any] = dict(values_from_properties(MetricsOptions, properties))
        grpc: dict[str, Any] = dict(values_from_properties(GrpcOptions, properties))
        ignored = tuple(name for name in properties if name in _ONLY_IN_ROCKETMQ)
        return cls(
            **values,
            access=AccessOptions(**access),
            metrics=MetricsOptions(**metrics),
            grpc=GrpcOptions(**grpc, is_port_set="grpc_server_port" in grpc),
            ignored_names=ignored,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None, overrides: Mapping[str, str] | None = None) -> BrokerOptions:
        """Options from a file, if one is given, with ``overrides`` (same names) on top."""
        return cls.from_properties(load_private(path, overrides))

    def change(self, properties: Mapping[str, str]) -> None:
        """Change options of a running broker: all of them, or none and InvalidArgumentError."""
        change_live(properties, [self, self.metrics, self.grpc])

    def to_properties(self, *, changed_only: bool = False) -> dict[str, str]:
        """The names and texts that :meth:`from_properties` would read back."""
        own = properties_of(self, changed_only=changed_only)
        told = properties_of(self.metrics, changed_only=changed_only)
        grpc = properties_of(self.grpc, changed_only=changed_only)
        return {**own, **told, **grpc, **properties_of(self.access, changed_only=changed_only)}

    @property
    def address(self) -> str:
        """Where clients find this broker, as name servers tell them."""
        return format_address(self.broker_ip1, self.listen_port)

    @property
    def warnings(self) -> list[str]:
        """A sentence for each thing that was set and will not do what it says."""
        ignored = [
            f"{name} is ignored: that part of RocketMQ's broker does not exist here" for name in self.ignored_names
        ]
        return ignored + self._address_warnings() + idle_warnings(self)

    def _address_warnings(self) -> list[str]:
        told = _checked_address("brokerIP1", self.broker_ip1)
        if _checked_address("bindAddress", self.bind_address).is_loopback or not told.is_loopback:
            return []
        return [f"clients are told to come to brokerIP1={told}, where only those of this machine find the broker"]


_BROKER_NAMES = frozenset(
    key for kind in (BrokerOptions, AccessOptions, MetricsOptions, GrpcOptions) for key in rows_by_key(kind)
)
_REMOTING_NAMES = frozenset(rows_by_key(RemotingOptions))
_STORE_NAMES = frozenset(rows_by_key(StoreOptions))
_IDLE_STORE_NAMES = frozenset(row.key for row in rows(StoreOptions) if row.unused)
_ONLY_IN_ROCKETMQ = OTHER_LAYERS - _BROKER_NAMES - _REMOTING_NAMES - _STORE_NAMES


def load_options(
    path: str | os.PathLike[str] | None, overrides: Mapping[str, str] | None = None
) -> tuple[BrokerOptions, StoreOptions, RemotingOptions]:
    """The options of all layers of a broker from one ``broker.conf``."""
    properties = load_private(path, overrides)
    broker = BrokerOptions.from_properties(properties)
    network: dict[str, Any] = dict(values_from_properties(RemotingOptions, properties))
    store = StoreOptions.from_properties(store_properties(properties))
    return broker, store, RemotingOptions(**network)


def store_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """What of a ``broker.conf`` the store should see: not what the broker does in its stead, nor our own names."""
    elsewhere = (_BROKER_NAMES | _REMOTING_NAMES) - (_STORE_NAMES - _IDLE_STORE_NAMES)
    return {name: text for name, text in properties.items() if name not in elsewhere}


ONLY_IN_ROCKETMQ: Final = {*OTHER_LAYERS, *NOT_IMPLEMENTED, *IGNORED_BY_ROCKETMQ} - (
    _BROKER_NAMES | _REMOTING_NAMES | _STORE_NAMES
)


def unknown_names(names: Iterable[str]) -> list[UnknownName]:
    """Those of the names that no layer of a broker knows, each with the nearest known one."""
    return find_unknown_names(names, _BROKER_NAMES | _REMOTING_NAMES | _STORE_NAMES | ONLY_IN_ROCKETMQ)


def parse_networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """The networks of ``haPeerAllow``; an address is a network of one."""
    try:
        parts = [part.strip() for part in text.replace(",", ";").split(";")]
        return tuple(ipaddress.ip_network(part, strict=False) for part in parts if part)
    except ValueError:
        raise rows_by_key(BrokerOptions)["haPeerAllow"].refusal(text) from None


def _checked_address(name: str, text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise rows_by_key(BrokerOptions)[name].refusal(text) from None

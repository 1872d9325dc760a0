"""What can be set about the port of gRPC. Names are those of RocketMQ's proxy where it has them.

Limits that all ports share (connections, slow peers, bytes in flight) stand among the options of the network.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from flaremq.options import AT_START, PATH, check_values, option

DEFAULT_PORT: Final = 8081
OFF: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions:
    """The port that clients of RocketMQ 5 in all languages use."""

    # fmt: off
    grpc_server_port: int = option(
        DEFAULT_PORT, rocketmq="grpcServerPort", affects="behaviour", fixed=AT_START, minimum=OFF, maximum=65535,
        doc="Port of gRPC at `bindAddress`: 0 takes a free one, -1 serves none. One that is set must be free; where it "
            "is not set and 8081 is taken, a broker says so and goes on without. Not set, with `listenPort=0`: none.")
    grpc_tls_mode: str = option(
        "auto", flaremq="grpcTlsMode", affects="behaviour", fixed=AT_START,
        choices=("auto", "disabled", "permissive", "enforcing"),
        doc="TLS on the port of gRPC: never, if the client begins with it, or always. `auto`: always where `tlsMode` "
            "is enforcing, else if the client begins with it, as the clients in Java, Go, C++ and C# do.")
    tls_test_mode_enable: bool = option(
        True, rocketmq="tlsTestModeEnable", affects="behaviour", fixed=AT_START,
        doc="Without `tlsCertPath`: show a certificate for `localhost` that nobody has signed, made when the first "
            "client asks. Only for development.")
    grpc_max_inbound_message_size: int = option(
        5_242_880, rocketmq="grpcMaxInboundMessageSize", affects="behaviour", fixed=AT_START, minimum=65_536,
        maximum=1 << 30,
        doc="Bytes of a request, inflated; at least `maxMessageSize` and a mebibyte. RocketMQ's default is 136314880.")
    grpc_client_idle_time_mills: int = option(
        120_000, rocketmq="grpcClientIdleTimeMills", affects="behaviour", live=True, minimum=1000,
        doc="Milliseconds after which a connection without calls is closed.")
    grpc_concurrent_streams_max: int = option(
        1024, flaremq="grpcConcurrentStreamsMax", affects="behaviour", fixed=AT_START, minimum=16, maximum=65_536,
        doc="Calls a connection may have open at a time.")
    grpc_calls_max: int = option(
        65_536, flaremq="grpcCallsMax", affects="behaviour", live=True, minimum=16,
        doc="Calls all connections together may have open at a time; more are refused with RESOURCE_EXHAUSTED.")
    grpc_shutdown_time_seconds: int = option(
        5, rocketmq="grpcShutdownTimeSeconds", affects="behaviour", live=True,
        doc="Seconds that calls under way get when the server stops. Polls and open streams end at once. RocketMQ's "
            "default is 30.")

    grpc_receipt_key_file: str = option(
        "", flaremq="grpcReceiptKeyFile", affects="behaviour", fixed=PATH,
        doc="File, for its owner's eyes only, with 16 bytes or more of a secret that seals receipt handles: servers "
            "that share it take each other's. Empty: a broker makes its own below `config/`, a proxy one for as long "
            "as it runs.")

    # --- messages -------------------------------------------------------------------------------------------
    enable_topic_message_type_check: bool = option(
        True, rocketmq="enableTopicMessageTypeCheck", affects="behaviour", fixed=AT_START,
        doc="Refuse a message of another type than its topic's attribute `message.type` names (none: NORMAL).")
    max_user_property_size: int = option(
        16_384, rocketmq="maxUserPropertySize", affects="behaviour", fixed=AT_START, minimum=1, maximum=32_767,
        doc="Bytes of a message's properties, tag and keys together.")
    user_property_max_num: int = option(
        128, rocketmq="userPropertyMaxNum", affects="behaviour", fixed=AT_START,
        doc="Properties a message may have.")
    max_message_group_size: int = option(
        64, rocketmq="maxMessageGroupSize", affects="behaviour", fixed=AT_START, minimum=1, maximum=1024,
        doc="A message group has fewer bytes than this.")
    max_delay_time_mills: int = option(
        86_400_000, rocketmq="maxDelayTimeMills", affects="behaviour", fixed=AT_START,
        doc="Milliseconds a delivery time may lie ahead; `timerMaxDelaySec` bounds it too.")
    max_transaction_recovery_second: int = option(
        3600, rocketmq="maxTransactionRecoverySecond", affects="behaviour", fixed=AT_START,
        doc="Seconds a producer may ask to be left alone about an undecided message.")

    # --- receiving ------------------------------------------------------------------------------------------
    min_invisible_time_mills_for_recv: int = option(
        10_000, rocketmq="minInvisibleTimeMillsForRecv", affects="behaviour", fixed=AT_START,
        doc="Milliseconds a received message is at least hidden from others.")
    max_invisible_time_mills: int = option(
        43_200_000, rocketmq="maxInvisibleTimeMills", affects="behaviour", fixed=AT_START, minimum=1,
        doc="Milliseconds it is hidden at most.")
    default_invisible_time_mills: int = option(
        60_000, rocketmq="defaultInvisibleTimeMills", affects="behaviour", fixed=AT_START, minimum=1000,
        doc="Milliseconds it is hidden at a time where the server renews that by itself, as for push consumers.")
    grpc_client_consumer_min_long_polling_timeout_millis: int = option(
        5000, rocketmq="grpcClientConsumerMinLongPollingTimeoutMillis", affects="behaviour", fixed=AT_START,
        doc="Milliseconds a receive that finds nothing is held at least.")
    grpc_client_consumer_max_long_polling_timeout_millis: int = option(
        20_000, rocketmq="grpcClientConsumerMaxLongPollingTimeoutMillis", affects="behaviour", fixed=AT_START,
        doc="Milliseconds it is held at most; push consumers are told to ask for as much.")
    grpc_client_consumer_long_polling_batch_size: int = option(
        32, rocketmq="grpcClientConsumerLongPollingBatchSize", affects="speed", fixed=AT_START, minimum=1, maximum=32,
        doc="Messages that push consumers are told to ask for at a time.")

    # --- renewal --------------------------------------------------------------------------------------------
    enable_proxy_auto_renew: bool = option(
        True, rocketmq="enableProxyAutoRenew", affects="behaviour", fixed=AT_START,
        doc="Keep messages hidden as long as the push consumer that has them is alive.")
    renew_ahead_time_millis: int = option(
        10_000, rocketmq="renewAheadTimeMillis", affects="behaviour", fixed=AT_START, minimum=1,
        doc="Milliseconds before its end at which the time is prolonged.")
    renew_schedule_period_millis: int = option(
        5000, rocketmq="renewSchedulePeriodMillis", affects="behaviour", fixed=AT_START, minimum=100,
        doc="Milliseconds between two looks for those.")
    renew_max_time_millis: int = option(
        10_800_000, rocketmq="renewMaxTimeMillis", affects="behaviour", fixed=AT_START, minimum=1,
        doc="Milliseconds after which no more is done for a message.")
    invisible_time_millis_when_clear: int = option(
        1000, rocketmq="invisibleTimeMillisWhenClear", affects="behaviour", fixed=AT_START,
        doc="Milliseconds after which others get what a client had that is gone.")

    # --- producers ------------------------------------------------------------------------------------------
    grpc_client_producer_max_attempts: int = option(
        3, rocketmq="grpcClientProducerMaxAttempts", affects="behaviour", fixed=AT_START, minimum=1, maximum=1000,
        doc="How often producers are told to try a send.")
    grpc_client_producer_backoff_initial_millis: int = option(
        10, rocketmq="grpcClientProducerBackoffInitialMillis", affects="behaviour", fixed=AT_START,
        doc="Milliseconds they are told to wait before the second try.")
    grpc_client_producer_backoff_max_millis: int = option(
        1000, rocketmq="grpcClientProducerBackoffMaxMillis", affects="behaviour", fixed=AT_START,
        doc="Milliseconds they are told to wait at most.")
    grpc_client_producer_backoff_multiplier: int = option(
        2, rocketmq="grpcClientProducerBackoffMultiplier", affects="behaviour", fixed=AT_START, minimum=1, maximum=100,
        doc="How much longer each time.")

    # --- clients --------------------------------------------------------------------------------------------
    grpc_clients_max: int = option(
        20_000, flaremq="grpcClientsMax", affects="behaviour", fixed=AT_START, minimum=16,
        doc="Clients that may be registered at a time.")
    # fmt: on

    # Whether somebody has asked for the port; no option, only the memory of how they were loaded.
    is_port_set: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(self)

    def is_served(self, listen_port: int) -> bool:
        """Whether a broker at this port opens the other one too."""
        return self.grpc_server_port != OFF and (self.is_asked_for or listen_port != 0)

    @property
    def is_asked_for(self) -> bool:
        return self.is_port_set or self.grpc_server_port != DEFAULT_PORT

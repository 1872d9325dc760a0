"""Options of clients: who they are, how long they wait, how much they keep in memory.

Names are RocketMQ's where it has the option. What decides *which* messages a consumer gets, and in which order, is an
argument of its constructor instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from flaremq.client.credentials import Credentials
from flaremq.errors import InvalidArgumentError
from flaremq.options import check_values, option
from flaremq.secret_place import FROM_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What producers, consumers and the admin client share. Immutable."""

    # fmt: off
    access_key: str = option(
        "", rocketmq="accessKey", affects="behaviour",
        doc="Name of the account that signs every request; empty signs none.")
    secret_key: str = option(
        "", rocketmq="secretKey", affects="behaviour", secret=True,
        doc="Secret of the account; `env:NAME` or `file:PATH` says where it is found when a connection is made. It "
            "signs and is never sent, nor shown by `repr` or in an error.")
    secret_key_file: str = option(
        "", flaremq="secretKeyFile", affects="behaviour",
        doc="File with the secret, for its owner's eyes only; the same as `secretKey=file:PATH`.")
    security_token: str = option(
        "", rocketmq="securityToken", affects="behaviour", secret=True,
        doc="Token of a temporary account, sent along and signed; `env:NAME` or `file:PATH` as well.")
    instance_name: str = option(
        "", rocketmq="instanceName", affects="behaviour",
        doc="Last part of the client id. Empty makes one that no other client has; a broadcasting consumer with a name "
            "finds its offsets again after a restart.")
    poll_name_server_interval: int = option(
        30_000, rocketmq="pollNameServerInterval", affects="behaviour", minimum=100,
        doc="Milliseconds between two looks at the routes of the topics in use.")
    heartbeat_broker_interval: int = option(
        30_000, rocketmq="heartbeatBrokerInterval", affects="behaviour", minimum=100,
        doc="Milliseconds between two heartbeats; brokers forget a client after 120 seconds.")
    mq_client_api_timeout: int = option(
        3_000, rocketmq="mqClientApiTimeout", affects="behaviour", minimum=1,
        doc="Milliseconds a request may take that has no timeout of its own.")
    use_tls: bool = option(
        False, rocketmq="useTLS", affects="behaviour", doc="Whether all connections are encrypted.")
    tls_trust_path: str = option(
        "", flaremq="tlsTrustPath", affects="behaviour",
        doc="Certificates, PEM, one of which must have signed a server's; empty means those the system trusts.")
    tls_check_server: bool = option(
        True, flaremq="tlsCheckServer", affects="behaviour",
        doc="Whether a server must prove who it is; false encrypts against listeners but not against impostors.")
    tls_cert_path: str = option(
        "", flaremq="tlsCertPath", affects="behaviour",
        doc="Certificate chain of the client, PEM, for servers that ask for one.")
    tls_key_path: str = option(
        "", flaremq="tlsKeyPath", affects="behaviour", doc="Its private key, PEM.")
    tls_key_password_file: str = option(
        "", flaremq="tlsKeyPasswordFile", affects="behaviour",
        doc="File with the password of the private key, if it has one; only its owner may be able to read it.")
    # fmt: on

    def __post_init__(self) -> None:
        check_values(self)
        if self.secret_key and self.secret_key_file:
            raise InvalidArgumentError("both secretKey and secretKeyFile are given; keep one of them")
        secret = "secretKeyFile" if self.secret_key_file else "secretKey"
        has_secret = bool(self.secret_key or self.secret_key_file)
        if has_secret and not self.access_key:
            raise InvalidArgumentError(f"{secret} is given without accessKey, the name of the account it belongs to")
        if self.access_key and not has_secret:
            raise InvalidArgumentError(f"accessKey={self.access_key!r} is given without its secretKey or secretKeyFile")
        if self.security_token and not self.access_key:
            raise InvalidArgumentError("securityToken is given without accessKey and secretKey")

    def credentials(self) -> Credentials | None:
        """Who signs, secrets looked up where the options say they are; None signs nothing."""
        if not self.access_key:
            return None
        secret_key = FROM_FILE + self.secret_key_file if self.secret_key_file else self.secret_key
        named = Credentials(access_key=self.access_key, secret_key=secret_key, security_token=self.security_token)
        return named.resolved()

    def signed_by(self, credentials: Credentials | None) -> Self:
        """The same options for an account; None leaves it to the options."""
        if credentials is None:
            return self
        if not isinstance(credentials, Credentials):
            raise InvalidArgumentError(f"credentials are Credentials(…), not a {type(credentials).__name__}")
        if self.access_key:
            raise InvalidArgumentError(
                f"both credentials (of {credentials.access_key!r}) and options with accessKey={self.access_key!r} are "
                "given; keep one of them"
            )
        return replace(
            self,
            access_key=credentials.access_key,
            secret_key=credentials.secret_key,
            security_token=credentials.security_token,
        )

    @property
    def timeout(self) -> float:
        """Seconds an ordinary request may take."""
        return self.mq_client_api_timeout / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """How a producer sends. Immutable."""

    # fmt: off
    send_msg_timeout: int = option(
        3_000, rocketmq="sendMsgTimeout", affects="behaviour", minimum=1,
        doc="Milliseconds a broker has to answer a send.")
    send_deadline: int = option(
        60_000, flaremq="sendDeadline", affects="behaviour",
        doc="Milliseconds in which a send is tried again while its broker cannot be reached, so that a restart of a "
            "broker is waited for; 0 leaves it at `retryTimesWhenSendFailed`. The `timeout` of a send replaces it.")
    retry_times_when_send_failed: int = option(
        2, rocketmq="retryTimesWhenSendFailed", affects="behaviour", maximum=100,
        doc="Further tries of a send that was refused, on another broker if there is one; one that was not answered "
            "in time is not tried again, because it may be stored.")
    retry_another_broker_when_not_store_ok: bool = option(
        False, rocketmq="retryAnotherBrokerWhenNotStoreOK", affects="behaviour",
        doc="Whether a message that is stored but not flushed or replicated in time is sent again elsewhere.")
    compress_msg_body_over_howmuch: int = option(
        4_096, rocketmq="compressMsgBodyOverHowmuch", affects="speed",
        doc="Bodies of so many bytes and more are compressed.")
    compress_type: str = option(
        "ZLIB", rocketmq="compressType", affects="speed", choices=("ZLIB", "LZ4", "ZSTD"),
        doc="How bodies are compressed; Go and Node consumers read ZLIB only.")
    max_message_size: int = option(
        4_194_304, rocketmq="maxMessageSize", affects="behaviour", minimum=1,
        doc="Largest body that is sent, in bytes; brokers have a limit of their own.")
    default_topic_queue_nums: int = option(
        4, rocketmq="defaultTopicQueueNums", affects="behaviour", minimum=1,
        doc="Queues of a topic that the first send creates.")
    create_topic_key: str = option(
        "TBW102", rocketmq="createTopicKey", affects="behaviour",
        doc="The topic whose route and settings a topic that does not exist yet inherits.")
    send_latency_enable: bool = option(
        True, rocketmq="sendLatencyEnable", affects="behaviour",
        doc="Whether slow and failing brokers are avoided for a while.")
    auto_batch: bool = option(
        True, rocketmq="autoBatch", affects="speed",
        doc="Whether sends that wait at the same moment travel together; a send that waits alone never waits longer.")
    batch_max_bytes: int = option(
        131_072, rocketmq="batchMaxBytes", affects="speed", minimum=1_024,
        doc="Bytes of bodies that travel together at most.")
    send_window: int = option(
        4, flaremq="sendWindow", affects="speed", minimum=1, maximum=65_536,
        doc="Requests of a topic on their way to one broker before further sends wait, to travel together.")
    # fmt: on

    @property
    def send_timeout(self) -> float:
        return self.send_msg_timeout / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """How a consumer pulls, keeps and reports. Immutable."""

    # fmt: off
    pull_batch_size: int = option(
        128, rocketmq="pullBatchSize", affects="speed", minimum=1, maximum=1024,
        doc="Messages asked for in one pull. RocketMQ's brokers give 32 at most unless told otherwise.")
    pull_threshold_for_queue: int = option(
        1_000, rocketmq="pullThresholdForQueue", affects="speed", minimum=1, maximum=65_535,
        doc="Messages of a queue that are kept in memory before its pulls pause.")
    pull_threshold_size_for_queue: int = option(
        100, rocketmq="pullThresholdSizeForQueue", affects="speed", minimum=1, maximum=1_024,
        doc="The same in MiB.")
    consume_concurrently_max_span: int = option(
        2_000, rocketmq="consumeConcurrentlyMaxSpan", affects="speed", minimum=1, maximum=65_535,
        doc="How far the newest message of a queue in memory may be ahead of the oldest unfinished one.")
    max_reconsume_times: int = option(
        -1, rocketmq="maxReconsumeTimes", affects="behaviour", minimum=-1,
        doc="Deliveries after the first before a message goes to the dead letters; -1 means 16, for orderly consumers "
            "that there is no end.")
    suspend_current_queue_time_millis: int = option(
        1_000, rocketmq="suspendCurrentQueueTimeMillis", affects="behaviour", minimum=10, maximum=30_000,
        doc="Milliseconds an orderly consumer leaves a queue alone after a message of it failed.")
    persist_consumer_offset_interval: int = option(
        5_000, rocketmq="persistConsumerOffsetInterval", affects="behaviour", minimum=10,
        doc="Milliseconds between two reports of how far the group has come.")
    rebalance_interval: int = option(
        20_000, flaremq="rebalanceInterval", affects="behaviour", minimum=100,
        doc="Milliseconds between two looks at who consumes which queue; changes are also announced by brokers.")
    broker_suspend_max_time_millis: int = option(
        15_000, rocketmq="brokerSuspendMaxTimeMillis", affects="behaviour", minimum=0,
        doc="Milliseconds a broker may hold a pull until a message comes.")
    consumer_timeout_millis_when_suspend: int = option(
        30_000, rocketmq="consumerTimeoutMillisWhenSuspend", affects="behaviour", minimum=1,
        doc="Milliseconds such a pull may take in all.")
    consume_timeout: int = option(
        15, rocketmq="consumeTimeout", affects="behaviour", minimum=1,
        doc="Minutes after which a message that is neither done nor failed counts as failed.")
    allocate_message_queue_strategy: str = option(
        "AVG", rocketmq="allocateMessageQueueStrategy", affects="behaviour",
        choices=("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"),
        doc="How the consumers of a group share queues; all of them must use the same.")
    offset_store_path: str = option(
        "", flaremq="offsetStorePath", affects="behaviour",
        doc="Folder for the offsets of broadcasting consumers; empty means .flaremq_offsets in the home folder.")
    # fmt: on

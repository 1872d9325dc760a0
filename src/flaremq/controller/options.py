"""What can be set about a controller: :class:`ControllerOptions`, one row an option.

Names and defaults are those of RocketMQ's ``controller.conf`` where it has them. Two differ: the server listens on
127.0.0.1 unless told otherwise, and where RocketMQ keeps its state in a Raft group of its own, here it is kept in a
folder (``controllerStorePath``) or in etcd (``etcdEndpoints``).

What may be changed over the wire is said row by row (``live``): a list of what is allowed, without any path or address.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import ClassVar, Final

from flaremq.errors import InvalidArgumentError
from flaremq.metrics.options import ControllerMetricsOptions
from flaremq.options import AT_START, IDENTITY, PATH, SECURITY, option
from flaremq.server.options import ServerOptions

ID_PATTERN: Final = r"[A-Za-z0-9_.-]{1,64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions(ServerOptions):
    """Options of one controller. Nothing but :meth:`change` alters an instance."""

    SERVER: ClassVar = "controller"
    METRICS: ClassVar = ControllerMetricsOptions
    # Of RocketMQ 5.x: its Raft groups, paths, network and metrics.
    ONLY_IN_ROCKETMQ: ClassVar = frozenset(
        """
        configBlackList configStorePath controllerDLegerPeers controllerRequestThreadPoolQueueCapacity
        controllerThreadPoolNums controllerType enableControllerInNamesrv jRaftControllerRPCAddr jRaftElectionTimeoutMs
        jRaftGroupId jRaftInitConf jRaftScanWaitTimeoutMs jRaftServerId jRaftSnapshotIntervalSecs mappedFileSize
        metricGrpcExporterHeader metricGrpcExporterIntervalInMills metricGrpcExporterTarget
        metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills metricsInDelta
        processReadEvent rocketmqHome scanInactiveMasterInterval serverAsyncSemaphoreValue
        serverCallbackExecutorThreads serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable
        serverSelectorThreads serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize
        serverWorkerThreads useEpollNativeSelector
        """.split()  # noqa: SIM905  (a list would take a line for each name)
    )

    # A row reads as a row, its name and bounds, then its sentence; the formatter would give each word a line.
    # fmt: off

    # --- who it is and where it listens ---------------------------------------------------------------------
    listen_port: int = option(
        9878, rocketmq="listenPort", affects="behaviour", fixed=IDENTITY, maximum=65535,
        doc="Port to listen at; 0 takes a free one.")
    advertised_address: str = option(
        "", flaremq="advertisedAddress", affects="behaviour", fixed=IDENTITY,
        doc="`host:port` under which brokers find this controller; empty means where it listens.")
    controller_d_leger_group: str = option(
        "group1", rocketmq="controllerDLegerGroup", affects="behaviour", fixed=IDENTITY, pattern=ID_PATTERN,
        form="1 to 64 letters, digits, dots, dashes and underscores",
        doc="Name of the controllers that share one state; with etcd the folder of their keys.")
    controller_d_leger_self_id: str = option(
        "n0", rocketmq="controllerDLegerSelfId", affects="behaviour", fixed=IDENTITY, pattern=ID_PATTERN,
        form="1 to 64 letters, digits, dots, dashes and underscores",
        doc="Name of this one among them.")

    # --- where its state is kept ----------------------------------------------------------------------------
    controller_store_path: str = option(
        "", rocketmq="controllerStorePath", affects="durability", fixed=PATH,
        doc="Folder of the state; empty means `DledgerController` in the home folder.")
    etcd_endpoints: str = option(
        "", flaremq="etcdEndpoints", affects="durability", fixed=PATH,
        doc="`http://host:port,...` of an etcd that keeps the state instead of the folder; several controllers may "
            "share it, and one of them leads.")
    etcd_lease_seconds: int = option(
        5, flaremq="etcdLeaseSeconds", affects="behaviour", fixed=AT_START, minimum=2, maximum=60,
        doc="Seconds after which another controller takes over from one that etcd hears nothing from.")
    etcd_trust_path: str = option(
        "", flaremq="etcdTrustPath", affects="behaviour", fixed=PATH,
        doc="Certificates an etcd at `https://` is checked against; empty means those of the system.")
    etcd_cert_path: str = option(
        "", flaremq="etcdCertPath", affects="behaviour", fixed=PATH, doc="Certificate shown to etcd, PEM.")
    etcd_key_path: str = option(
        "", flaremq="etcdKeyPath", affects="behaviour", fixed=PATH, doc="Its private key, PEM.")
    etcd_user: str = option(
        "", flaremq="etcdUser", affects="behaviour", fixed=SECURITY,
        doc="User of an etcd that asks who is there; it needs to read and write keys below `/flaremq/controller/`.")
    etcd_password: str = option(
        "", flaremq="etcdPassword", affects="behaviour", fixed=SECURITY, secret=True,
        doc="The user's password; `env:NAME` or `file:PATH` says where it is found.")

    # --- brokers --------------------------------------------------------------------------------------------
    scan_not_active_broker_interval: int = option(
        500, rocketmq="scanNotActiveBrokerInterval", affects="behaviour", live=True, minimum=10, maximum=3_600_000,
        doc="Milliseconds between two looks for masters that are no longer heard of. RocketMQ's default is 5000. A "
            "connection that closes is not waited for.")
    enable_elect_unclean_master: bool = option(
        False, rocketmq="enableElectUncleanMaster", affects="durability", live=True,
        doc="Elect a broker outside of the SyncStateSet when nobody in it is alive: acknowledged messages are lost.")
    notify_broker_role_changed: bool = option(
        True, rocketmq="notifyBrokerRoleChanged", affects="behaviour", live=True,
        doc="Tell the brokers of a name at once who was elected; else they find out when they ask.")

    # --- RocketMQ's, without a meaning here -----------------------------------------------------------------
    elect_master_max_retry_count: int = option(
        3, rocketmq="electMasterMaxRetryCount", affects="behaviour", live=True, minimum=1,
        doc="Tries of an election.", unused="it is tried again at every look until it succeeds.")

    # fmt: on

    metrics: ControllerMetricsOptions = field(default_factory=ControllerMetricsOptions)

    def __post_init__(self) -> None:
        super(ControllerOptions, self).__post_init__()  # named: a class with slots is made twice
        if self.address.is_unspecified and not self.advertised_address:
            raise InvalidArgumentError(
                f"option bindAddress={self.bind_address!r} is no address to be found at: set advertisedAddress"
            )
        if self.etcd_endpoints and self.controller_store_path:
            raise InvalidArgumentError("options controllerStorePath and etcdEndpoints exclude each other")
        if bool(self.etcd_cert_path) != bool(self.etcd_key_path):
            raise InvalidArgumentError("options etcdCertPath and etcdKeyPath need each other")
        if bool(self.etcd_user) != bool(self.etcd_password):
            raise InvalidArgumentError("options etcdUser and etcdPassword need each other")

    @property
    def store_folder(self) -> str:
        """The folder of the state."""
        return self.controller_store_path or os.path.join(os.path.expanduser("~"), "DledgerController")

"""What can be set about a controller: :class:`ControllerOptions`, one row an option.

Names and defaults are those of RocketMQ's ``controller.conf`` where it has them. Two differ: the server listens on
127.0.0.1 unless told otherwise, and where RocketMQ keeps its state in a Raft group of its own, here it is kept in a
folder (``controllerStorePath``) or in etcd (``etcdEndpoints``).

What may be changed over the wire is said row by row (``live``): a list of what is allowed, without any path or address.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flaremq.access.options import AccessOptions, check_bind, check_private_file
from flaremq.errors import InvalidArgumentError
from flaremq.metrics.options import ControllerMetricsOptions, check_reach
from flaremq.options import (
    AT_START,
    IDENTITY,
    PATH,
    SECURITY,
    change_live,
    check_values,
    find_unknown_names,
    idle_warnings,
    load_properties,
    option,
    properties_of,
    rows_by_key,
    values_from_properties,
)
from flaremq.remoting.options import RemotingOptions

# Names a controller.conf of RocketMQ 5.x may hold that mean nothing here: its Raft groups, paths, network and metrics.
NOT_IMPLEMENTED: Final = frozenset(
    """
    configBlackList configStorePath controllerDLegerPeers controllerRequestThreadPoolQueueCapacity
    controllerThreadPoolNums controllerType enableControllerInNamesrv jRaftControllerRPCAddr jRaftElectionTimeoutMs
    jRaftGroupId jRaftInitConf jRaftScanWaitTimeoutMs jRaftServerId jRaftSnapshotIntervalSecs mappedFileSize
    metricGrpcExporterHeader metricGrpcExporterIntervalInMills metricGrpcExporterTarget metricGrpcExporterTimeOutInMills
    metricLoggingExporterIntervalInMills metricsInDelta
    processReadEvent rocketmqHome scanInactiveMasterInterval serverAsyncSemaphoreValue
    serverCallbackExecutorThreads serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads
    serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads useEpollNativeSelector
    """.split()  # noqa: SIM905  (a list would take a line for each name)
)
ID_PATTERN: Final = r"[A-Za-z0-9_.-]{1,64}"


def _remoting_options(properties: Mapping[str, str] | None = None) -> RemotingOptions:
    """Brokers open connections to every controller they know and are silent on most of them."""
    values: dict[str, Any] = dict(values_from_properties(RemotingOptions, properties or {}))
    idle = values.get("server_channel_max_idle_time_seconds", RemotingOptions().server_channel_max_idle_time_seconds)
    return RemotingOptions(**{"first_frame_seconds": idle, **values})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """Options of one controller. Nothing but :meth:`change` alters an instance."""

    # A row reads as a row, its name and bounds, then its sentence; the formatter would give each word a line.
    # fmt: off

    # --- who it is and where it listens ---------------------------------------------------------------------
    bind_address: str = option(
        "127.0.0.1", rocketmq="bindAddress", affects="behaviour", fixed=IDENTITY,
        form="an IPv4 or IPv6 address, not a host name",
        doc="Address to listen at. RocketMQ's default is every address of the machine.")
    insecure_bind_enable: bool = option(
        False, flaremq="insecureBindEnable", affects="behaviour", fixed=SECURITY,
        doc="Allow a `bindAddress` that other machines reach without access control: everybody who reaches it may do "
            "everything.")
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

    # Limits and timings of the connections: rows of their own class, loaded from the same file.
    remoting: RemotingOptions = field(default_factory=_remoting_options)
    # What it tells about itself, likewise.
    metrics: ControllerMetricsOptions = field(default_factory=ControllerMetricsOptions)
    # Who may do what, likewise.
    access: AccessOptions = field(default_factory=AccessOptions)
    # Names that were loaded but change nothing; no option, only the memory that `warnings` needs.
    ignored_names: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(self)
        try:
            address = ipaddress.ip_address(self.bind_address)
        except ValueError:
            raise rows_by_key(type(self))["bindAddress"].refusal(self.bind_address) from None
        check_bind(str(address), self.access, insecure=self.insecure_bind_enable)
        check_reach(self.metrics.endpoint, insecure=self.insecure_bind_enable)
        if address.is_unspecified and not self.advertised_address:
            raise InvalidArgumentError(
                f"option bindAddress={self.bind_address!r} is no address to be found at: set advertisedAddress"
            )
        if self.etcd_endpoints and self.controller_store_path:
            raise InvalidArgumentError("options controllerStorePath and etcdEndpoints exclude each other")
        if bool(self.etcd_cert_path) != bool(self.etcd_key_path):
            raise InvalidArgumentError("options etcdCertPath and etcdKeyPath need each other")
        if bool(self.etcd_user) != bool(self.etcd_password):
            raise InvalidArgumentError("options etcdUser and etcdPassword need each other")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ControllerOptions:
        """Options from the names and texts of a ``controller.conf``; unknown names and bad values are refused."""
        unknown = find_unknown_names(
            properties,
            {
                *rows_by_key(cls),
                *rows_by_key(RemotingOptions),
                *rows_by_key(AccessOptions),
                *rows_by_key(ControllerMetricsOptions),
                *NOT_IMPLEMENTED,
            },
        )
        if unknown:
            raise InvalidArgumentError("; ".join(map(str, unknown)))
        values: dict[str, Any] = dict(values_from_properties(cls, properties))
        access: dict[str, Any] = dict(values_from_properties(AccessOptions, properties))
        metrics: dict[str, Any] = dict(values_from_properties(ControllerMetricsOptions, properties))
        ignored = tuple(name for name in properties if name in NOT_IMPLEMENTED)
        return cls(
            **values,
            remoting=_remoting_options(properties),
            metrics=ControllerMetricsOptions(**metrics),
            access=AccessOptions(**access),
            ignored_names=ignored,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None, overrides: Mapping[str, str] | None = None) -> ControllerOptions:
        """Options from a file, if one is given, with ``overrides`` (same names) on top."""
        of_file = load_properties(path) if path is not None else {}
        if path is not None:
            check_private_file(path, of_file)
        return cls.from_properties({**of_file, **(overrides or {})})

    def to_properties(self, *, changed_only: bool = False) -> dict[str, str]:
        """The names and texts that :meth:`from_properties` would read back."""
        own = properties_of(self, changed_only=changed_only)
        network = properties_of(self.remoting, changed_only=changed_only)
        told = properties_of(self.metrics, changed_only=changed_only)
        return {**own, **network, **told, **properties_of(self.access, changed_only=changed_only)}

    def change(self, properties: Mapping[str, str]) -> None:
        """Change options of a running server: all of them, or none and InvalidArgumentError."""
        change_live(properties, [self, self.remoting, self.access, self.metrics])

    @property
    def warnings(self) -> list[str]:
        """A sentence for each thing that was set and will not do what it says."""
        result = [
            f"{name} is ignored: it belongs to a part of RocketMQ's controller that does not exist here"
            for name in self.ignored_names
        ]
        return result + idle_warnings(self)

    @property
    def store_folder(self) -> str:
        """The folder of the state."""
        return self.controller_store_path or os.path.join(os.path.expanduser("~"), "DledgerController")

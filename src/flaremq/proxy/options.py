"""What can be set about a proxy: :class:`ProxyOptions`, and the rows of gRPC, connections and access control beside it.

Names are those of RocketMQ's proxy where it has them; the file is one of properties, not of JSON.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flaremq.access.options import AccessOptions, check_bind, load_private
from flaremq.errors import InvalidArgumentError
from flaremq.grpc.options import OFF, GrpcOptions
from flaremq.options import (
    AT_START,
    IDENTITY,
    SECURITY,
    check_values,
    find_unknown_names,
    option,
    rows_by_key,
    values_from_properties,
)
from flaremq.remoting.address import parse_addresses
from flaremq.remoting.options import RemotingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """Options of one proxy. Immutable."""

    # fmt: off
    namesrv_addr: str = option(
        "", rocketmq="namesrvAddr", affects="behaviour", fixed=IDENTITY,
        doc="Name servers of the cluster, separated by `;`.")
    bind_address: str = option(
        "127.0.0.1", rocketmq="bindAddress", affects="behaviour", fixed=IDENTITY,
        form="an IPv4 or IPv6 address, not a host name",
        doc="Address to listen at; the port is `grpcServerPort`. RocketMQ's proxy listens at every address.")
    insecure_bind_enable: bool = option(
        False, flaremq="insecureBindEnable", affects="behaviour", fixed=SECURITY,
        doc="Allow a `bindAddress` that other machines reach, or `innerClientAuthenticationCredentials`, without "
            "access control: everybody who reaches the proxy may do everything that it may.")
    max_message_size: int = option(
        4 << 20, rocketmq="maxMessageSize", affects="behaviour", fixed=AT_START, minimum=1, maximum=64 << 20,
        doc="Bytes of a body; brokers have a limit of their own.")
    proxy_home: str = option(
        "", flaremq="proxyHome", affects="behaviour", fixed=IDENTITY,
        doc="Folder of accounts (unless `aclHome` or `authConfigPath` name another) and of the audit log; empty means "
            "`proxy` in the home folder. Nothing is kept there without access control.")
    topic_route_cache_millis: int = option(
        5000, flaremq="topicRouteCacheMillis", affects="speed", fixed=AT_START, minimum=0, maximum=600_000,
        doc="Milliseconds for which topics and groups are believed to be as brokers and name servers last said.")
    # fmt: on

    grpc: GrpcOptions = field(default_factory=GrpcOptions)
    remoting: RemotingOptions = field(default_factory=RemotingOptions)
    access: AccessOptions = field(default_factory=AccessOptions)

    def __post_init__(self) -> None:
        check_values(self)
        try:
            ipaddress.ip_address(self.bind_address)
        except ValueError:
            raise rows_by_key(type(self))["bindAddress"].refusal(self.bind_address) from None
        if self.grpc.grpc_server_port == OFF:
            raise InvalidArgumentError("option grpcServerPort=-1 serves nothing: a proxy has no other port")
        check_bind(self.bind_address, self.access, insecure=self.insecure_bind_enable)
        credentials = self.access.inner_client_authentication_credentials.strip()
        if credentials and not self.access.is_enabled and not self.insecure_bind_enable:
            raise InvalidArgumentError(
                "innerClientAuthenticationCredentials would let everybody who reaches this proxy act in that account: "
                "turn access control on here too (authenticationEnabled and authorizationEnabled, or aclEnable), or "
                "set insecureBindEnable=true if they may"
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ProxyOptions:
        """Options from names and texts; unknown names and bad values are refused."""
        kinds = (cls, GrpcOptions, RemotingOptions, AccessOptions)
        unknown = find_unknown_names(properties, {key for kind in kinds for key in rows_by_key(kind)})
        if unknown:
            raise InvalidArgumentError("; ".join(map(str, unknown)))
        own, grpc, remoting, access = (dict[str, Any](values_from_properties(kind, properties)) for kind in kinds)
        return cls(
            **own,
            grpc=GrpcOptions(**grpc),
            remoting=RemotingOptions(**remoting),
            access=AccessOptions(**access),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None, overrides: Mapping[str, str] | None = None) -> ProxyOptions:
        """Options from a file, if one is given, with ``overrides`` (same names) on top."""
        return cls.from_properties(load_private(path, overrides))

    @property
    def layers(self) -> tuple[object, ...]:
        """Its own rows and those of its parts, each as an object of options."""
        return self, self.grpc, self.remoting, self.access

    @property
    def name_servers(self) -> list[str]:
        """Addresses; InvalidArgumentError if there are none."""
        if not self.namesrv_addr.strip():
            raise InvalidArgumentError("a proxy needs name servers: give -n, or namesrvAddr")
        return parse_addresses(self.namesrv_addr)

    @property
    def home(self) -> str:
        return self.proxy_home or os.path.join(os.path.expanduser("~"), "proxy")

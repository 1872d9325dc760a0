"""What can be set about the port of gRPC. Names are those of RocketMQ's proxy where it has them.

Limits that all ports share (connections, slow peers, bytes in flight) stand among the options of the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flaremq.options import AT_START, check_values, option

DEFAULT_PORT: Final = 8081
OFF: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions:
    """The port that clients of RocketMQ 5 in all languages use."""

    # fmt: off
    grpc_server_port: int = option(
        DEFAULT_PORT, rocketmq="grpcServerPort", affects="behaviour", fixed=AT_START, minimum=OFF, maximum=65535,
        doc="Port of gRPC at `bindAddress`: 0 takes a free one, -1 serves none. Where 8081, the default, is taken, a "
            "broker says so and goes on without; any other port must be free. With `listenPort=0` the default serves "
            "none.")
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
    # fmt: on

    def __post_init__(self) -> None:
        check_values(self)

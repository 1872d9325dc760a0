"""Limits and timings of connections, of servers and clients alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flaremq.options import AT_START, PATH, SECURITY, check_values, option
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.descriptors import DEFAULT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotingOptions:
    """Options of one end of the wire. Immutable."""

    # fmt: off
    server_channel_max_idle_time_seconds: int = option(
        120, rocketmq="serverChannelMaxIdleTimeSeconds", affects="behaviour", live=True, minimum=1,
        doc="A connection without traffic in either direction is closed after so many seconds.")
    first_frame_seconds: int = option(
        10, flaremq="firstFrameSeconds", affects="behaviour", live=True, minimum=1,
        doc="Seconds a new connection may be silent.")
    frame_seconds: int = option(
        10, flaremq="frameSeconds", affects="behaviour", live=True, minimum=1,
        doc="Seconds a frame may take from its first byte on, plus one second for every 64 KiB received; and seconds "
            "it may stand still.")
    write_stall_seconds: int = option(
        30, flaremq="writeStallSeconds", affects="behaviour", live=True, minimum=1,
        doc="A peer that reads nothing for so long while replies wait is cut off.")
    connections_max: int = option(
        DEFAULT_MAX, flaremq="connectionsMax", affects="behaviour", live=True, minimum=1,
        doc="Connections a server accepts at a time; fewer where the process may not have descriptors for them.")
    connections_per_address_max: int = option(
        8192, flaremq="connectionsPerAddressMax", affects="behaviour", live=True, minimum=1,
        doc="Connections a server accepts from one address at a time.")
    in_flight_max: int = option(
        8192, flaremq="inFlightMax", affects="behaviour", live=True, minimum=1,
        doc="Requests of one connection that may wait for their replies before the server stops reading from it.")
    in_flight_bytes_max: int = option(
        268_435_456, flaremq="inFlightBytesMax", affects="behaviour", fixed=AT_START, minimum=16_777_216,
        doc="Bytes of requests over all connections that may wait for their replies before the server stops reading.")
    half_received_bytes_max: int = option(
        67_108_864, flaremq="halfReceivedBytesMax", affects="behaviour", fixed=AT_START, minimum=16_777_216,
        doc="Bytes of frames over all connections that are not complete; above it large frames are received one at a "
            "time, and one that stands still is given up.")
    write_buffer_high_bytes: int = option(
        4_194_304, flaremq="writeBufferHighBytes", affects="behaviour", fixed=AT_START, minimum=65_536,
        doc="Unsent reply bytes of a connection at which the server stops reading from it.")
    tls_mode: str = option(
        "disabled", flaremq="tlsMode", affects="behaviour", fixed=AT_START, choices=("disabled", "permissive",
        "enforcing"),
        doc="TLS on the same port: never, if the client begins with it, or always.")
    tls_cert_path: str = option(
        "", flaremq="tlsCertPath", affects="behaviour", fixed=PATH,
        doc="Certificate chain of the server, PEM. It is shown to other servers as well. A change of this and the "
            "files below is noticed within seconds, and new connections get it.")
    tls_key_path: str = option(
        "", flaremq="tlsKeyPath", affects="behaviour", fixed=PATH, doc="Private key of the server, PEM.")
    tls_key_password_file: str = option(
        "", flaremq="tlsKeyPasswordFile", affects="behaviour", fixed=PATH,
        doc="File with the password of the private key, if it has one; only its owner may be able to read it.")
    tls_trust_path: str = option(
        "", flaremq="tlsTrustPath", affects="behaviour", fixed=PATH,
        doc="Certificates, PEM, that sign for clients (see `tlsClientAuth`) and for other servers; empty asks clients "
            "for nothing, and takes what the system trusts for servers.")
    tls_client_auth: str = option(
        "auto", flaremq="tlsClientAuth", affects="behaviour", fixed=SECURITY,
        choices=("auto", "none", "optional", "require"),
        doc="Whether clients that speak TLS are asked for a certificate, and must show one. `auto`: they must where "
            "`tlsTrustPath` is set.")
    tls_outgoing: str = option(
        "auto", flaremq="tlsOutgoing", affects="behaviour", fixed=SECURITY, choices=("auto", "always", "never"),
        doc="Whether the server speaks TLS to name servers, controllers and other brokers. `auto`: where its own "
            "`tlsMode` is enforcing.")
    # fmt: on

    # How a server signs its own requests to others, where those ask who it is; no option of this class.
    sign: Callable[[RemotingCommand], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(self)

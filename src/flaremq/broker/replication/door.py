"""Door: who may fetch the log, and whom a slave believes to be its master.

RocketMQ's HA port hands the log to everybody who connects and counts every number it gets as an acknowledgement. Here
a peer comes in by its address (``haPeerAllow``; without a secret that is this machine, unless told otherwise)
or by proving the shared secret (``haSecretFile``), and with ``haTlsMode`` both ends show certificates as well.
RocketMQ's own brokers can prove nothing: beside a secret they are let in, and connected to, by address only.

Where access control asks everybody who they are, being on this machine is no answer here either: the secret is then
that of the servers' own account, or whoever has a shell would read by this port what every other one refuses.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from dataclasses import dataclass, field
from time import monotonic

from flaremq.access.addresses import host_of
from flaremq.access.attempts import Attempts
from flaremq.access.inner import own_account
from flaremq.access.options import AccessOptions
from flaremq.broker.options import BrokerOptions, parse_networks
from flaremq.broker.replication.challenge import check_secret
from flaremq.errors import InvalidArgumentError
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.tls import TlsContext, TlsSettings, own_files

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LOOPBACK: tuple[_Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_SECRET_FILE_MAX = 4096


@dataclass(frozen=True, slots=True)
class Door:
    """What both ends of the HA port ask of a peer. ``networks``: who needs no secret."""

    group: str  # cluster/brokerName: a slave of another group is turned away
    networks: tuple[_Network, ...] = LOOPBACK
    secret: bytes | None = None
    server_tls: TlsContext | None = None
    client_tls: TlsContext | None = None
    connections_max: int = 64
    attempts: Attempts = field(default_factory=lambda: Attempts(monotonic), compare=False)  # of proving the secret

    @classmethod
    def of(cls, options: BrokerOptions, remoting: RemotingOptions) -> Door:
        """The door that a broker's options ask for; reads the secret and the certificates, so not on a loop."""
        secret = read_secret(options.ha_secret_file) if options.ha_secret_file else _secret_of_servers(options.access)
        networks = parse_networks(options.ha_peer_allow)
        nobody_is_asked = secret is None and not options.access.is_enabled
        server = client = None
        if options.ha_tls_mode == "enforcing":
            server, client = _tls_contexts(remoting, options.ha_tls_trust_path or remoting.tls_trust_path)
        return cls(
            group=f"{options.broker_cluster_name}/{options.broker_name}",
            networks=networks or (LOOPBACK if nobody_is_asked else ()),
            secret=secret,
            server_tls=server,
            client_tls=client,
            connections_max=options.ha_connections_max,
        )

    def admits(self, host: str) -> bool:
        """Whether a peer at this address needs no secret."""
        address = _address(host)
        return address is not None and any(address in network for network in self.networks)

    def admits_nobody_at(self, host: str) -> bool:
        """Whether nothing that a peer at this address could say would let it in."""
        return self.secret is None and not self.admits(host)

    def guessed(self, host: str) -> None:
        """A peer at this address gave a wrong proof."""
        self.attempts.guessed(_plain(host), "")

    def guesses_too_often(self, host: str) -> bool:
        """Whether no proof from there is looked at for now: the secret may be made of that of an account, and nobody
        tries more of those here than elsewhere."""
        return self.attempts.guesses_too_often(_plain(host), "")


def read_secret(path: str) -> bytes:
    """The shared secret in a file that only its owner may read; blanks around it do not count."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_SECRET_FILE_MAX + 1)
    except OSError as error:
        raise InvalidArgumentError(f"haSecretFile {path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise InvalidArgumentError(
            f"haSecretFile {path} has mode {stat.S_IMODE(mode):04o}: others could read it (chmod 600)"
        )
    if len(text) > _SECRET_FILE_MAX:
        raise InvalidArgumentError(f"haSecretFile {path} has more than {_SECRET_FILE_MAX} bytes")
    return check_secret(text.strip())


def _secret_of_servers(access: AccessOptions) -> bytes | None:
    """What servers of one account share; not the key itself, so that no proof given here says anything about it."""
    account = own_account(access) if access.is_enabled else None
    if account is None:
        return None
    name, key = account
    return hmac.digest(key.encode(), b"flaremq HA\0" + name.encode(), "sha256")


def _plain(host: str) -> str:
    """The text by which one address is always called."""
    return host_of(f"[{host}]:0")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _tls_contexts(remoting: RemotingOptions, trust_path: str) -> list[TlsContext]:
    """Of the end that listens and the one that connects: each shows a certificate and asks for one that the trusted
    ones signed."""
    if not (remoting.tls_cert_path and remoting.tls_key_path and trust_path):
        raise InvalidArgumentError(
            "haTlsMode=enforcing needs tlsCertPath, tlsKeyPath and haTlsTrustPath (or tlsTrustPath)"
        )
    return [
        TlsContext.of(TlsSettings(is_server=is_server, proof="require", trust_path=trust_path, **own_files(remoting)))
        for is_server in (True, False)
    ]

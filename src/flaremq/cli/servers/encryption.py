"""Encryption: what ``flaremq up --tls`` turns on, and with whose certificates.

All ports then speak TLS and nothing else, and so do the servers among themselves. What a user set by name stands:
``tlsMode=permissive`` lets in who cannot encrypt, certificates of his own replace those that would be made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flaremq.cli.servers.serve import Server
from flaremq.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flaremq.cli.servers.development_ca import DevelopmentCA

_OWN: Final = ("tlsCertPath", "tlsKeyPath", "tlsKeyPasswordFile", "tlsTrustPath")


@dataclass(frozen=True, slots=True)
class Encryption:
    """Options on top of what the user set. Without a CA the certificates are the user's."""

    options: Mapping[str, str]
    ca: DevelopmentCA | None
    takes_plain: bool

    @classmethod
    def of(cls, data: str, given: Mapping[str, str], hosts: Iterable[str]) -> Encryption:
        """``given``: what the user set. Makes certificates below ``data`` if they are needed."""
        mode = given.get("tlsMode", "enforcing")
        if mode == "disabled":
            raise InvalidArgumentError("--tls and tlsMode=disabled contradict each other")
        options = {"tlsMode": mode, "tlsOutgoing": "always", "haTlsMode": "enforcing"}
        ca = None
        own = [name for name in _OWN if given.get(name)]
        if not own:
            from flaremq.cli.servers.development_ca import DevelopmentCA

            ca = DevelopmentCA(data, hosts)
            ca.ensure()
            options |= {"tlsCertPath": ca.cert_path, "tlsKeyPath": ca.key_path, "tlsTrustPath": ca.trust_path}
            options["tlsClientAuth"] = "none"  # the trusted ones sign for servers; nobody has made one for clients
        elif not {"tlsCertPath", "tlsKeyPath"}.issubset(own):
            raise InvalidArgumentError(
                f"--tls with {' and '.join(own)} needs tlsCertPath and tlsKeyPath as well: it uses certificates of "
                "yours, or makes its own"
            )
        return cls({name: text for name, text in options.items() if name not in given}, ca, mode == "permissive")

    @property
    def keepers(self) -> list[Server]:
        """What keeps certificates from expiring while servers run."""
        return [] if self.ca is None else [self.ca]

    @property
    def advice(self) -> str:
        """How clients connect, in words for who started the servers."""
        also = "TLS, and plain connections too" if self.takes_plain else "TLS only"
        if self.ca is None:
            return f"Connections: {also}, with the certificates that were named (tlsCertPath)"
        path = self.ca.trust_path
        return f"Connections: {also}. Clients trust {path}: --tls-trust PATH, or export FLAREMQ_TLS_TRUST={path}"

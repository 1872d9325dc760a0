"""TLS contexts of both ends: made from options, and made anew when their files change.

Certificates are renewed while servers run. So nobody keeps an ``ssl.SSLContext``: whoever opens or takes a connection
asks a :class:`TlsContext` for the one of now. Files are compared by content, because a renewal may keep size and time.
A certificate and its key are two files, and nobody replaces two files at once: what does not fit together, or cannot be
read, leaves the last good context in place, and the log says so once. Connections that stand are left alone.

Host names are not checked at either end: name servers hand out addresses, and certificates seldom name those. What
counts is who signed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import ssl
import stat
import threading
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from flaremq.errors import InvalidArgumentError
from flaremq.remoting.options import RemotingOptions

LOOK_SECONDS: Final = 2.0  # between two looks at the files
_FILE_MAX: Final = 16 << 20  # bytes; all certificates that a system trusts are some hundred KB
_PASSWORD_MAX: Final = 1024
_log = logging.getLogger(__name__)

Proof = Literal["none", "optional", "require"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What a context is made of. Paths: what the files hold may change, and the context follows."""

    is_server: bool
    proof: Proof  # whether the other end must show a certificate that a trusted one signed
    cert_path: str = ""
    key_path: str = ""
    key_password_path: str = ""
    trust_path: str = ""  # empty: what the system trusts
    alpn: tuple[str, ...] = ()  # what is spoken over it, where that is agreed upon in the handshake

    @classmethod
    def of_server(cls, options: RemotingOptions) -> TlsSettings:
        """For the port of a server. Sees to it that nothing is missing."""
        if not options.tls_cert_path or not options.tls_key_path:
            raise InvalidArgumentError(f"tlsMode={options.tls_mode} needs tlsCertPath and tlsKeyPath")
        proof = options.tls_client_auth
        if proof == "auto":
            proof = "require" if options.tls_trust_path else "none"
        if proof != "none" and not options.tls_trust_path:
            raise InvalidArgumentError(f"tlsClientAuth={proof} needs tlsTrustPath, which says who signs for clients")
        return cls(is_server=True, proof=_proof(proof), trust_path=options.tls_trust_path, **own_files(options))

    @classmethod
    def of_outgoing(cls, options: RemotingOptions) -> TlsSettings:
        """For the connections that a server opens to other servers."""
        return cls(is_server=False, proof="require", trust_path=options.tls_trust_path, **own_files(options))


def own_files(options: RemotingOptions) -> dict[str, Any]:
    """The certificate that a server shows, as arguments of :class:`TlsSettings`."""
    return {
        "cert_path": options.tls_cert_path,
        "key_path": options.tls_key_path,
        "key_password_path": options.tls_key_password_file,
    }


def _proof(text: str) -> Proof:
    assert text in ("none", "optional", "require")  # as the option's row has it
    return text  # type: ignore[return-value]


# Ports and clients with the same files share a context, and so do a broker's ports with those that it opens anew when
# its role changes: files that are broken at that moment must not keep it from going on. Nothing outlives its users.
_shared: WeakValueDictionary[TlsSettings, TlsContext] = WeakValueDictionary()


class TlsContext:
    """A context that follows its files. ``current`` and ``fresh`` on any loop, ``look`` on any thread."""

    def __init__(self, settings: TlsSettings) -> None:
        """InvalidArgumentError if the files cannot be used. Reads them."""
        self._settings = settings
        self._seen = _digest(settings)
        self.current = _build(settings)
        self._looked_at = monotonic()
        self._lock = threading.Lock()  # one look at a time; guards _seen and _refused
        self._refused = b""  # what was found last and could not be used
        _warn_of_readable_key(settings)

    @classmethod
    def of(cls, settings: TlsSettings) -> TlsContext:
        """The context for these settings, which others may use already."""
        context = _shared.get(settings)
        if context is None:
            context = _shared[settings] = cls(settings)
        return context

    @property
    def is_due(self) -> bool:
        """Whether it is time to look at the files again."""
        return monotonic() - self._looked_at >= LOOK_SECONDS

    async def fresh(self) -> ssl.SSLContext:
        """The context for a connection that begins now. If it is time, the files are looked at first, not here."""
        if self.is_due:
            self._looked_at = monotonic()
            await asyncio.to_thread(self.look)
        return self.current

    def look(self) -> None:
        """Take the files as they are now, if they have changed and can be used. Blocks."""
        with self._lock:
            found = _digest(self._settings)
            if found in (self._seen, self._refused):
                return
            names = " and ".join(_paths(self._settings))
            try:
                context = _build(self._settings)
            except InvalidArgumentError as error:
                self._refused = found
                _log.error("the TLS files have changed, but the last good ones stay in use: %s", error)
                return
            if _digest(self._settings) != found:
                return  # they are just being replaced: the next look will find them complete
            self.current = context
            self._seen, self._refused = found, b""
            _log.info("new connections use the TLS files %s as they are now", names)


def server_tls(options: RemotingOptions) -> TlsContext | None:
    """The context of a server's port; None where TLS is disabled."""
    return None if options.tls_mode == "disabled" else TlsContext.of(TlsSettings.of_server(options))


def outgoing_tls(options: RemotingOptions) -> TlsContext | None:
    """The context of the connections that a server opens to others; None where they are plain."""
    mode = options.tls_outgoing
    if mode == "never" or (mode == "auto" and options.tls_mode != "enforcing"):
        return None
    return TlsContext.of(TlsSettings.of_outgoing(options))


def certificate_name(tls: ssl.SSLObject | None) -> str | None:
    """The common name in the certificate of the other end; None unless it showed one that was checked."""
    certificate = None if tls is None else tls.getpeercert()
    if not certificate:
        return None
    subject: Any = certificate.get("subject", ())
    return next((value for parts in subject for name, value in parts if name == "commonName"), "")


def _build(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if settings.is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = _VERIFY[settings.proof]
    if settings.alpn:
        context.set_alpn_protocols(list(settings.alpn))
    if settings.cert_path or settings.key_path:
        _load_own(context, settings)
    if settings.proof == "none":
        return context
    if not settings.trust_path:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH if settings.is_server else ssl.Purpose.SERVER_AUTH)
        return context
    try:
        context.load_verify_locations(settings.trust_path)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(
            f"the trusted certificates in {settings.trust_path} cannot be used: {_reason(error)}"
        ) from None
    return context


_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}


def _load_own(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if not settings.cert_path or not settings.key_path:
        raise InvalidArgumentError("tlsCertPath and tlsKeyPath need each other")
    password = _read_password(settings.key_password_path) if settings.key_password_path else b""
    try:
        # Without a password of ours OpenSSL would ask for it on the terminal, and a server would stand still.
        context.load_cert_chain(settings.cert_path, settings.key_path, password=lambda: password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InvalidArgumentError(
            f"the TLS certificate {settings.cert_path} with the key {settings.key_path} cannot be used: "
            f"{_reason(error)}"
        ) from None


def _read_password(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_PASSWORD_MAX + 1).strip()
    except OSError as error:
        raise InvalidArgumentError(f"tlsKeyPasswordFile {path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise InvalidArgumentError(
            f"tlsKeyPasswordFile {path} has mode {stat.S_IMODE(mode):04o}: others could read it (chmod 600)"
        )
    if not text or len(text) > _PASSWORD_MAX:
        raise InvalidArgumentError(f"tlsKeyPasswordFile {path} is empty or has more than {_PASSWORD_MAX} bytes")
    return text


def _reason(error: Exception) -> str:
    """In words: OpenSSL has them as FUNCTION_OR_REASON."""
    if isinstance(error, ssl.SSLError):
        if not error.reason:
            return "it is no PEM file with what is needed"
        words = error.reason.lower().replace("_", " ")
        return "the two do not belong together" if "mismatch" in words else words
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _paths(settings: TlsSettings) -> list[str]:
    paths = (settings.cert_path, settings.key_path, settings.key_password_path, settings.trust_path)
    return [path for path in dict.fromkeys(paths) if path]


def _digest(settings: TlsSettings) -> bytes:
    """Of all files. One that cannot be read counts as a content of its own."""
    digest = hashlib.sha256()
    for path in _paths(settings):
        try:
            with open(path, "rb") as file:
                data = b"+" + file.read(_FILE_MAX)
        except OSError as error:
            data = f"-{error.errno}".encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def _warn_of_readable_key(settings: TlsSettings) -> None:
    if not settings.key_path:
        return
    mode = stat.S_IMODE(os.stat(settings.key_path).st_mode)
    if mode & stat.S_IRWXO:
        _log.warning("the private key %s has mode %04o: everybody here can read it", settings.key_path, mode)

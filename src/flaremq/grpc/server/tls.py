"""TLS of the port: the server's certificate, or one for development that nobody has signed."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import ssl
import tempfile
from dataclasses import replace
from typing import Final

from flaremq.errors import InvalidArgumentError
from flaremq.grpc.options import GrpcOptions
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.tls import TlsContext, TlsSettings
from flaremq.remoting.tls_acceptor import Contexts

_ALPN: Final = ("h2",)
_DAYS: Final = 397
_log = logging.getLogger(__name__)


def tls_mode(options: GrpcOptions, remoting: RemotingOptions) -> str:
    """`disabled`, `permissive` or `enforcing`."""
    if options.grpc_tls_mode != "auto":
        return options.grpc_tls_mode
    if remoting.tls_mode == "enforcing":
        return "enforcing"
    return "permissive" if remoting.tls_cert_path or options.tls_test_mode_enable else "disabled"


def contexts(options: GrpcOptions, remoting: RemotingOptions) -> Contexts | None:
    """None where TLS is disabled. Reads files; InvalidArgumentError if they cannot be used."""
    mode = tls_mode(options, remoting)
    if mode == "disabled":
        return None
    if remoting.tls_cert_path or remoting.tls_key_path or remoting.tls_mode != "disabled":
        return TlsContext.of(replace(TlsSettings.of_server(remoting), alpn=_ALPN))
    if options.tls_test_mode_enable:
        return DevelopmentContext()
    raise InvalidArgumentError(f"grpcTlsMode={mode} needs tlsCertPath and tlsKeyPath, or tlsTestModeEnable=true")


class DevelopmentContext:
    """A certificate for this machine, made when the first client asks for it: most servers never need it."""

    def __init__(self) -> None:
        self._making: asyncio.Future[ssl.SSLContext] | None = None

    async def fresh(self) -> ssl.SSLContext:
        if self._making is None:
            _log.warning(
                "a client begins with TLS, and there is no tlsCertPath: it is shown a certificate for localhost that "
                "nobody has signed"
            )
            self._making = asyncio.ensure_future(asyncio.to_thread(_development_context))
        return await asyncio.shield(self._making)


def _development_context() -> ssl.SSLContext:
    certificate, key = _self_signed()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(_ALPN))
    with tempfile.TemporaryDirectory(prefix="flaremq-tls-") as folder:  # the context reads nothing but files
        path = os.path.join(folder, "pair.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key + certificate)
        context.load_cert_chain(path)
    return context


def _self_signed() -> tuple[bytes, bytes]:
    from cryptography import x509  # some megabytes that other servers save
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    return certificate.public_bytes(encoding), key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)

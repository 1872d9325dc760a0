"""DevelopmentCA: the certificates of ``flaremq up --tls``, for who has no certificate authority of his own.

In ``flaremq.tls`` below the data folder are two pairs, made at the first start and kept:

    ca.pem       ca.key       signs; clients are told to trust ca.pem
    server.pem   server.key   what all servers of the folder show, to clients and to each other

Everything that expires is made anew in good time, when a server starts and once a day while it runs. Keys stay as they
are then: a renewal replaces one file, so no reader ever finds a certificate beside another one's key, and clients that
trust the old ``ca.pem`` go on until it expires. Who takes ``ca.key`` away has certificates until the last one expires.
"""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import logging
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from flaremq.errors import InvalidArgumentError

FOLDER: Final = "flaremq.tls"
ALWAYS: Final = ("localhost", "127.0.0.1", "::1")  # names of this machine for itself
_CA_DAYS: Final = 3650
_SERVER_DAYS: Final = 397  # more is refused by the systems of some clients
_RENEWED_DAYS: Final = 30  # before the end
_LOOK_SECONDS: Final = 86_400.0
_SKEW: Final = timedelta(hours=1)  # by which a client's clock may be behind ours
_log = logging.getLogger(__name__)


class DevelopmentCA:
    """The files of one data folder. ``with``-less: nothing stays open."""

    def __init__(self, data: str, hosts: Iterable[str]) -> None:
        """``hosts``: under which names and addresses the servers are found, besides those of this machine."""
        self.folder = os.path.join(os.path.abspath(data), FOLDER)
        self.trust_path, self._ca_key_path = self._paths("ca")
        self.cert_path, self.key_path = self._paths("server")
        self._names = _alternative_names([*ALWAYS, *hosts])
        self._task: asyncio.Task[None] | None = None

    def _paths(self, name: str) -> tuple[str, str]:
        return os.path.join(self.folder, f"{name}.pem"), os.path.join(self.folder, f"{name}.key")

    def ensure(self, now: datetime | None = None) -> None:
        """See to it that there are certificates which are good for a while. Blocks; InvalidArgumentError."""
        now = now or datetime.now(UTC)
        os.makedirs(os.path.dirname(self.folder), mode=0o750, exist_ok=True)  # as a store makes it
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        with _locked(self.folder):
            ca = _read_certificate(self.trust_path)
            if ca is None or _ends_soon(ca, now):
                ca = self._renew_ca(ca, now)
            own = _read_certificate(self.cert_path)
            if own is None or not self._is_for_us(own, ca) or not self._is_ours(own):
                self._renew_own(ca, now)
            elif _ends_soon(own, now):
                if own.not_valid_after_utc > now and _read_key(self._ca_key_path) is None:
                    _log.warning("%s expires on %s: %s is missing", *self._end_of(own))
                else:
                    self._renew_own(ca, now)

    def _end_of(self, own: x509.Certificate) -> tuple[str, str, str]:
        return self.cert_path, own.not_valid_after_utc.date().isoformat(), self._ca_key_path

    def _is_for_us(self, own: x509.Certificate, ca: x509.Certificate) -> bool:
        """Whether a certificate is the CA's and has all names."""
        try:
            own.verify_directly_issued_by(ca)
            names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        return set(self._names) <= set(names)

    def _is_ours(self, own: x509.Certificate) -> bool:
        key = _read_key(self.key_path)
        return key is not None and key.public_key() == own.public_key()

    def _renew_ca(self, old: x509.Certificate | None, now: datetime) -> x509.Certificate:
        key = _read_key(self._ca_key_path)
        if key is None and old is not None and old.not_valid_after_utc > now:
            return old  # its key was taken away
        is_new = key is None or old is None or key.public_key() != old.public_key()
        key = key or _new_key(self._ca_key_path)
        name = _name("FlareMQ development CA")
        builder = _builder(name, name, key, now, now + timedelta(days=_CA_DAYS))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = _usage(key_cert_sign=True, crl_sign=True)
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        _write(self.trust_path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        if old is not None:
            what = "is new: clients need it" if is_new else "was renewed: give it to clients before the old one expires"
            _log.warning("the development CA %s %s", self.trust_path, what)
        return certificate

    def _renew_own(self, ca: x509.Certificate, now: datetime) -> None:
        ca_key = _read_key(self._ca_key_path)
        if ca_key is None or ca_key.public_key() != ca.public_key():
            raise InvalidArgumentError(
                f"a certificate for {_spelled(self._names)} is needed, and the key of {self.trust_path} is not in "
                f"{self._ca_key_path}: put it back, or remove {self.folder} to begin anew (clients need the new ca.pem)"
            )
        key = _read_key(self.key_path) or _new_key(self.key_path)
        end = min(now + timedelta(days=_SERVER_DAYS), ca.not_valid_after_utc)
        builder = _builder(_name("FlareMQ server"), ca.subject, key, now, end)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
        # Servers show it to each other too, as clients.
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(purposes, critical=False)
            .add_extension(authority, critical=False)
            .add_extension(x509.SubjectAlternativeName(self._names), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        _write(self.cert_path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)

    # As one of the servers that a command starts and stops

    async def start(self) -> None:
        """Look after the certificates from now on."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await asyncio.to_thread(self.ensure)
            except (OSError, InvalidArgumentError) as error:
                _log.error("the certificates in %s could not be looked after: %s", self.folder, error)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Two commands on one folder take turns."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _alternative_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    names: dict[x509.GeneralName, None] = {}
    for host in hosts:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            names[_dns_name(host)] = None
        else:
            if not address.is_unspecified:
                names[x509.IPAddress(address)] = None
    return list(names)


def _dns_name(host: str) -> x509.DNSName:
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InvalidArgumentError(f"{host!r} is no name that a certificate can have") from None


def _spelled(names: Iterable[x509.GeneralName]) -> str:
    return ", ".join(str(name.value) for name in names)


def _ends_soon(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc - now < timedelta(days=_RENEWED_DAYS)


def _read_certificate(path: str) -> x509.Certificate | None:
    """None if there is none, or one that cannot be read: then it is made anew."""
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read())
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from None


def _read_key(path: str) -> ec.EllipticCurvePrivateKey | None:
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise InvalidArgumentError(f"{path} has mode {mode:04o}: others could read it (chmod 600)")
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidArgumentError(f"{path} is no key that was made here: remove it, and another one is made")
    return key


def _new_key(path: str) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    _write(path, key.private_bytes(encoding, form, serialization.NoEncryption()), 0o600)
    return key


def _write(path: str, text: bytes, mode: int) -> None:
    """Replace a file at once; nobody else may read it before it has its mode."""
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f"{name}.", dir=folder)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )

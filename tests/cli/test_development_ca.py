"""The certificates that ``flaremq up --tls`` makes: once, for whom, until when, and who may read what."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from flaremq.cli.servers import development_ca
from flaremq.cli.servers.development_ca import FOLDER, DevelopmentCA
from flaremq.errors import InvalidArgumentError
from tests.support.broker_lab import until

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def certificate(path: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(path).read_bytes())


def names(path: str) -> set[str]:
    found = certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in found}


def content(ca: DevelopmentCA) -> dict[str, bytes]:
    return {name: (Path(ca.folder) / name).read_bytes() for name in sorted(os.listdir(ca.folder))}


def made(tmp_path: Path, *hosts: str, now: datetime = NOW) -> DevelopmentCA:
    ca = DevelopmentCA(str(tmp_path), hosts)
    ca.ensure(now)
    return ca


def is_signed(server: str, trusted: x509.Certificate) -> bool:
    certificate(server).verify_directly_issued_by(trusted)
    return True


def test_certificates_are_made_once_and_kept(tmp_path: Path) -> None:
    ca = made(tmp_path)
    before = content(ca)
    assert list(before) == ["ca.key", "ca.pem", "server.key", "server.pem"]
    assert content(made(tmp_path, now=NOW + timedelta(days=300))) == before


def test_only_the_owner_reads_keys(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ca = made(tmp_path)
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((Path(ca.folder) / name).stat().st_mode) for name in os.listdir(ca.folder)}
    assert modes == {"ca.key": 0o600, "server.key": 0o600, "ca.pem": 0o644, "server.pem": 0o644}
    assert stat.S_IMODE(os.stat(ca.folder).st_mode) == 0o700


def test_server_is_known_by_the_names_of_this_machine_and_those_it_listens_at(tmp_path: Path) -> None:
    ca = made(tmp_path, "192.0.2.7", "0.0.0.0", "::", "broker.example.org", "127.0.0.1")
    assert names(ca.cert_path) == {"localhost", "127.0.0.1", "::1", "192.0.2.7", "broker.example.org"}


def test_a_new_address_gets_a_new_certificate_of_the_same_authority_and_key(tmp_path: Path) -> None:
    before = content(made(tmp_path))
    after = content(made(tmp_path, "192.0.2.7"))
    assert {name for name in after if after[name] != before[name]} == {"server.pem"}
    assert content(made(tmp_path)) == after, "a certificate with more names is as good"


def test_certificate_that_is_about_to_expire_is_renewed_with_its_key(tmp_path: Path) -> None:
    before = content(made(tmp_path))
    later = NOW + timedelta(days=380)
    ca = made(tmp_path, now=later)
    after = content(ca)
    assert {name for name in after if after[name] != before[name]} == {"server.pem"}
    assert certificate(ca.cert_path).not_valid_after_utc > later + timedelta(days=300)
    assert is_signed(ca.cert_path, certificate(ca.trust_path))


def test_clients_that_trust_the_old_authority_go_on_with_the_renewed_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = made(tmp_path)
    old = certificate(ca.trust_path)
    made(tmp_path, now=NOW + timedelta(days=3640))
    assert certificate(ca.trust_path).not_valid_after_utc > old.not_valid_after_utc + timedelta(days=3000)
    assert is_signed(ca.cert_path, old)
    assert "was renewed: give it to clients" in caplog.text


def test_certificate_is_believed_by_a_client_that_looks_at_names_and_purposes(tmp_path: Path) -> None:
    ca = DevelopmentCA(str(tmp_path), ["192.0.2.7"])
    ca.ensure()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(ca.cert_path, ca.key_path)
    client = ssl.create_default_context(cafile=ca.trust_path)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    for name in ("localhost", "192.0.2.7"):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = (
            client.wrap_bio(to_client, to_server, server_hostname=name),
            server.wrap_bio(to_server, to_client, server_side=True),
        )
        for _ in range(3):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    pass
        assert ends[0].version() == "TLSv1.3"


def test_without_the_authoritys_key_servers_go_on_until_a_certificate_is_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = made(tmp_path)
    (Path(ca.folder) / "ca.key").unlink()
    before = content(ca)
    made(tmp_path)
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        made(tmp_path, now=NOW + timedelta(days=380))
    assert "expires on" in caplog.text and "ca.key is missing" in caplog.text
    for later, hosts in ((400, ()), (0, ("192.0.2.7",))):
        with pytest.raises(InvalidArgumentError, match=r"ca\.key: put it back, or remove"):
            made(tmp_path, *hosts, now=NOW + timedelta(days=later))
    assert content(ca) == before


def test_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ca = made(tmp_path)
    for name in ("ca.key", "server.key"):
        path = Path(ca.folder) / name
        path.chmod(0o640)
        with pytest.raises(InvalidArgumentError, match=r"has mode 0640: others could read it \(chmod 600\)"):
            made(tmp_path, "192.0.2.9")
        path.chmod(0o600)


def test_what_is_damaged_is_made_anew_but_a_key_is_not_thrown_away(tmp_path: Path) -> None:
    ca = made(tmp_path)
    Path(ca.cert_path).write_text("-----BEGIN CERTIFICATE-----\nhalf", encoding="ascii")
    made(tmp_path)
    assert is_signed(ca.cert_path, certificate(ca.trust_path))
    (Path(ca.folder) / "server.key").write_text("half", encoding="ascii")
    with pytest.raises(InvalidArgumentError, match=r"server\.key is no key that was made here"):
        made(tmp_path)


def test_certificate_of_another_key_or_authority_is_replaced(tmp_path: Path) -> None:
    ca, other = made(tmp_path / "a"), made(tmp_path / "b")
    Path(ca.cert_path).write_bytes(Path(other.cert_path).read_bytes())
    made(tmp_path / "a")
    assert is_signed(ca.cert_path, certificate(ca.trust_path))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(ca.cert_path, ca.key_path)


def test_name_that_no_certificate_can_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'brök' is no name that a certificate can have"):
        DevelopmentCA(str(tmp_path), ["brök"])
    assert not (tmp_path / FOLDER).exists()


def test_certificates_are_looked_after_while_servers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(development_ca, "_LOOK_SECONDS", 0.01)

    async def scenario() -> None:
        ca = DevelopmentCA(str(tmp_path), [])
        ca.ensure(NOW - timedelta(days=5000))
        old = certificate(ca.cert_path)
        assert old.not_valid_after_utc < datetime.now(UTC)
        await ca.start()
        await until(lambda: certificate(ca.cert_path) != old, "a new one")
        assert certificate(ca.cert_path).not_valid_after_utc > datetime.now(UTC)
        os.chmod(ca.key_path, 0o644)
        await until(lambda: "could not be looked after" in caplog.text, "a complaint")
        os.chmod(ca.key_path, 0o600)
        Path(ca.cert_path).unlink()
        await until(lambda: os.path.exists(ca.cert_path), "it goes on")
        await ca.stop()

    asyncio.run(scenario())

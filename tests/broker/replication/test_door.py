"""The door: who is let in by address, what a secret file must look like, what TLS needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.access.options import AccessOptions
from flaremq.broker.options import BrokerOptions
from flaremq.broker.replication.door import Door, read_secret
from flaremq.errors import InvalidArgumentError
from flaremq.remoting.options import RemotingOptions

TLS = Path(__file__).parents[2] / "remoting"
CERTIFICATE, KEY = str(TLS / "test-server.pem"), str(TLS / "test-server.key")


def door(**options: object) -> Door:
    return Door.of(replace(BrokerOptions(), **options), RemotingOptions())  # type: ignore[arg-type]


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"  correct horse battery\n")
    path.chmod(0o600)
    return path


def test_without_options_this_machine_is_let_in_and_nobody_else() -> None:
    here = door()
    assert here.admits("127.0.0.1") and here.admits("127.8.8.8") and here.admits("::1")
    assert here.admits("::ffff:127.0.0.1")
    assert here.admits_nobody_at("10.0.0.7") and here.admits_nobody_at("not an address")
    assert here.group == "DefaultCluster/broker-a"


def test_listed_addresses_and_networks_are_let_in_instead() -> None:
    here = door(ha_peer_allow="10.0.0.7; 10.1.0.0/16,fd00::/8")
    assert here.admits("10.0.0.7") and here.admits("10.1.200.3") and here.admits("fd00::12%eth0")
    assert here.admits_nobody_at("10.0.0.8") and here.admits_nobody_at("127.0.0.1")


def test_beside_a_secret_only_listed_addresses_need_not_prove_it(secret_file: Path) -> None:
    here = door(ha_secret_file=str(secret_file))
    assert here.secret == b"correct horse battery"
    assert not here.admits("127.0.0.1") and not here.admits_nobody_at("127.0.0.1")
    assert not here.admits_nobody_at("192.168.0.1")
    listed = door(ha_secret_file=str(secret_file), ha_peer_allow="10.0.0.7")
    assert listed.admits("10.0.0.7") and not listed.admits("127.0.0.1")


def access(inner: str = "") -> AccessOptions:
    return AccessOptions(authentication_enabled=True, inner_client_authentication_credentials=inner)


INNER = '{"accessKey":"inner","secretKey":"short"}'


def test_with_access_control_nobody_is_let_in_by_being_on_this_machine() -> None:
    here = door(access=access())
    assert here.admits_nobody_at("127.0.0.1") and here.admits_nobody_at("::1")
    listed = door(access=access(), ha_peer_allow="127.0.0.1")
    assert listed.admits("127.0.0.1") and listed.secret is None


def test_with_access_control_brokers_prove_that_they_know_the_account_of_the_servers(secret_file: Path) -> None:
    here = door(access=access(INNER))
    assert here.secret == door(access=access(INNER)).secret
    assert not here.admits("127.0.0.1") and not here.admits_nobody_at("10.0.0.7")
    others = (INNER.replace("short", "another"), INNER.replace('"inner"', '"other"'))
    assert len({here.secret, *(door(access=access(other)).secret for other in others)}) == 3
    assert here.secret is not None and b"short" not in here.secret and len(here.secret) >= 32
    assert door(access=access(INNER), ha_secret_file=str(secret_file)).secret == b"correct horse battery"


@pytest.mark.parametrize("text", ["10.0.0.7/33", "master.example", "10.0.0.1;;x"])
def test_list_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="haPeerAllow"):
        BrokerOptions(ha_peer_allow=text)


def test_secret_that_others_may_read_is_refused(secret_file: Path) -> None:
    secret_file.chmod(0o640)
    with pytest.raises(InvalidArgumentError, match="0640"):
        read_secret(str(secret_file))


def test_secret_that_is_missing_short_or_huge_is_refused(secret_file: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        read_secret(str(tmp_path / "none"))
    secret_file.write_bytes(b"short")
    with pytest.raises(InvalidArgumentError, match="too short"):
        read_secret(str(secret_file))
    secret_file.write_bytes(bytes(5000))
    with pytest.raises(InvalidArgumentError, match="4096"):
        read_secret(str(secret_file))


def test_tls_needs_certificates_of_both_ends() -> None:
    options = BrokerOptions(ha_tls_mode="enforcing")
    with pytest.raises(InvalidArgumentError, match="haTlsTrustPath"):
        Door.of(options, RemotingOptions(tls_cert_path=CERTIFICATE, tls_key_path=KEY))
    with pytest.raises(InvalidArgumentError, match="cannot be used"):
        Door.of(options, RemotingOptions(tls_cert_path=KEY, tls_key_path=CERTIFICATE, tls_trust_path=CERTIFICATE))
    here = Door.of(options, RemotingOptions(tls_cert_path=CERTIFICATE, tls_key_path=KEY, tls_trust_path=CERTIFICATE))
    assert here.server_tls is not None and here.client_tls is not None

"""Java clients that sign, over TLS alone, with a certificate of their own: nobody else comes in."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.interop.wire import accounts, java_client, probe, programs
from tests.interop.wire.selection import require
from tests.support.certificate import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("access-tls")]

_SCENARIOS = ("send_batch", "push_tags", "transaction_decided")
_CASES = [(accounts.ACL, "4.9.7"), (accounts.AUTH, "5.5.0")]


@pytest.mark.parametrize(("generation", "version"), _CASES)
def test_accounts_over_tls_with_client_certificates(generation: str, version: str, tmp_path: Path) -> None:
    require(programs.why_no_java(version))
    authority = Authority(tmp_path / "certificates")
    server, server_key = authority.issue("server")
    client, client_key = authority.issue("client")
    encrypted = {
        "tlsMode": "enforcing",
        "tlsCertPath": str(server),
        "tlsKeyPath": str(server_key),
        "tlsTrustPath": str(authority.trust_path),
    }
    known = ssl.create_default_context(cafile=str(authority.trust_path))
    known.check_hostname = False
    known.load_cert_chain(client, client_key)
    java = {
        **accounts.java_properties(),
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(authority.trust_path),
        "tls.client.certPath": str(client),
        "tls.client.keyPath": str(client_key),
    }
    with accounts.guarded("flaremq", generation, tmp_path / "servers", more=encrypted, tls=known) as started:
        if generation == accounts.AUTH:
            how = {"use_tls": True, "tls_trust_path": str(authority.trust_path)}
            accounts.make_users(started, **how, tls_cert_path=str(client), tls_key_path=str(client_key))
        assert not probe.has_route(started.name_server, signer=accounts.ADMIN)
        stranger = ssl.create_default_context(cafile=str(authority.trust_path))
        stranger.check_hostname = False
        assert not probe.has_route(started.name_server, signer=accounts.ADMIN, tls=stranger)
        results = java_client.run(
            started, version, programs.JSON, _SCENARIOS, run="wtls", scratch=tmp_path, properties=java
        )
    failed = {name: result["error"] for name, result in results.items() if not result["ok"]}
    assert not failed
    assert set(results) == set(_SCENARIOS)

"""Java clients that speak TLS, and those that do not, on the same ports of our servers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.wire import java_client, programs, servers
from tests.interop.wire.selection import require

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("tls")]

_SCENARIOS = ("send_sync", "send_batch", "push_tags", "push_rebalance")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Options that turn TLS on, with a certificate made for this run."""
    require(None if shutil.which("openssl") else "openssl not found: it makes the certificate")
    folder = tmp_path_factory.mktemp("certificate")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, capture_output=True, check=True)
    return {
        "tlsMode": "permissive",
        "tlsCertPath": str(folder / "cert.pem"),
        "tlsKeyPath": str(folder / "key.pem"),
    }


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_clients_with_and_without_tls_share_the_ports(
    version: str, certificate: dict[str, str], tmp_path: Path
) -> None:
    require(programs.why_no_java(version))
    results: dict[str, programs.Result] = {}
    with servers.started(
        "flaremq+flaremq", tmp_path / "servers", options=certificate, name_server_options=certificate
    ) as started:
        for name, properties in (("tls", {"tls.enable": "true", "tls.client.authServer": "false"}), ("plain", {})):
            found = java_client.run(
                started, version, programs.JSON, _SCENARIOS, run=f"w{name}", scratch=tmp_path, properties=properties
            )
            results |= {f"{name} {scenario}": result for scenario, result in found.items()}
    failed = {name: result["error"] for name, result in results.items() if not result["ok"]}
    assert not failed
    assert len(results) == 2 * len(_SCENARIOS)

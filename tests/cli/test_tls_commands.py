"""Certificates on the command line: what stops a server, and what commands show to one that asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.certificate import Authority
from tests.support.cli import flaremq
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server

VARIABLES = ("FLAREMQ_TLS_TRUST", "FLAREMQ_TLS_CERT", "FLAREMQ_TLS_KEY", "FLAREMQ_TLS_KEY_PASSWORD_FILE")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
@pytest.mark.parametrize("command", ["namesrv", "broker", "controller", "up"])
def test_bad_key_or_certificate_stops_the_start(tmp_path: Path, command: str, mode: str) -> None:
    certificate, key = Authority(tmp_path).issue("server")
    _, other_key = Authority(tmp_path, "other").issue("other")
    place = [] if command == "namesrv" else ["--data", tmp_path / "data"]
    if command == "up":
        place += ["--broker-listen", "127.0.0.1:0"]
    for cert_path, key_path, words in (
        (certificate, other_key, "the two do not belong together"),
        (key, key, f"the TLS certificate {key}"),
        (tmp_path / "absent.pem", key, "No such file"),
        (certificate, "", "tlsCertPath and tlsKeyPath"),
    ):
        named = [f"tlsMode={mode}", f"tlsCertPath={cert_path}", f"tlsKeyPath={key_path}"]
        arguments = [part for one in named for part in ("--set", one)]
        outcome = flaremq(command, "--listen", "127.0.0.1:0", *place, *arguments)
        assert outcome.code == 2 and outcome.out == "", outcome
        assert words in outcome.err and outcome.err.count("\n") == 1


@dataclass(frozen=True)
class Cluster:
    """Servers that ask everybody for a certificate."""

    name_server: str
    authority: Authority


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    certificate, key = authority.issue("server")
    conf = folder / "broker.conf"
    conf.write_text(
        f"tlsCertPath={certificate}\ntlsKeyPath={key}\ntlsTrustPath={authority.trust_path}\n", encoding="utf-8"
    )
    port = free_ports(2)
    listen = ["--listen", f"127.0.0.1:{port}", "--broker-listen", f"127.0.0.1:{port + 10}"]
    with server("up", "--tls", "-c", conf, "--data", folder / "data", *listen, *SMALL, cwd=folder) as up:
        up.ready()
        yield Cluster(f"127.0.0.1:{port}", authority)
        assert up.stop() == 0


@pytest.mark.slow
def test_command_shows_the_certificate_that_its_options_name(cluster: Cluster) -> None:
    certificate, key = cluster.authority.issue("ops")
    trust = ["--tls-trust", cluster.authority.trust_path]
    question = ["cluster", "status", "-n", cluster.name_server]
    assert flaremq(*question, *trust, "--tls-cert", certificate, "--tls-key", key).code == 0
    assert flaremq("--tls-cert", certificate, "--tls-key", key, *question, *trust).code == 0, "before the command too"
    mqadmin = flaremq("mqadmin", "clusterList", *question[2:], *trust, "--tls-cert", certificate, "--tls-key", key)
    assert mqadmin.code == 0 and "broker-a" in mqadmin.out
    for missing in ([], ["--tls"], trust, ["--tls-cert", certificate, "--tls-key", key]):
        assert flaremq(*question, *missing).code == 3
    for plain in (["topic", "list"], ["message", "send", "orders", "x"]):
        assert "who does not begin with it: --tls-trust" in flaremq(*plain, "-n", cluster.name_server).err
    outcome = flaremq(*question, *trust, "--tls-cert", certificate)
    assert outcome.code == 2 and "need each other" in outcome.err


@pytest.mark.slow
def test_environment_names_certificates_and_the_command_line_wins(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = cluster.authority.issue("locked", password=b"open sesame")
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("open sesame\n", encoding="ascii")
    for name, path in zip(VARIABLES, (cluster.authority.trust_path, certificate, key, password), strict=True):
        monkeypatch.setenv(name, str(path))
    question = ["topic", "list", "-n", cluster.name_server]
    password.chmod(0o644)
    outcome = flaremq(*question)
    assert outcome.code == 2 and "chmod 600" in outcome.err and "sesame" not in outcome.err
    password.chmod(0o600)
    assert flaremq(*question).code == 0
    other = Authority(tmp_path, "other")
    for asked in (question, ["topic", "route", "T", *question[2:]]):
        outcome = flaremq(*asked, "--tls-trust", other.trust_path)
        assert outcome.code == 3 and "is not signed by a certificate that is trusted" in outcome.err, outcome

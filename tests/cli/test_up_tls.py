"""``flaremq up --tls`` as its users run it: processes, the commands of docs/security.md, our client."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from flaremq.cli.servers.encryption import Encryption
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.options import ConsumerOptions, ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.errors import AccessDeniedError, FlareMQError, InvalidArgumentError
from flaremq.message.message import Message
from tests.support.certificate import Authority
from tests.support.cli import flaremq
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


def where() -> tuple[list[str], int]:
    port = free_ports(3)
    return ["--listen", f"127.0.0.1:{port}", "--broker-listen", f"127.0.0.1:{port + 10}"], port


def plain_is_refused(port: int) -> bool:
    """Whether a server hangs up on a frame without TLS."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall((25).to_bytes(4, "big") + (21).to_bytes(4, "big") + b'{"code":106,"flag":0}')
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True


def version(port: int, trust: Path | str) -> str | None:
    """What a client that checks certificates and names speaks there."""
    context = ssl.create_default_context(cafile=trust)
    with (
        socket.create_connection(("127.0.0.1", port), 20) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as encrypted,
    ):
        return encrypted.version()


async def send(producer: Producer) -> None:
    """The name server learns of a new user within seconds, from the file that it shares with the broker."""
    async with asyncio.timeout(60):
        while True:
            try:
                await producer.send(Message("orders", b"over TLS"))
            except AccessDeniedError:
                await asyncio.sleep(0.1)
            else:
                return


async def passes_a_message(name_server: str, **account: str) -> bytes:
    """The body of a message that went there and back, by our client."""
    trust = {"use_tls": True, "tls_trust_path": os.environ["FLAREMQ_TLS_TRUST"]}
    async with Producer(name_server, options=ProducerOptions(**trust, **account)) as producer:  # type: ignore[arg-type]
        await send(producer)
    options = ConsumerOptions(**trust, **account)  # type: ignore[arg-type]
    async with Consumer(
        name_server, group="billing", subscribe="orders", start_from="first", options=options
    ) as consumer:
        message = await consumer.receive(60)
        assert message is not None
        return message.body


def documented() -> tuple[list[str], dict[str, str], str]:
    """The three commands at the top of docs/security.md: arguments, exported variables, a line for a shell."""
    block = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").split("```")[1]
    first, second, third = block.replace("\\\n", " ").strip().splitlines()
    exported = dict(word.split("=", 1) for word in shlex.split(second)[1:])
    return shlex.split(first)[1:], exported, third


@pytest.mark.slow
def test_the_commands_of_the_security_page_work_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, exported, third = documented()
    addresses, port = where()
    name_server = f"127.0.0.1:{port}"
    with server(*command, *addresses, *SMALL, cwd=tmp_path) as up:
        assert "is ready" in up.ready()
        advice = up.ready()
        trust = tmp_path / exported["FLAREMQ_TLS_TRUST"]
        assert "TLS only" in advice and f"export FLAREMQ_TLS_TRUST={trust}" in advice
        shell = f'flaremq() {{ {shlex.quote(sys.executable)} -m flaremq "$@"; }}; {third}'
        path = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        outcome = subprocess.run(
            ["bash", "-c", shell],
            cwd=tmp_path,
            env={**os.environ, **path, **exported, "NAMESRV_ADDR": name_server},
            input="app-secret\n",
            capture_output=True,
            text=True,
        )
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert version(port, trust) == version(port + 10, trust) == version(port + 8, trust) == "TLSv1.3"
        assert plain_is_refused(port) and plain_is_refused(port + 10) and plain_is_refused(port + 8)
        monkeypatch.setenv("FLAREMQ_TLS_TRUST", str(trust))
        assert asyncio.run(passes_a_message(name_server, access_key="app", secret_key="app-secret")) == b"over TLS"
        for key, text in exported.items():
            monkeypatch.setenv(key, text if key != "FLAREMQ_TLS_TRUST" else str(trust))
        assert "app" in flaremq("user", "list", "-n", name_server).out
        monkeypatch.delenv("FLAREMQ_TLS_TRUST")
        assert flaremq("user", "list", "-n", name_server).code == 3
        assert flaremq("user", "list", "-n", name_server, "--tls-trust", trust).code == 0
        assert up.stop() == 0


@pytest.mark.slow
def test_replicas_and_controller_are_encrypted_too_and_the_certificates_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses, port = where()
    # Before the command it means the same, as with commands that connect.
    arguments = ["--tls", "up", "--replicas", 2, "--data", tmp_path / "data", *addresses, *SMALL]
    trust = tmp_path / "data" / "flaremq.tls" / "ca.pem"
    monkeypatch.setenv("FLAREMQ_TLS_TRUST", str(trust))
    certificates = []
    for _ in range(2):
        with server(*arguments, cwd=tmp_path) as up:
            line = up.ready()
            assert "2 replicas" in line, "they found the controller, and follow each other"
            found = sorted(int(address.rpartition(":")[2]) for address in ADDRESS.findall(line))
            assert found == [port, port + 2, port + 10, port + 20]
            for one in (*found, port + 8, port + 18):  # and the ports for old clients
                assert version(one, trust) == "TLSv1.3"
                assert plain_is_refused(one)
            for one in (port + 11, port + 21):  # the master's for slaves asks for a certificate too
                with socket.create_connection(("127.0.0.1", one), 20) as connection:
                    connection.sendall(bytes(8))
                    assert connection.recv(1) in (b"", b"\x15"), "an alert of TLS, or nothing at all"
            assert asyncio.run(passes_a_message(f"127.0.0.1:{port}")) == b"over TLS"
            assert up.stop() == 0
        certificates.append([path.read_bytes() for path in sorted(trust.parent.iterdir())])
    assert certificates[0] == certificates[1]


@pytest.mark.slow
def test_certificates_and_mode_of_the_user_win(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "own")
    certificate, key = authority.issue("server")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"tlsCertPath={certificate}\ntlsKeyPath={key}\ntlsTrustPath={authority.trust_path}\n")
    addresses, port = where()
    arguments = ["up", "--tls", "--data", tmp_path / "data", *addresses, *SMALL, "-c", conf]
    with server(*arguments, "--set", "tlsMode=permissive", "--set", "tlsClientAuth=optional", cwd=tmp_path) as up:
        up.ready()
        assert "plain connections too" in up.ready()
        context = ssl.create_default_context(cafile=authority.trust_path)
        context.check_hostname = False
        with (
            socket.create_connection(("127.0.0.1", port), 20) as connection,
            context.wrap_socket(connection) as encrypted,
        ):
            assert encrypted.version() == "TLSv1.3"
        topics = flaremq("topic", "list", "-n", f"127.0.0.1:{port}")
        assert (topics.code, topics.err) == (0, "")
        assert up.stop() == 0
        assert up.errors == ""
    assert not (tmp_path / "data" / "flaremq.tls").exists()


# Decided before anything starts


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["tlsMode=disabled"], "--tls and tlsMode=disabled contradict each other"),
        (["tlsTrustPath=ca.pem"], "needs tlsCertPath and tlsKeyPath as well"),
        (["tlsCertPath=a.pem", "tlsKeyPasswordFile=b"], "--tls with tlsCertPath and tlsKeyPasswordFile needs"),
        (["tlsMode=sometimes"], "tlsMode"),
        (["maxMessageSize=-1"], "maxMessageSize"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_made(tmp_path: Path, settings: list[str], words: str) -> None:
    arguments = [part for setting in settings for part in ("--set", setting)]
    outcome = flaremq("up", "--tls", "--data", tmp_path / "data", *arguments)
    assert outcome.code == 2 and words in outcome.err and outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_everything_is_encrypted_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    folder = tmp_path / "flaremq.tls"
    assert Encryption.of(str(tmp_path), {}, []).options == {
        "tlsMode": "enforcing",
        "tlsOutgoing": "always",
        "haTlsMode": "enforcing",
        "tlsCertPath": str(folder / "server.pem"),
        "tlsKeyPath": str(folder / "server.key"),
        "tlsTrustPath": str(folder / "ca.pem"),
        "tlsClientAuth": "none",
    }
    given = {"tlsClientAuth": "require", "tlsOutgoing": "never", "haTlsMode": "disabled", "tlsMode": "permissive"}
    assert not given.keys() & Encryption.of(str(tmp_path), given, []).options.keys()


def test_keys_that_others_can_read_stop_the_start(tmp_path: Path) -> None:
    Encryption.of(str(tmp_path), {}, [])
    (tmp_path / "flaremq.tls" / "ca.key").chmod(0o644)
    with pytest.raises(InvalidArgumentError, match="chmod 600"):
        Encryption.of(str(tmp_path), {}, ["192.0.2.1"])


def test_client_that_trusts_nobody_for_it_gets_nothing_sent(tmp_path: Path) -> None:
    with pytest.raises(FlareMQError, match=r"nowhere\.pem"):
        Producer("127.0.0.1:1", options=ProducerOptions(use_tls=True, tls_trust_path=str(tmp_path / "nowhere.pem")))

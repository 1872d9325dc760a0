"""Whom a server asks for a certificate, what it learns from one, and what files stop its start."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer
from flaremq.remoting.tls import TlsContext, TlsSettings
from tests.support.certificate import Authority


def name_shown(connection: Connection, _: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(remark=str(connection.peer_certificate_name))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def server_options(authority: Authority, mode: str = "enforcing", **more: str) -> RemotingOptions:
    certificate, key = authority.issue("server")
    options = RemotingOptions(tls_mode=mode, tls_cert_path=str(certificate), tls_key_path=str(key))
    return replace(options, **more)  # type: ignore[arg-type]


def client_context(trusted: Authority, shown: tuple[Path, Path] | None) -> TlsContext:
    cert_path, key_path = ("", "") if shown is None else map(str, shown)
    trust_path = str(trusted.trust_path)
    return TlsContext(
        TlsSettings(is_server=False, proof="require", trust_path=trust_path, cert_path=cert_path, key_path=key_path)
    )


async def ask(options: RemotingOptions, context: TlsContext | None) -> str | None:
    """The name that the server sees in the client's certificate."""
    table = HandlerTable()
    table.register(1, name_shown)
    server = RemotingServer(table, options)
    await server.start("127.0.0.1", 0)
    client = RemotingClient(tls=context)
    try:
        return (await client.request(f"127.0.0.1:{server.port}", RemotingCommand.request(1), 20)).remark
    finally:
        await client.close()
        await server.stop()


# Certificates of clients


@pytest.mark.parametrize(
    ("client_auth", "without", "known", "strange"),
    [
        ("none", "None", "None", "None"),
        ("optional", "None", "ops", ""),
        ("require", "", "ops", ""),
        ("auto", "", "ops", ""),
    ],
)
def test_client_is_asked_for_a_certificate_as_the_option_says(
    tmp_path: Path, authority: Authority, client_auth: str, without: str, known: str, strange: str
) -> None:
    options = server_options(authority, tls_trust_path=str(authority.trust_path), tls_client_auth=client_auth)
    pairs = [
        (without, None),
        (known, authority.issue("ops")),
        (strange, Authority(tmp_path / "strange", "strange").issue("ops")),
    ]
    for expected, pair in pairs:
        context = client_context(authority, pair)
        if expected:
            assert asyncio.run(ask(options, context)) == expected
        else:
            with pytest.raises(UnavailableError):
                asyncio.run(ask(options, context))


def test_nobody_is_asked_for_a_certificate_where_nobody_is_trusted(authority: Authority) -> None:
    context = client_context(authority, authority.issue("ops"))
    assert asyncio.run(ask(server_options(authority), context)) == "None"


def test_plain_client_of_a_permissive_server_shows_nothing(authority: Authority) -> None:
    options = server_options(
        authority, "permissive", tls_trust_path=str(authority.trust_path), tls_client_auth="require"
    )
    assert asyncio.run(ask(options, None)) == "None"
    with pytest.raises(UnavailableError):
        asyncio.run(ask(options, client_context(authority, None)))


def test_server_of_another_authority_is_not_talked_to(tmp_path: Path, authority: Authority) -> None:
    with pytest.raises(UnavailableError):
        asyncio.run(ask(server_options(authority), client_context(Authority(tmp_path, "other"), None)))


# What servers show each other


def test_server_shows_its_certificate_to_other_servers_and_checks_theirs(authority: Authority) -> None:
    options = server_options(authority, tls_trust_path=str(authority.trust_path))

    async def scenario() -> str | None:
        table = HandlerTable()
        table.register(1, name_shown)
        server = RemotingServer(table, options)
        await server.start("127.0.0.1", 0)
        client = RemotingClient(options)  # auto: enforcing servers encrypt what they send, too
        try:
            return (await client.request(f"127.0.0.1:{server.port}", RemotingCommand.request(1), 20)).remark
        finally:
            await client.close()
            await server.stop()

    assert asyncio.run(scenario()) == "server"


# Files that stop the start


def start(options: RemotingOptions) -> None:
    RemotingServer(HandlerTable(), options)


def test_certificate_and_key_must_be_there_and_belong_together(tmp_path: Path, authority: Authority) -> None:
    good = server_options(authority)
    other_key = str(authority.issue("other")[1])
    empty = tmp_path / "empty.pem"
    empty.touch()
    for wrong, words in (
        ({"tls_cert_path": str(tmp_path / "absent.pem")}, "No such file"),
        ({"tls_key_path": str(tmp_path / "absent.pem")}, "No such file"),
        ({"tls_key_path": other_key}, "the two do not belong together"),
        ({"tls_cert_path": good.tls_key_path}, "cannot be used"),
        ({"tls_key_path": good.tls_cert_path}, "cannot be used"),
        ({"tls_cert_path": str(empty)}, "cannot be used"),
        ({"tls_key_path": ""}, "needs tlsCertPath and tlsKeyPath"),
        ({"tls_trust_path": str(empty)}, "trusted certificates"),
        ({"tls_trust_path": str(tmp_path / "absent.pem")}, "trusted certificates"),
        ({"tls_client_auth": "require"}, "needs tlsTrustPath"),
    ):
        for mode in ("permissive", "enforcing"):
            with pytest.raises(InvalidArgumentError, match=words):
                start(replace(good, tls_mode=mode, **wrong))  # type: ignore[arg-type]


def test_key_with_a_password_needs_a_file_that_only_the_owner_reads(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("locked", password=b"open sesame")
    password = tmp_path / "password"
    options = RemotingOptions(tls_mode="enforcing", tls_cert_path=str(certificate), tls_key_path=str(key))
    with pytest.raises(InvalidArgumentError, match="cannot be used"):  # and nobody is asked on the terminal
        start(options)
    options = replace(options, tls_key_password_file=str(password))
    for content, mode, words in (
        ("open sesame", 0o640, r"has mode 0640: others could read it \(chmod 600\)"),
        ("wrong", 0o600, "cannot be used"),
        ("", 0o600, "is empty"),
        ("x" * 2000, 0o600, "more than 1024 bytes"),
    ):
        password.write_text(content, encoding="ascii")
        password.chmod(mode)
        with pytest.raises(InvalidArgumentError, match=words) as refusal:
            start(options)
        assert content == "" or content not in str(refusal.value)
    password.unlink()
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        start(options)
    password.touch(0o600)
    password.write_text("open sesame\n", encoding="ascii")
    assert asyncio.run(ask(options, client_context(authority, None))) == "None"


def test_key_that_everybody_can_read_is_said_in_the_log(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    options = server_options(authority)
    os.chmod(options.tls_key_path, 0o644)
    with caplog.at_level(logging.WARNING):
        start(options)
    assert "has mode 0644: everybody here can read it" in caplog.text

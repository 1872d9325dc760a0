"""Certificates are renewed while servers run: new connections get the new one, old ones go on, mistakes change
nothing."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.errors import UnavailableError
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting import server as server_module
from flaremq.remoting import tls
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer
from flaremq.remoting.tls import TlsContext, TlsSettings
from tests.support.broker_lab import until
from tests.support.certificate import Authority


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(server_module, "_SWEEP_SECONDS", 0.02)


class Lab:
    """A server whose certificate changes, and clients that trust the authority."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.authority = Authority(folder)
        self.certificate, self.key = self.authority.issue("server")
        options = RemotingOptions(
            tls_mode="permissive", tls_cert_path=str(self.certificate), tls_key_path=str(self.key)
        )
        self.options = replace(options, **more)  # type: ignore[arg-type]

    def run(self, scenario: Callable[[RemotingServer], Awaitable[None]]) -> None:
        async def main() -> None:
            table = HandlerTable()
            table.register(1, lambda _, request: RemotingCommand.response(body=request.body_bytes))
            server = RemotingServer(table, self.options)
            await server.start("127.0.0.1", 0)
            try:
                await asyncio.wait_for(scenario(server), 60)
            finally:
                await server.stop()

        asyncio.run(main())

    async def shown(self, server: RemotingServer) -> bytes:
        """The certificate that a new connection gets."""
        context = ssl.create_default_context(cafile=self.authority.trust_path)
        context.check_hostname = False
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        assert isinstance(certificate, bytes)
        return certificate

    async def until_shown(self, server: RemotingServer, wanted: bytes) -> None:
        async with asyncio.timeout(30):
            while await self.shown(server) != wanted:
                await asyncio.sleep(0.01)

    def of_file(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text(encoding="ascii"))

    def client(self) -> RemotingClient:
        settings = TlsSettings(is_server=False, proof="require", trust_path=str(self.authority.trust_path))
        return RemotingClient(tls=TlsContext(settings))


def test_renewed_pair_is_for_new_connections_and_old_ones_go_on_under_traffic(tmp_path: Path) -> None:
    lab = Lab(tmp_path)

    async def scenario(server: RemotingServer) -> None:
        client, answered = lab.client(), 0
        address = f"127.0.0.1:{server.port}"
        connection = await client.connect(address)

        async def traffic() -> None:
            nonlocal answered
            while True:
                body = answered.to_bytes(4, "big") * 1000
                reply = await client.request(address, RemotingCommand.request(1, None, body), 20)
                assert reply.body_bytes == body
                answered += 1

        asking = asyncio.create_task(traffic())
        for _ in range(3):
            before = lab.of_file()
            assert await lab.shown(server) == before
            lab.authority.issue("server")
            assert lab.of_file() != before
            await lab.until_shown(server, lab.of_file())
            seen = answered
            await until(lambda: answered > seen + 20 or asking.done())  # noqa: B023 - awaited at once
            assert not asking.done()
        assert client.connected(address) is connection, "it was never made anew"
        asking.cancel()
        await client.close()

    lab.run(scenario)


@pytest.mark.parametrize(
    "broken", ["half a certificate", "half a key", "another key", "no key", "an empty certificate"]
)
def test_broken_or_half_replaced_pair_leaves_the_last_good_one_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    lab = Lab(tmp_path)

    async def scenario(server: RemotingServer) -> None:
        good = lab.of_file()
        certificate, key = lab.certificate.read_bytes(), lab.key.read_bytes()
        if broken == "half a certificate":
            lab.certificate.write_bytes(certificate[: len(certificate) // 2])
        elif broken == "half a key":
            lab.key.write_bytes(key[: len(key) // 2])
        elif broken == "another key":
            lab.key.write_bytes(lab.authority.issue("other")[1].read_bytes())
        elif broken == "no key":
            lab.key.unlink()
        else:
            lab.certificate.write_bytes(b"")
        await until(lambda: "the last good ones stay in use" in caplog.text)
        for _ in range(20):
            assert await lab.shown(server) == good
        assert caplog.text.count("the last good ones stay in use") == 1
        assert str(lab.key) in caplog.text
        lab.authority.issue("server")  # the rest of the renewal
        await lab.until_shown(server, lab.of_file())

    with caplog.at_level(logging.INFO):
        lab.run(scenario)
    assert "new connections use the TLS files" in caplog.text


def test_new_key_with_a_new_password_is_taken(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("first", encoding="ascii")
    lab = Lab(tmp_path / "authority", tls_key_password_file=str(password))
    lab.authority.issue("server", password=b"first")

    async def scenario(server: RemotingServer) -> None:
        before = await lab.shown(server)
        lab.authority.issue("server", password=b"second")
        assert await lab.shown(server) == before
        password.write_text("second", encoding="ascii")
        await lab.until_shown(server, lab.of_file())

    lab.run(scenario)


def test_clients_that_are_no_longer_trusted_are_kept_out_from_then_on(tmp_path: Path) -> None:
    clients = Authority(tmp_path / "clients", "clients")
    lab = Lab(tmp_path / "servers", tls_mode="enforcing", tls_trust_path=str(clients.trust_path))
    certificate, key = map(str, clients.issue("app"))
    settings = TlsSettings(
        is_server=False,
        proof="require",
        trust_path=str(lab.authority.trust_path),
        cert_path=certificate,
        key_path=key,
    )

    async def is_served(server: RemotingServer) -> bool:
        client = RemotingClient(tls=TlsContext(settings))
        try:
            await client.request(f"127.0.0.1:{server.port}", RemotingCommand.request(1), 20)
        except UnavailableError:
            return False
        else:
            return True
        finally:
            await client.close()

    async def scenario(server: RemotingServer) -> None:
        assert await is_served(server)
        Authority(tmp_path / "clients", "clients")  # another key under the same name
        async with asyncio.timeout(30):
            while await is_served(server):
                await asyncio.sleep(0.01)

    lab.run(scenario)


def test_client_follows_the_certificates_that_it_trusts(tmp_path: Path) -> None:
    """A cluster gets another authority: clients that were told of it need no new start."""
    lab = Lab(tmp_path)

    async def scenario(server: RemotingServer) -> None:
        client = lab.client()
        address = f"127.0.0.1:{server.port}"
        before = lab.of_file()
        lab.authority = Authority(tmp_path)
        lab.authority.issue("server")
        assert lab.of_file() != before
        async with asyncio.timeout(30):
            while True:
                try:
                    await client.request(address, RemotingCommand.request(1), 20)
                except UnavailableError:
                    await asyncio.sleep(0.01)  # one of the two ends has not looked yet
                else:
                    break
        assert await lab.shown(server) == lab.of_file()
        await client.close()

    lab.run(scenario)

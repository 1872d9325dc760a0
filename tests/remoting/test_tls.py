"""TLS on the same port: the first byte tells. The certificate beside this file is for tests only."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from flaremq.errors import UnavailableError
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer

HERE = Path(__file__).parent
CERTIFICATE, KEY = str(HERE / "test-server.pem"), str(HERE / "test-server.key")


async def ask(mode: str, *, encrypted: bool) -> RemotingCommand:
    def echo(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=request.body_bytes)

    handlers = HandlerTable()
    handlers.register(1, echo)
    options = RemotingOptions(tls_mode=mode, tls_cert_path=CERTIFICATE, tls_key_path=KEY)
    server = RemotingServer(handlers, options)
    await server.start("127.0.0.1", 0)
    context = ssl.create_default_context(cafile=CERTIFICATE) if encrypted else None
    client = RemotingClient(tls=context)
    try:
        return await client.request(f"127.0.0.1:{server.port}", RemotingCommand.request(1, None, bytes(100_000)), 10)
    finally:
        await client.close()
        await server.stop()


@pytest.mark.parametrize(("mode", "encrypted"), [("permissive", True), ("permissive", False), ("enforcing", True)])
def test_request_is_answered(mode: str, encrypted: bool) -> None:
    assert len(asyncio.run(ask(mode, encrypted=encrypted)).body) == 100_000


def test_plain_text_is_refused_where_tls_is_enforced() -> None:
    with pytest.raises(UnavailableError):
        asyncio.run(ask("enforcing", encrypted=False))


def test_tls_is_refused_where_it_is_disabled() -> None:
    with pytest.raises(UnavailableError):
        asyncio.run(ask("disabled", encrypted=True))

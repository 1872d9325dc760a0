"""Encrypted connections of clients."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flaremq.client.options import ProducerOptions
from flaremq.client.producer.producer import Producer
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.message import Message
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer

KEYS = Path(__file__).resolve().parents[1] / "remoting"
CERTIFICATE, KEY = str(KEYS / "test-server.pem"), str(KEYS / "test-server.key")


def send(options: ProducerOptions) -> None:
    async def run() -> None:
        server = RemotingServer(
            HandlerTable(), RemotingOptions(tls_mode="enforcing", tls_cert_path=CERTIFICATE, tls_key_path=KEY)
        )
        await server.start("127.0.0.1", 0)
        try:
            async with Producer(f"127.0.0.1:{server.port}", options=options) as producer:
                await producer.send(Message("T", b"x"))
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    "options",
    [
        ProducerOptions(use_tls=True, tls_trust_path=CERTIFICATE),
        ProducerOptions(use_tls=True, tls_check_server=False),
    ],
)
def test_server_is_talked_to_over_tls(options: ProducerOptions) -> None:
    with pytest.raises(Exception, match="is no name server"):  # it answered, which is all it can do
        send(options)


@pytest.mark.parametrize("options", [ProducerOptions(use_tls=True), ProducerOptions()])
def test_server_that_nobody_vouches_for_is_not_talked_to(options: ProducerOptions) -> None:
    with pytest.raises(UnavailableError):
        send(options)


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"nowhere\.pem"):
        Producer("127.0.0.1:9876", options=ProducerOptions(use_tls=True, tls_trust_path="nowhere.pem"))

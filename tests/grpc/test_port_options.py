"""Which port of gRPC a broker opens: one that was asked for must be free, the default one may be somebody else's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Any

import pytest

from flaremq.broker.grpc_door import door
from flaremq.broker.options import BrokerOptions
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.grpc import options as grpc_options
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.grpc.raw_client import raw_client


def port_of(broker: EphemeralBroker) -> int:
    return int(broker.grpc_address.rpartition(":")[2])


@pytest.mark.parametrize(
    ("properties", "listen_port", "is_served", "is_asked_for"),
    [
        ({}, 10911, True, False),
        ({}, 0, False, False),
        ({"grpcServerPort": "8081"}, 0, True, True),
        ({"grpcServerPort": "0"}, 10911, True, True),
        ({"grpcServerPort": "9000"}, 0, True, True),
        ({"grpcServerPort": "-1"}, 10911, False, True),
    ],
)
def test_the_default_port_is_served_where_nobody_asked(
    properties: dict[str, str], listen_port: int, is_served: bool, is_asked_for: bool
) -> None:
    found = BrokerOptions.from_properties(properties).grpc
    assert (found.is_served(listen_port), found.is_asked_for) == (is_served, is_asked_for)


def test_a_port_that_was_asked_for_and_is_taken_stops_the_start() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with pytest.raises(UnavailableError, match=f"cannot listen on 127.0.0.1:{port} for gRPC"):
                async with ephemeral_broker(grpcServerPort=port):
                    pass

    asyncio.run(scenario())


def test_the_default_port_that_is_taken_leaves_the_broker_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other, caplog.at_level(logging.WARNING):
            monkeypatch.setattr(grpc_options.GrpcOptions, "is_asked_for", False)
            monkeypatch.setattr(grpc_options.GrpcOptions, "is_served", lambda options, port: True)
            async with ephemeral_broker(grpcServerPort=other.getsockname()[1]) as broker:
                assert broker.broker.grpc_address == ""

    asyncio.run(scenario())
    assert "no port for gRPC" in caplog.text


def test_two_brokers_of_a_machine_have_a_port_each() -> None:
    async def scenario() -> None:
        async with ephemeral_broker(grpcServerPort=0) as one, ephemeral_broker(grpcServerPort=0) as two:
            assert one.grpc_address != two.grpc_address
            for broker in (one, two):
                async with raw_client(port_of(broker)) as client:
                    await client.until(4)

    asyncio.run(scenario())


def test_what_serves_the_port_is_loaded_when_the_first_client_comes() -> None:
    async def scenario() -> None:
        async with ephemeral_broker(grpcServerPort=0) as broker:
            opened = broker.broker.grpc_door
            assert opened is not None
            assert opened._door is None
            async with raw_client(opened.port) as first, raw_client(opened.port) as second:
                for client in (first, second):
                    await client.until(4)
            assert opened._door is not None

    asyncio.run(scenario())


def test_broker_stops_while_the_first_client_is_waiting() -> None:
    async def scenario() -> None:
        async with ephemeral_broker(grpcServerPort=0) as broker:
            port = port_of(broker)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(scenario())


def test_loading_that_fails_is_tried_again_for_the_client_who_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make, failures = door._door, [ImportError("a library is just replaced"), OSError("too many open files")]

    def failing(*parts: Any) -> Any:
        if failures:
            raise failures.pop()
        return make(*parts)

    async def scenario() -> None:
        async with ephemeral_broker(grpcServerPort=0) as broker, raw_client(port_of(broker)) as client:
            await client.until(4)

    monkeypatch.setattr(door, "_door", failing)
    monkeypatch.setattr(door, "_AGAIN_SECONDS", 0.01)
    asyncio.run(scenario())
    assert not failures
    assert "too many open files" in caplog.text


def test_broker_stops_between_two_tries_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        tried, loop = asyncio.Event(), asyncio.get_running_loop()

        def failing(*parts: Any) -> Any:
            loop.call_soon_threadsafe(tried.set)
            raise ImportError("for good")

        monkeypatch.setattr(door, "_door", failing)
        async with ephemeral_broker(grpcServerPort=0) as broker:
            port = port_of(broker)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await tried.wait()
        writer.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(scenario())


def test_files_of_tls_that_cannot_be_read_stop_the_start() -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidArgumentError, match="nowhere"):
            async with ephemeral_broker(
                grpcServerPort=0, grpcTlsMode="enforcing", tlsCertPath="/nowhere.pem", tlsKeyPath="/nowhere.key"
            ):
                pass

    asyncio.run(scenario())

"""Which port of gRPC a broker opens: one that was asked for must be free, the default one may be somebody else's."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from flaremq.broker.options import BrokerOptions
from flaremq.errors import UnavailableError
from flaremq.grpc import options as grpc_options
from flaremq.testing import ephemeral_broker
from tests.grpc.raw_client import raw_client


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
                async with raw_client(int(broker.grpc_address.rpartition(":")[2])) as client:
                    await client.until(4)

    asyncio.run(scenario())

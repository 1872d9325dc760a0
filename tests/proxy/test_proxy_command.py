"""``flaremq proxy``: a process of its own between clients of gRPC and brokers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.proxy.options import ProxyOptions
from tests.support.cli import flaremq
from tests.support.ports import free_ports
from tests.support.server_process import server

_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


@pytest.mark.slow
def test_it_says_where_it_is_and_ends_in_order(tmp_path: Path) -> None:
    with server("namesrv", "--listen", "127.0.0.1:0", cwd=tmp_path) as namesrv:
        (name_server,) = _ADDRESS.findall(namesrv.ready())
        with server("proxy", "-n", name_server, "--listen", "127.0.0.1:0", cwd=tmp_path) as proxy:
            assert "proxy is ready at 127.0.0.1:" in proxy.ready()
            assert proxy.stop() == 0
            assert proxy.errors == ""


def test_without_name_servers_it_does_not_start() -> None:
    assert flaremq("proxy").code == 2
    absent = flaremq("proxy", "-n", f"127.0.0.1:{free_ports()}", "--listen", "127.0.0.1:0")
    assert absent.code == 3 and "no name server can be reached" in absent.err


def test_options_are_those_of_the_port_the_network_and_access_control() -> None:
    options = ProxyOptions.from_properties({"namesrvAddr": "a:1;b:2", "grpcClientsMax": "100", "inFlightMax": "7"})
    assert options.name_servers == ["a:1", "b:2"]
    assert (options.grpc.grpc_clients_max, options.remoting.in_flight_max) == (100, 7)
    for properties in ({"grpcServerPrt": "1"}, {"grpcServerPort": "-1"}, {"bindAddress": "0.0.0.0"}):
        with pytest.raises(InvalidArgumentError):
            ProxyOptions.from_properties(properties)

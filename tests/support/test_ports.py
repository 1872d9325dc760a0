"""Ports that servers of tests are told."""

from __future__ import annotations

import socket
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.support.ports import free_ports


def blocks(count: int) -> list[int]:
    return [free_ports(2) for _ in range(count)]


def test_processes_side_by_side_are_told_different_ports() -> None:
    with ProcessPoolExecutor(4, get_context("spawn")) as pool:
        told = [first for part in pool.map(blocks, [5] * 4) for first in part]
    neighbours = {port for first in told for port in range(first - 2, first + 12)}
    assert len(neighbours) == 14 * len(told)


def test_port_with_a_neighbour_in_use_is_passed_over() -> None:
    first = free_ports()
    with socket.create_server(("127.0.0.1", first + 3)):  # two below the next port
        assert free_ports() > first + 5

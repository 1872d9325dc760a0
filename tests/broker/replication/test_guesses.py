"""Guesses of the servers' secret at the HA port: no more of them are looked at than at the other ports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flaremq.access.attempts import Attempts
from flaremq.broker.replication.challenge import SlaveProof
from flaremq.broker.replication.door import Door
from flaremq.broker.replication.ha_connection import HAConnection, Stream
from flaremq.clock import ManualClock

GROUP = "DefaultCluster/broker-a"
SECRET = b"correct horse battery"
STRANGER = "10.9.8.7"


class _Transport:
    """What a connection asks of a socket."""

    def __init__(self, host: str) -> None:
        self._peer = (host, 4711)
        self.written = b""
        self.is_aborted = False

    def get_extra_info(self, name: str) -> Any:
        return self._peer if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def abort(self) -> None:
        self.is_aborted = True


class _Master:
    """The HA port of a broker, connected to as often as one likes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.door = Door(group=GROUP, networks=(), secret=SECRET, attempts=Attempts(self.clock.monotonic))

    def is_let_in(self, secret: bytes, host: str = STRANGER, group: str = GROUP) -> bool:
        """Whether who knows this secret is believed."""
        stream = Stream(
            log=None,  # type: ignore[arg-type]  # who is let in is not sent anything here
            replicas=None,  # type: ignore[arg-type]
            options=None,  # type: ignore[arg-type]
            door=self.door,
            epochs=None,
            confirm_offset=lambda: 0,
            acknowledged=lambda: None,
            changed=lambda _: None,
        )
        connection, transport, begun = HAConnection(stream), _Transport(host), []
        connection._begin = begun.append  # type: ignore[method-assign]
        connection.connection_made(transport)  # type: ignore[arg-type]
        proof = SlaveProof(secret, group=group, broker_id=1)
        connection.data_received(proof.hello)
        if not transport.is_aborted:
            connection.data_received(proof.receive(transport.written))
        return bool(begun)


@pytest.fixture
def master() -> Any:
    async def make() -> _Master:
        return _Master()

    return asyncio.run(make())


def _within(work: Any) -> Any:
    async def run() -> Any:
        return work()

    return asyncio.run(run())


def test_after_ten_wrong_proofs_none_is_looked_at_for_a_while_not_even_the_right_one(master: _Master) -> None:
    def scenario() -> None:
        assert master.is_let_in(SECRET)
        for number in range(10):
            assert not master.is_let_in(b"wrong secret number %d" % number)
        assert not master.is_let_in(SECRET)
        assert master.is_let_in(SECRET, host="10.9.8.6")
        master.clock.advance(11_000)
        assert master.is_let_in(SECRET)

    _within(scenario)


def test_this_machine_and_slaves_of_another_group_are_no_guesses(master: _Master) -> None:
    def scenario() -> None:
        for number in range(20):
            assert not master.is_let_in(b"wrong secret number %d" % number, host="127.0.0.1")
            assert not master.is_let_in(b"wrong secret number %d" % number, host="::ffff:127.0.0.1")
            assert not master.is_let_in(SECRET, group="DefaultCluster/broker-b")
        assert master.is_let_in(SECRET, host="127.0.0.1")
        assert master.is_let_in(SECRET)

    _within(scenario)

"""The broker for tests, tested: in the caller's loop, on a thread of its own, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from flaremq.clock import ManualClock, SystemClock
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.support.broker_lab import UNIQUE, BrokerLab, bodies, send_header


def threads() -> list[str]:
    """Threads of a broker; the loop of the blocking client, which other tests may have started, stays for good."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("flaremq") and name != "flaremq-client"]


def send(broker: EphemeralBroker, topic: str, body: bytes, properties: str = UNIQUE) -> int:
    """A send from outside of the broker's loop; the reply's code."""

    async def main() -> int:
        client = RemotingClient()
        header = send_header(topic, properties=properties)
        reply = await client.request(
            broker.address, RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header.encode_letters(), body)
        )
        await client.close()
        return reply.code

    return asyncio.run(main())


def test_broker_on_a_thread_of_its_own_serves_and_leaves_nothing_behind() -> None:
    with ephemeral_broker() as broker:
        folder = broker.broker.path
        assert os.path.isdir(folder) and broker.name_server != broker.address
        assert send(broker, "orders", b"body") == 0
        assert isinstance(broker.clock, ManualClock)
    assert not os.path.exists(folder)
    assert threads() == []


def test_broker_in_the_callers_loop_leaves_nothing_behind() -> None:
    async def main() -> str:
        async with ephemeral_broker() as broker:
            return broker.broker.path

    assert not os.path.exists(asyncio.run(main()))
    assert threads() == []


def test_delayed_message_comes_when_the_clock_was_moved_and_not_before() -> None:
    with ephemeral_broker() as broker:
        send(broker, "orders", b"a minute later", f"DELAY\x015\x02{UNIQUE}")
        find = broker.broker.store.max_offset
        broker.advance(59_999)
        assert find("orders", 0) == 0
        broker.advance(1)
        assert find("orders", 0) == 1
        send(broker, "orders", b"two hours later", f"DELAY\x0118\x02{UNIQUE}")
        broker.advance(hours=1, minutes=59, seconds=59)
        assert find("orders", 0) == 1
        broker.advance(seconds=1)
        assert find("orders", 0) == 2


def test_options_are_those_of_a_broker_and_wrong_ones_are_refused() -> None:
    with ephemeral_broker(flushDiskType="ASYNC_FLUSH", enablePropertyFilter=True, maxMessageSize=5000) as broker:
        assert not broker.broker.store_loop.waits_for_sync
        assert broker.broker.options.enable_property_filter
        assert send(broker, "orders", bytes(5001)) == 13
    wrong: list[dict[str, Any]] = [{"flushDiskType": "SOMETIMES"}, {"maxMessageSize": "much"}]
    for options in wrong:
        with pytest.raises(InvalidArgumentError), ephemeral_broker(**options):
            pass
    assert threads() == []


def test_store_of_a_given_path_stays_and_is_used_again(tmp_path: Path) -> None:
    path = str(tmp_path / "kept")
    with ephemeral_broker(path=path) as broker:
        assert send(broker, "orders", b"kept") == 0

    async def main() -> None:
        async with BrokerLab(path=path) as lab:
            assert bodies(await lab.pull("orders")) == [b"kept"]

    asyncio.run(main())
    assert (tmp_path / "kept" / "commitlog").is_dir()


def test_two_brokers_at_a_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ephemeral_broker() as first, ephemeral_broker() as second:
        assert first.name_server != second.name_server and first.address != second.address
        assert (send(first, "orders", b"first"), send(second, "orders", b"second")) == (0, 0)
        path = str(tmp_path / "one")
        with ephemeral_broker(path=path), pytest.raises(UnavailableError), ephemeral_broker(path=path):
            pass
    assert threads() == []


def test_error_inside_stops_the_broker_and_comes_out() -> None:
    with pytest.raises(ZeroDivisionError), ephemeral_broker() as broker:
        folder = broker.broker.path
        raise ZeroDivisionError
    assert not os.path.exists(folder) and threads() == []


def test_system_clock_may_be_given_and_cannot_be_moved() -> None:
    with ephemeral_broker(clock=SystemClock()) as broker:
        assert send(broker, "orders", b"body") == 0
        with pytest.raises(AssertionError, match="manual clock"):
            broker.advance(1)


def test_outside_of_its_block_there_is_no_broker() -> None:
    broker = ephemeral_broker()
    for name in ("name_server", "address", "broker"):
        with pytest.raises(AssertionError, match="inside `with` only"):
            getattr(broker, name)


def test_pytest_fixture_is_a_running_broker(flaremq_broker: EphemeralBroker) -> None:
    assert send(flaremq_broker, "orders", b"body") == 0


def test_the_plugin_costs_those_nothing_who_use_no_broker() -> None:
    code = (
        "import sys, flaremq.testing.plugin; print(len([name for name in sys.modules if name.startswith('flaremq')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 5, done.stdout

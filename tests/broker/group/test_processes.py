"""A master and a slave as their users start them, and a master that is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import pytest

from flaremq import Message
from flaremq.sync import Admin, Consumer, Producer
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, Server, server


class Processes:
    """A name server, a master and a slave on ports of their own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._ports = free_ports(3)
        self.namesrv_address = f"127.0.0.1:{self._ports}"
        kv_path = folder / "kv.json"
        namesrv = self._run("namesrv", "--listen", self.namesrv_address, "--set", f"kvConfigPath={kv_path}")
        namesrv.ready()

    def _run(self, *arguments: object) -> Server:
        return self._stack.enter_context(server(*arguments, cwd=self._folder))

    def broker(self, name: str, number: int, *settings: str) -> Server:
        assignments = [part for setting in settings for part in ("--set", setting)]
        started = self._run(
            *("broker", "-n", self.namesrv_address, "--data", self._folder / name),
            *("--listen", f"127.0.0.1:{self._ports + 10 * number}", *SMALL, *assignments),
        )
        started.ready()
        return started

    def master(self, *settings: str) -> Server:
        return self.broker("master", 1, *settings)

    def slave(self, *settings: str) -> Server:
        return self.broker("slave", 2, "brokerRole=SLAVE", "brokerId=1", *settings)

    def addresses(self) -> dict[int, str]:
        """Who is registered, by broker id."""
        with Admin(self.namesrv_address) as admin:
            table = admin.cluster_info().broker_addr_table
        return dict(table["broker-a"].broker_addrs) if "broker-a" in table else {}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(tmp_path, stack)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + 30
    while not condition():
        assert monotonic() < deadline, f"waited in vain: {what}"
        sleep(0.02)


def test_consumer_goes_on_at_the_slave_when_the_master_is_killed_and_comes_back_with_it(processes: Processes) -> None:
    # A slave may take five seconds to come back to its master.
    settings = ("brokerRole=SYNC_MASTER", "inSyncReplicas=2", "slaveTimeout=30000")
    master = processes.master(*settings)
    processes.slave()
    wait_until(lambda: processes.addresses().keys() == {0, 1}, "both are registered")
    with Producer(processes.namesrv_address) as producer:
        for number in range(50):
            assert producer.send(Message("T", b"%d" % number), timeout=30).ok  # both copies have it
        consume_across_a_kill(processes, master, producer, settings)


def consume_across_a_kill(processes: Processes, master: Server, producer: Producer, settings: tuple[str, ...]) -> None:
    with Consumer(processes.namesrv_address, group="readers", subscribe="T", start_from="first") as consumer:
        seen = [consumer.receive(timeout=30) for _ in range(20)]
        for message in seen:
            assert message is not None
            message.ack()
        master.process.send_signal(signal.SIGKILL)
        master.wait()
        wait_until(lambda: processes.addresses().keys() == {1}, "the master is gone")
        while len({message.body for message in seen if message is not None}) < 50:
            message = consumer.receive(timeout=30)
            assert message is not None, "the slave hands out the rest"
            message.ack()
            seen.append(message)
        processes.master(*settings)
        for number in range(50, 60):
            assert producer.send(Message("T", b"%d" % number), timeout=30).ok
        while len({message.body for message in seen if message is not None}) < 60:
            message = consumer.receive(timeout=30)
            assert message is not None, "the master hands out what is new"
            message.ack()
            seen.append(message)

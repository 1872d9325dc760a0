"""``flaremq up`` in a process of its own, which can be killed and started again: for the demo and the benchmarks."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack

from flaremq.errors import UnavailableError

_START_SECONDS = 60
_STOP_SECONDS = 60
_BROKER_PORTS = range(15_000, 32_000, 2)


def free_ports(count: int) -> list[int]:
    """So many different free ports of the loopback address; taken at once, or somebody else may take them."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def free_broker_ports(count: int) -> list[int]:
    """Ports for brokers, whose neighbours for slaves and for old clients are free too.

    Below those that outgoing connections get: a broker that is started again must find its ports free again.
    """
    found: list[int] = []
    for port in random.sample(_BROKER_PORTS, len(_BROKER_PORTS)):
        if len(found) == count:
            break
        if all(abs(port - other) > 3 for other in found) and all(map(_is_free, (port - 2, port, port + 1))):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class ServerProcess:
    """One store, served on the same two addresses however often it is started. ``with`` starts and stops it."""

    def __init__(self, path: str, **settings: str) -> None:
        self.path = path
        name_server, broker = free_ports(2)
        self.name_server = f"127.0.0.1:{name_server}"
        self._command = [sys.executable, "-m", "flaremq", "up", "--data", path]
        self._command += ["--listen", self.name_server, "--broker-listen", f"127.0.0.1:{broker}"]
        for name, value in settings.items():
            self._command += ["--set", f"{name}={value}"]
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - as long as the server

    def start(self) -> float:
        """Seconds until it was ready."""
        began = time.perf_counter()
        # A process group of its own: Ctrl-C is for us, and we end the server ourselves.
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if "is ready" not in line:
            self._process.wait(_START_SECONDS)
            self._errors.seek(0)
            raise UnavailableError(f"the broker did not start: {line.strip()} {self._errors.read().strip()}")
        return time.perf_counter() - began

    def kill(self) -> None:
        """As a power switch would, as far as the process goes."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Close everything properly."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.kill(process.pid, how)
        try:
            process.wait(_STOP_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._errors.close()

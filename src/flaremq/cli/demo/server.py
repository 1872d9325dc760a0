"""The demo's name server and broker: ``flaremq up`` in a process of its own, which can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time

from flaremq.cli.servers.free_ports import free_ports
from flaremq.errors import UnavailableError

_START_SECONDS = 60
_STOP_SECONDS = 60


class DemoServer:
    """One store, served on the same two addresses however often it is started."""

    def __init__(self, path: str) -> None:
        self.path = path
        name_server, broker = free_ports(2)
        self.name_server = f"127.0.0.1:{name_server}"
        self._broker = f"127.0.0.1:{broker}"
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - as long as the server

    def start(self) -> float:
        """Seconds until it was ready."""
        command = [sys.executable, "-m", "flaremq", "up", "--data", self.path]
        command += ["--listen", self.name_server, "--broker-listen", self._broker]
        began = time.perf_counter()
        # A group of its own: Ctrl-C is for us, and we end the server ourselves.
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True
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

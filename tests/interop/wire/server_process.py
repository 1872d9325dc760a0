"""One server as a process: its log in a file, ended in order or by SIGKILL, never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_LOG_TAIL = 4000


class ServerProcess:
    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_TAIL:]

    def stop(self, *, seconds: float = 60) -> None:
        """SIGTERM, and wait for the end: a server that does not end in time is killed, and that is an error."""
        if not self.is_running:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"no end {seconds:g} s after SIGTERM:\n{self.log_tail()}") from None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

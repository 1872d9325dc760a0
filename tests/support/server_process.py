"""A server in a process of its own, as its users start it: ``python -m flaremq ...``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

# Small files: a test does not need a gigabyte, and a store of its own is made for each.
# A largest message that a log file can hold, else the server says at its start that it cannot.
SMALL = [
    *("--set", "mappedFileSizeCommitLog=1048576"),
    *("--set", "maxMessageSize=900000"),
    *("--set", "mappedFileSizeConsumeQueue=6000"),
]
SMALL += ["--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000", "--set", "diskMaxUsedSpaceRatio=95"]
SMALL += ["--set", "grpcServerPort=-1"]  # tests run side by side, and there is one 8081


class Server:
    """A server process; its output is read line by line."""

    def __init__(self, *arguments: object, cwd: Path) -> None:
        if "--log-level" not in arguments:  # what a test finds on stderr is a warning, or a sentence of the command
            arguments = (*arguments, "--log-level", "warning")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        environment.pop("NAMESRV_ADDR", None)
        for name in [name for name in environment if name.startswith("FLAREMQ_TLS_")]:
            del environment[name]  # of a client that a test plays
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flaremq", *map(str, arguments)],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: SimpleQueue[str | None] = SimpleQueue()  # None: it ended
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=lambda: self._errors.extend(self.process.stderr or ()), daemon=True),
        ]
        for reader in reversed(self._readers):  # the first waits for the second
            reader.start()

    def _read_lines(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line)
        self._readers[1].join(60)  # what it said of its end
        self._lines.put(None)

    def ready(self) -> str:
        """The line that says so."""
        try:
            line = self._lines.get(timeout=60)
        except Empty:
            line = None
        if line is None:
            raise AssertionError(f"no ready line; stderr: {self.errors}")
        return line

    def wait(self) -> int:
        code = self.process.wait(60)
        for reader in self._readers:
            reader.join(60)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    @property
    def errors(self) -> str:
        return "".join(self._errors)


@contextmanager
def server(*arguments: object, cwd: Path) -> Iterator[Server]:
    started = Server(*arguments, cwd=cwd)
    try:
        yield started
    finally:
        started.process.kill()
        started.wait()  # also if it ended by itself: its streams are open

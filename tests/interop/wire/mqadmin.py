"""RocketMQ's own mqadmin as a function: words in, what it printed out. JVMs start slowly, so one runs all commands."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from tests.interop.wire import programs

_START_S = 120.0
_COMMAND_S = 60.0
_LOGBACK = "<configuration/>"


@dataclass(frozen=True, slots=True)
class Answer:
    output: str
    errors: str

    @property
    def text(self) -> str:
        return f"{self.output}\n{self.errors}"

    @property
    def has_failed(self) -> bool:
        """mqadmin prints a stack trace and ends with 0: there is nothing better to look at."""
        return "Exception" in self.text or "command failed" in self.text


class Target(Protocol):
    """What the tool looks at: a name server, and the broker that ``{broker}`` stands for."""

    @property
    def name_server(self) -> str: ...
    @property
    def broker(self) -> str: ...


class Mqadmin:
    """A JVM with the tool of one release, and clients for it to look at; their names are in ``names``."""

    def __init__(
        self,
        version: str,
        target: Target,
        run: str,
        scratch: Path,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """``properties`` are those of the JVM: of ``java/Credentials.java`` where clients have to sign."""
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / "conf").mkdir(exist_ok=True)
        # 4.9 insists on a configuration of its logging.
        (scratch / "conf" / "logback_tools.xml").write_text(_LOGBACK)
        arguments = [f"namesrv={target.name_server}", f"run={run}"]
        command = programs.java_command(
            version, "Admin", arguments, header=programs.JSON, scratch=scratch, more_properties=properties
        )
        self.version = version
        self._name_server = target.name_server
        self._tools = scratch / "conf" / "tools.yml"
        self._log = scratch / "mqadmin.log"
        with self._log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Some commands write files into the working folder.
                cwd=scratch,
                env={**os.environ, "ROCKETMQ_HOME": str(scratch)},
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.names: dict[str, str] = json.loads(self._next_line("its preparations", _START_S))
        except BaseException:
            self.close()
            raise
        self.names |= {"broker": target.broker, "run": run}

    def __enter__(self) -> Mqadmin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sign(self, key: str, secret: str) -> None:
        """Let the tool sign as this account from the next command on, as ``conf/tools.yml`` of its home says."""
        self._tools.write_text(f"accessKey: {key}\nsecretKey: {secret}\n")

    def sign_nothing(self) -> None:
        self._tools.unlink(missing_ok=True)

    def run(self, command: str, words: Sequence[str]) -> Answer:
        """One command; ``-n`` is added. Raises if the tool does not come back from it."""
        assert self._process.stdin is not None
        line = "\t".join([command, "-n", self._name_server, *words])
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._next_line(command, _COMMAND_S))
        return Answer(answer["output"], answer["errors"])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put(None)

    def _next_line(self, what: str, seconds: float) -> str:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"mqadmin was not done with {what} after {seconds:g} s") from None
        if line is None:
            raise RuntimeError(f"mqadmin ended at {what}:\n{self._log.read_text(errors='replace')[-4000:]}")
        return line

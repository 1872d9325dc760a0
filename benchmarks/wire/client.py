"""The load of the measurements over the wire: RocketMQ's Java clients, each in one JVM; ``java/WirePeer.java``."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.process_tree import processor_seconds
from benchmarks.timing import Row, machine_seconds
from tests.interop import jvm

JAVA = Path(__file__).resolve().parent.parent / "java"
VERSION = "5.5.0"
_HEAP = ("-Xms1g", "-Xmx2g", "-XX:+UseG1GC")
_TASK_S = 600.0


class JavaClient:
    """A driver in a JVM. Runs one task at a time and measures what the processes of the servers used meanwhile."""

    def __init__(self, folder: Path, jars: str, driver: str, properties: Mapping[str, str]) -> None:
        """``driver``: the name of a class below ``java``; it may use ``Times``."""
        classes = jvm.compiled_sources(jars, [JAVA / f"{driver}.java", JAVA / "Times.java"])
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "client.log"
        command = ["java", *_HEAP, *jvm.OPENED_INTERNALS, f"-Duser.home={folder}"]
        command += [f"-D{name}={value}" for name, value in properties.items()]
        command += ["-cp", f"{classes}:{jvm.jar_folder(jars)}/*", driver]
        with self._log.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._lines: queue.Queue[tuple[float, str] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._servers: Sequence[int] = ()
        self._marks: dict[str, _Marks] = {}
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def run(self, mode: str, servers: Sequence[int], **arguments: object) -> Row:
        """One task against servers with these process ids. Rates and latencies are the client's, the rest is ours."""
        self._servers = servers
        self._marks = {}
        words = [f"mode={mode}", *(f"{name}={value}" for name, value in arguments.items())]
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        row = self._answer(mode)
        if "error" in row:
            raise RuntimeError(f"{mode}: {row['error']}")
        if row.get("failed"):
            raise RuntimeError(f"{mode}: {row['failed']} calls failed; see {self._log}")
        if {"begin", "end"} <= self._marks.keys():
            row |= self._marks["end"].since(self._marks["begin"], int(row["messages"]))
        return row

    def _answer(self, mode: str) -> Row:
        try:
            line = self._lines.get(timeout=_TASK_S)
        except queue.Empty:
            raise TimeoutError(f"{mode}: no answer after {_TASK_S:g} s") from None
        if line is None:
            raise RuntimeError(f"{mode}: the client ended\n{self._log.read_text(errors='replace')[-4000:]}")
        row: Row = json.loads(line[1])
        return row

    def _read(self) -> None:
        """Marks are answered here, at once: they are about this moment."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"mark"'):
                self._marks[json.loads(line)["mark"]] = _Marks(self._servers, self._process.pid)
            elif line.startswith("{"):
                self._lines.put((time.monotonic(), line))
        self._lines.put(None)


class WireClient(JavaClient):
    """RocketMQ's client of the remoting protocol."""

    def __init__(self, folder: Path, *, header: str = "ROCKETMQ") -> None:
        properties = {
            "rocketmq.serialize.type": header,
            "rocketmq.client.logUseSlf4j": "true",
            "rmq.logback.configurationFile": str(jvm.JAVA / "logback.xml"),
        }
        super().__init__(folder, f"{VERSION}-servers", "WirePeer", properties)


class _Marks:
    """Processor seconds at one moment: of the servers, of the client, of the whole machine."""

    def __init__(self, servers: Sequence[int], client: int) -> None:
        self._time = time.monotonic()
        self._each = [processor_seconds(pid) for pid in servers]
        self._servers = sum(self._each)
        self._client = processor_seconds(client)
        self._all = machine_seconds()

    def since(self, begin: _Marks, messages: int) -> Row:
        elapsed = max(self._time - begin._time, 0.001)
        servers = self._servers - begin._servers
        client = self._client - begin._client
        other = max(0.0, self._all - begin._all - servers - client)
        return {
            "server_cores": round(servers / elapsed, 2),
            "client_cores": round(client / elapsed, 2),
            "other_cores": round(other / elapsed, 2),
            "server_us_per_message": round(1e6 * servers / messages, 2) if messages else None,
            # In the order of the process ids.
            "each_us_per_message": [
                round(1e6 * (end - start) / messages, 2) if messages else None
                for end, start in zip(self._each, begin._each, strict=True)
            ],
        }


def resident_mb(pid: int, without: Path | None = None) -> float:
    """Resident megabytes; ``without`` names a folder whose mapped files do not count: they are the page cache's."""
    kilobytes, counts = 0, True
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "Rss":
            kilobytes += int(value.split()[0]) if counts else 0
        elif "-" in name.partition(" ")[0]:  # "7f00-7f01 rw-s 0000 fe:00 1234 /path": the next mapping begins
            counts = without is None or f" {without}/" not in line
    return kilobytes / 1024

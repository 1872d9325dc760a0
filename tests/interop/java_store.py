"""RocketMQ's store as the tests speak of it: read this folder, write into that one, be killed, be held open.

The work is done by ``java/StoreReader.java`` and ``java/StoreWriter.java``; this module starts them and turns
their JSON into values. Reading opens the store for real, with recovery and all, so it works on a copy unless
told otherwise.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.interop import jvm

Image = dict[str, Any]  # what StoreReader prints: the keys of the golden manifests
Options = Mapping[str, str]  # store options under RocketMQ's names

QUERY_MAX = 64  # RocketMQ answers no more than this to one query
FOREVER_MS = 2**63 - 1


def key_request(topic: str, key: str, maximum: int = QUERY_MAX, begin: int = 0, end: int = FOREVER_MS) -> str:
    return f"key\t{topic}\t{key}\t{maximum}\t{begin}\t{end}"


def get_request(topic: str, queue_id: int, offset: int, count: int = 32) -> str:
    return f"get\t{topic}\t{queue_id}\t{offset}\t{count}"


def time_request(topic: str, queue_id: int, timestamp: int) -> str:
    return f"time\t{topic}\t{queue_id}\t{timestamp}"


def read(
    version: str,
    root: Path,
    options: Options,
    *,
    requests: Iterable[str] = (),
    start: bool = False,
    stop: bool = False,
    in_place: bool = False,
) -> Image:
    """What this release finds in the store; with ``start`` the store is also started, as a broker does."""
    with tempfile.TemporaryDirectory(prefix="interop-read-", dir=root.parent) as scratch_name:
        scratch = Path(scratch_name)
        target = root if in_place else copy_of(root, scratch / "store")
        (scratch / "requests").write_text("".join(f"{line}\n" for line in requests), encoding="utf-8")
        arguments = [f"out={scratch / 'image.json'}", f"requests={scratch / 'requests'}"]
        arguments += [
            f"start={str(start).lower()}",
            f"stop={str(stop).lower()}",
            *_store_arguments(target, options),
        ]
        jvm.run(version, "StoreReader", arguments)
        image: Image = json.loads((scratch / "image.json").read_text())
    return image


def copy_of(root: Path, target: Path) -> Path:
    """A copy with modification times kept: RocketMQ 4.9 answers offset-by-time by them."""
    shutil.copytree(root, target)
    return target


def _store_arguments(root: Path, options: Options) -> list[str]:
    return [f"dir={root}", *(f"{name}={value}" for name, value in options.items())]


class JavaWriter:
    """A JVM that appends to a store. Leaving the context kills it if it still runs."""

    def __init__(
        self,
        version: str,
        root: Path,
        options: Options,
        *,
        end: str = "clean",
        first: int = 0,
        count: int = 300,
        long_topic: bool = False,
    ) -> None:
        self._notes = Path(tempfile.mkdtemp(prefix="interop-write-", dir=root.parent))
        self._acks_path = self._notes / "acks"
        arguments = [f"acks={self._acks_path}", f"first={first}", f"count={count}", f"end={end}"]
        arguments += [f"longTopic={str(long_topic).lower()}", *_store_arguments(root, options)]
        self._process = jvm.start(version, "StoreWriter", arguments, errors=self._notes / "errors")

    def __enter__(self) -> JavaWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def acks(self) -> list[dict[str, Any]]:
        """What the store has acknowledged so far; a line cut short by a kill is not an acknowledgement."""
        if not self._acks_path.exists():
            return []
        complete = self._acks_path.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in complete.splitlines()]

    def wait_for_acks(self, count: int, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while len(self.acks) < count:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{len(self.acks)} of {count} puts acknowledged; {self._failure()}")
            time.sleep(0.02)

    def wait_until_held(self) -> None:
        """Until a writer started with end="hold" has put everything and keeps the store open."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.strip() == "READY", f"answered {line!r}; {self._failure()}"

    def finish(self, timeout_s: float = 60) -> list[dict[str, Any]]:
        """Let it shut its store down; what was acknowledged."""
        assert self._process.stdin is not None
        if self._process.poll() is None:
            try:
                self._process.stdin.write("close\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                pass  # it does not read its input and ended by itself
        code = self._process.wait(timeout_s)
        assert code == 0, self._failure()
        return self.acks

    def kill(self) -> list[dict[str, Any]]:
        """SIGKILL, if it still runs; what was acknowledged before."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        return self.acks

    def _failure(self) -> str:
        return f"exit code {self._process.poll()}: {(self._notes / 'errors').read_text()[-3000:]}"


def write(version: str, root: Path, options: Options, **arguments: Any) -> list[dict[str, Any]]:
    """Append with this release and shut down cleanly."""
    with JavaWriter(version, root, options, **arguments) as writer:
        try:
            return writer.finish()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"RocketMQ {version} did not finish writing") from None

"""Leases: the mark of a writer that has files which no commit names yet, so that nobody takes them for leftovers.

A writer leaves it before its first file and removes it behind its commit. A mark whose writer is gone is stale: on the
same machine that shows at once, elsewhere after an hour without a beat. A writer that could not beat for so long (its
machine slept, the store was away) may have lost its files to others, so it must not commit them: ``Mark.check``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from flaremq.errors import FlareMQError, NotFoundError, UnavailableError
from flaremq.pipeline.archive.root import METADATA, ArchiveRoot

FOLDER: Final = f"{METADATA}/writers"
_BEAT_SECONDS: Final = 60.0
_STALE_MS: Final = 3_600_000
_LOST_MS: Final = _STALE_MS // 2  # the rest is for clocks that differ and for the commit itself


@dataclass(frozen=True, slots=True)
class Lease:
    """Who writes the files whose names begin with ``run``, and when they last said so."""

    run: str
    machine: str
    pid: int
    beat_ms: int

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.run}.json"

    def is_live(self, now_ms: int) -> bool:
        if self.machine and self.machine == _machine():
            return _is_running(self.pid)
        return now_ms - self.beat_ms < _STALE_MS


class Mark:
    """The mark of a writer of this process. Beaten by a thread of its own."""

    def __init__(self, root: ArchiveRoot, run: str) -> None:
        self._root = root
        self._run = run
        self._beat_ms = int(time.time() * 1000)  # of the last beat that came through

    def beat(self) -> None:
        """Not after a silence that was too long: it would hide that there was one."""
        now_ms = int(time.time() * 1000)
        if now_ms - self._beat_ms < _LOST_MS:
            value = {"run": self._run, "machine": _machine(), "pid": os.getpid(), "beatMs": now_ms}
            self._root.renew_bytes(f"{FOLDER}/{self._run}.json", orjson.dumps(value))
            self._beat_ms = now_ms

    def check(self) -> None:
        """UnavailableError if others may have taken the files for leftovers. To be asked right before a commit."""
        silent_ms = int(time.time() * 1000) - self._beat_ms
        if silent_ms >= _LOST_MS:
            raise UnavailableError(
                f"this run was away for {silent_ms // 60_000} minutes, so its files may be gone; start again"
            )


@contextlib.contextmanager
def leased(root: ArchiveRoot, run: str) -> Iterator[Mark]:
    """Within, files of this run are somebody's. What is killed leaves the mark behind."""
    mark = Mark(root, run)
    mark.beat()
    done = threading.Event()
    thread = threading.Thread(target=_keep_beating, args=(mark, done), daemon=True)
    thread.start()
    try:
        yield mark
    except Exception:
        _end(root, run, done, thread)
        raise
    _end(root, run, done, thread)


def leases(root: ArchiveRoot) -> list[Lease]:
    """All marks there are, stale ones too."""
    found = []
    for path in root.list(FOLDER):
        with contextlib.suppress(NotFoundError, ValueError, KeyError, TypeError):
            value = orjson.loads(root.read_bytes(path))
            found.append(Lease(value["run"], value["machine"], value["pid"], value["beatMs"]))
    return found


def _end(root: ArchiveRoot, run: str, done: threading.Event, thread: threading.Thread) -> None:
    done.set()
    thread.join()
    root.delete(f"{FOLDER}/{run}.json")


def _keep_beating(mark: Mark, done: threading.Event) -> None:
    while not done.wait(_BEAT_SECONDS):
        with contextlib.suppress(FlareMQError):  # the next beat may get through; an hour is long
            mark.beat()


def _machine() -> str:
    """Where a process number means something: this boot of this machine, and the namespace of processes we are in.

    Empty where the system does not tell; then only the beat counts.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""Shipped beside the drivers: running named steps, comparing rows, and killing the executor a task runs in."""

import hashlib
import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

ROW = ("topic", "queueId", "queueOffset", "keys", "body")


class Steps:
    """Each step's answer, or its error, for the file ``$RESULT``: one broken step does not hide the others."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}

    def run(self, name: str, step: Callable[[], Any]) -> None:
        begin = time.monotonic()
        try:
            self._answers[name] = {"answer": step()}
        except Exception:
            self._answers[name] = {"error": traceback.format_exc()}
        self._answers[name]["seconds"] = round(time.monotonic() - begin, 2)
        with open(os.environ["RESULT"], "w") as file:
            json.dump(self._answers, file)


def look(_number: int) -> dict[str, Any]:
    """What a worker's Python sees."""
    import flaremq.core.record

    time.sleep(0.5)  # long enough that one executor does not take all the tasks
    return {"pid": os.getpid(), "file": flaremq.__file__}


def rows_digest(table: Any) -> dict[str, Any]:
    """Count and digest of all rows, whatever order they come in."""
    rows = sorted(
        tuple(bytes(value) if name == "body" else value for name, value in zip(ROW, row, strict=True))
        for row in table.select(*ROW).collect()
    )
    return digest_of(rows)


def digest_of(rows: list[Any]) -> dict[str, Any]:
    return {"rows": len(rows), "digest": hashlib.sha256(repr(rows).encode()).hexdigest()}


def die_once(marker: str) -> None:
    """Take the executor away that this task runs in, the first time any task comes by."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(_executor_above(), signal.SIGKILL)
    time.sleep(60)  # it takes this process with it


def _executor_above() -> int:
    """The JVM above this Python worker: it is below the daemon that the JVM started."""
    pid = os.getpid()
    while True:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
        if b"CoarseGrainedExecutorBackend" in command:
            return pid
        assert pid > 1, "no executor above: not on a cluster?"


def dying_map(marker: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """For ``mapInArrow``: one task dies behind the first half of its first batch."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if half:
                die_once(marker)
            yield batch.slice(half)

    return pass_on

"""A process that opens stores when told to, so that tests see what two processes do to each other.

Reads one JSON object a line: ``{"open": root, "options": {...}}``, ``{"read": root, "options": {...}}`` (a reader of a
store at rest), ``{"close": true}``; answers one line, ``done`` or the error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flaremq.errors import FlareMQError
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions


class StoreHolder:
    """The parent's end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.store_holder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def open(self, root: Path, options: dict[str, Any]) -> str:
        return self._ask(open=str(root), options=options)

    def read(self, root: Path, options: dict[str, Any]) -> str:
        return self._ask(read=str(root), options=options)

    def close(self) -> None:
        assert self._ask(close=True) == "done"

    def _ask(self, **order: Any) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def main() -> None:
    held: MessageStore | StoreReader | None = None
    for line in sys.stdin:
        order = json.loads(line)
        answer = "done"
        try:
            if held is not None:
                held.close()
                held = None
            if "open" in order:
                options = StoreOptions.from_properties(order["options"])
                held = MessageStore.open(order["open"], options, threads=False)
            elif "read" in order:
                options = StoreOptions.from_properties(order["options"])
                held = StoreReader.open(order["read"], commit_log_paths=options.commit_log_folders(order["read"]))
        except FlareMQError as error:
            answer = f"{type(error).__name__}: {error}"
        print(answer.replace("\n", " "), flush=True)
    if held is not None:
        held.close()


if __name__ == "__main__":
    main()

"""Whose memory counts as that of a Python worker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.process_tree import largest_worker

_HELD = 100 << 20
_HOLDING = f"held = b'x' * {_HELD}; print(flush=True); input()"


def resident_beside(interpreter: str) -> int:
    """The largest worker of a tree of its own, while this one holds 100 MB: other tests may have left workers to us."""
    command = [
        "sh",
        "-c",
        '"$0" -c "$1"; exit $?',
        interpreter,
        _HOLDING,
    ]  # the shell stays its parent
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"\n"
        found = largest_worker(process.pid)[0]
        process.stdin.write(b"\n")
        process.stdin.close()
    return found


def test_a_worker_is_what_runs_python(tmp_path: Path) -> None:
    assert resident_beside(sys.executable) > _HELD
    other = tmp_path / "jvm"  # has the memory of a worker, and runs something else
    shutil.copy(os.path.realpath(sys.executable), other)
    assert resident_beside(str(other)) < _HELD

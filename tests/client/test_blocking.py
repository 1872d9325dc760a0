"""Event loops on threads of their own."""

from __future__ import annotations

import subprocess
import sys

_LEFT_OPEN = """
import atexit
atexit.register(lambda: print(thread.loop.is_closed()))  # runs after what is registered later
from flaremq.client.blocking import LoopThread
thread = LoopThread("left-open")
"""


def test_a_loop_that_is_left_open_ends_before_the_interpreter_does() -> None:
    done = subprocess.run([sys.executable, "-c", _LEFT_OPEN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr

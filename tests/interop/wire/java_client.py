"""RocketMQ's Java client: runs scenarios (``java/Wire.java``), reads what servers hold (``java/Contents.java``)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop.wire import programs, servers

_RUN_S = 300.0
_READ_S = 120.0


def run(
    target: servers.Servers,
    version: str,
    header: str,
    names: Sequence[str],
    *,
    run: str,
    scratch: Path,
    properties: Mapping[str, str] | None = None,
) -> dict[str, programs.Result]:
    """All these scenarios in one JVM with these properties; ``run`` begins the names of their topics and groups."""
    actions = {"restart": target.restart, "kill": target.kill_and_restart}
    arguments = [f"namesrv={target.name_server}", f"run={run}", f"scenarios={','.join(names)}"]
    return programs.run_scenarios(
        programs.java_command(version, "Wire", arguments, header=header, scratch=scratch, more_properties=properties),
        log=scratch / "client.log",
        timeout_s=_RUN_S,
        asked=lambda what: actions[what](),
    )


def contents(target: servers.Servers, version: str, prefix: str, *, scratch: Path) -> dict[str, Any]:
    """Every message, key and group offset of the topics whose names begin so, as a client of this release sees them."""
    arguments = [f"namesrv={target.name_server}", f"prefix={prefix}"]
    command = programs.java_command(version, "Contents", arguments, header=programs.JSON, scratch=scratch)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_READ_S, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"Contents ended with {done.returncode}:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found

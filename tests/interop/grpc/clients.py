"""The clients of RocketMQ 5 and their programs: Java, Node, and the official one for Python.

Nothing is fetched here: ``../fetch.sh`` does that, and ``why_not`` says in a sentence what is missing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.interop import jvm
from tests.interop.grpc import doors
from tests.interop.wire import programs

HERE = Path(__file__).resolve().parent
JAVA = "java"
PYTHON = "python"
NODE = "node"
CLIENTS = (JAVA, PYTHON, NODE)
_RUN_S = 180.0
_JAVA_VERSION = jvm.pinned_versions("ROCKETMQ_CLIENT_JAVA_VERSION")[0]
JAVA_JARS = f"java-grpc-{_JAVA_VERSION}"
_JVM = ("-Xms128m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")

Command = tuple[list[str], Mapping[str, str]]  # with what is added to the environment


def java_command(arguments: Sequence[str], scratch: Path, *, main: str = "GrpcWire") -> Command:
    sources = [jvm.JAVA / "Json.java", *(HERE / "java").glob("*.java")]
    classes = jvm.compiled_sources(JAVA_JARS, sources)
    log = [f"-Duser.home={scratch}", f"-Drocketmq.log.root={scratch / 'logs'}", "-Drocketmq.log.level=warn"]
    class_path = f"{classes}:{jvm.jar_folder(JAVA_JARS)}/*"
    return ["java", *_JVM, *log, "-cp", class_path, main, *arguments], {}


def python_command(arguments: Sequence[str], scratch: Path) -> Command:
    """In an interpreter that sees the client's packages and nothing of ours; it logs below the home folder."""
    program = HERE / "python" / "program.py"
    return [sys.executable, "-S", str(program), *arguments], {"PYTHONPATH": str(_packages()), "HOME": str(scratch)}


def node_command(arguments: Sequence[str], scratch: Path) -> Command:
    modules = {"NODE_PATH": str(_node_modules()), "HOME": str(scratch)}
    return ["node", str(HERE / "node" / "program.js"), *arguments], modules


_COMMANDS: Mapping[str, Callable[[Sequence[str], Path], Command]] = {
    JAVA: java_command,
    PYTHON: python_command,
    NODE: node_command,
}


def run(
    client: str,
    door: doors.Door,
    names: Sequence[str],
    *,
    run: str,
    scratch: Path,
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> dict[str, programs.Result]:
    """All these scenarios in one process; ``run`` begins the names of their topics and groups."""
    door.prepare(run, tuple(names))
    words = [f"endpoints={door.address}", f"run={run}", f"scenarios={','.join(names)}", *settings]
    command, needed = _COMMANDS[client](words, scratch)
    return programs.run_scenarios(
        command, log=scratch / "client.log", timeout_s=_RUN_S, environment={**needed, **(environment or {})}
    )


def listing(client: str, scratch: Path) -> Command:
    """The command that prints the names of a client's scenarios."""
    return _COMMANDS[client](["list=1"], scratch)


def why_not(client: str) -> str | None:
    """Why this client cannot be run here, or None when it can."""
    if client == JAVA:
        return jvm.why_not(JAVA_JARS, "rocketmq-client-java")
    if client == NODE and shutil.which("node") is None:
        return "node not found: Node 18 or later is needed"
    folder = _node_modules() if client == NODE else _packages()
    return None if folder.is_dir() else f"no {client} client in {folder}: run tests/interop/fetch.sh grpc"


def _node_modules() -> Path:
    files = [HERE / "node" / name for name in ("package.json", "package-lock.json")]
    return jvm.fetched(f"node-grpc-{programs.digest(files)}") / "node_modules"


def _packages() -> Path:
    return jvm.fetched(f"python-grpc-{programs.digest([HERE / 'python' / 'requirements.txt'])}")

"""Starts the client programs of these tests: Java (any pinned release), Go, Node. Each prints one JSON line a scenario.

Nothing is fetched here: ``../fetch.sh`` does that, and the ``why_no_...`` functions say in a sentence what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop import jvm

HERE = Path(__file__).resolve().parent
JSON = "JSON"
BINARY = "ROCKETMQ"
# The client starts dozens of threads for each instance; most of them sleep.
_CLIENT_JVM = ("-Xms128m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")

Result = dict[str, Any]


def java_command(
    version: str,
    main: str,
    arguments: Sequence[str],
    *,
    header: str,
    scratch: Path,
    more_properties: Mapping[str, str] | None = None,
) -> list[str]:
    """One of our Java programs on a release's client jars. ``scratch`` gets what the client writes: logs, offsets."""
    jars = f"{version}-servers"
    sources = [jvm.JAVA / "Json.java", *(HERE / "java").glob("*.java")]
    sources += (HERE / "java" / f"rocketmq{version[0]}").glob("*.java")
    classes = jvm.compiled_sources(jars, sources)
    logback = jvm.JAVA / "logback.xml"
    properties = {
        "rocketmq.serialize.type": header,
        "rocketmq.client.localOffsetStoreDir": str(scratch / "offsets"),
        "user.home": str(scratch),
        "rocketmq.client.logUseSlf4j": "true",
        "logback.configurationFile": str(logback),
        "rmq.logback.configurationFile": str(logback),
        # An address of the machine that is not loopback would end up in client ids only, but varies.
        "java.net.preferIPv4Stack": "true",
        **(more_properties or {}),
    }
    definitions = [f"-D{name}={value}" for name, value in properties.items()]
    class_path = f"{classes}:{jvm.jar_folder(jars)}/*"
    return ["java", *_CLIENT_JVM, *jvm.OPENED_INTERNALS, *definitions, "-cp", class_path, main, *arguments]


def go_program() -> Path:
    sources = [HERE / "go" / "go.mod", HERE / "go" / "go.sum", *sorted((HERE / "go").glob("*.go"))]
    return jvm.fetched(f"go-{digest(sources)}") / "wire"


def node_modules() -> Path:
    return jvm.fetched(f"node-{digest([HERE / 'node' / name for name in ('package.json', 'package-lock.json')])}")


def node_environment(scratch: Path) -> dict[str, str]:
    """The client keeps offsets of broadcasting groups and logs below the home folder."""
    return {"NODE_PATH": str(node_modules() / "node_modules"), "HOME": str(scratch)}


def why_no_java(version: str) -> str | None:
    return jvm.why_not(f"{version}-servers", "rocketmq-tools")


def why_no_go() -> str | None:
    return None if go_program().is_file() else f"no Go client in {go_program().parent}: run tests/interop/fetch.sh go"


def why_no_node() -> str | None:
    if shutil.which("node") is None:
        return "node not found: Node 16 or later is needed"
    if not (node_modules() / "node_modules" / "ali-ons").is_dir():
        return f"no ali-ons in {node_modules()}: run tests/interop/fetch.sh node"
    return None


def run_scenarios(
    command: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    asked: Callable[[str], None] | None = None,
) -> dict[str, Result]:
    """Run a program to its end and return its lines by scenario; what it asks for on the way is done by ``asked``.

    A program that is not done in time is killed: the scenarios it never reported are missing from the answer.
    """
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(environment or {})},
        )
    guard = threading.Timer(timeout_s, process.kill)
    guard.start()
    results: dict[str, Result] = {}
    assert process.stdin is not None and process.stdout is not None
    try:
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            message = json.loads(line)
            if "ask" in message:
                assert asked is not None, f"nobody here to do {message['ask']}"
                asked(message["ask"])
                process.stdin.write("done\n")
                process.stdin.flush()
            else:
                results[message["scenario"]] = message
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    return results


def digest(files: Sequence[Path]) -> str:
    """As fetch.sh computes it: over the files one after the other."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

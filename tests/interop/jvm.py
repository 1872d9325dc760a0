"""Runs RocketMQ's own code in a JVM: finds its jars, compiles our Java sources, starts it.

Pure plumbing, used by the interop tests and by the benchmarks: it knows nothing about messages. Nothing is
downloaded here; ``fetch.sh`` does that, and ``why_not`` says in one sentence what is missing. Classes are
compiled once for each release and each state of the sources, into ``.cache``.

Imports the standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
JAVA = HERE / "java"

# RocketMQ unmaps files through JDK internals; JDK 16 and later hide those unless told otherwise.
OPENED_INTERNALS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
# A test JVM lives for a second: start fast, stay small.
SHORT_LIVED = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def pinned_versions(name: str = "ROCKETMQ_VERSIONS") -> tuple[str, ...]:
    """The releases named in versions.env, oldest first."""
    match = re.search(rf'^{name}="([^"]+)"', (HERE / "versions.env").read_text(), re.MULTILINE)
    assert match, f"versions.env has no {name} line"
    return tuple(match[1].split())


def fetched(name: str) -> Path:
    """Where fetch.sh puts what it calls by this name."""
    root = os.environ.get("FLAREMQ_ROCKETMQ_JARS")
    return (Path(root) if root else PROJECT / ".cache" / "rocketmq") / name


def jar_folder(version: str) -> Path:
    return fetched(version)


def why_not(version: str, artifact: str = "rocketmq-store") -> str | None:
    """Why this release cannot be run here, or None when it can."""
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            return f"{tool} not found: a JDK of 11 or later is needed"
    if not any(jar_folder(version).glob(f"{artifact}-*.jar")):
        return f"no jars of RocketMQ {version} in {_shown(jar_folder(version))}: run tests/interop/fetch.sh"
    return None


def _shown(folder: Path) -> Path:
    """As it is called in notes that go into the repository."""
    return folder.relative_to(PROJECT) if folder.is_relative_to(PROJECT) else folder


def compiled(version: str, extra_sources: Sequence[Path] = ()) -> Path:
    """Folder with the classes of our Java sources (and ``extra_sources``) compiled against this release."""
    reason = why_not(version)
    if reason is not None:
        raise RuntimeError(reason)
    generation = version.split(".")[0]
    return compiled_sources(
        version, [*JAVA.glob("*.java"), *(JAVA / f"rocketmq{generation}").glob("*.java"), *extra_sources]
    )


def compiled_sources(version: str, sources: Iterable[Path]) -> Path:
    """Folder with the classes of these sources, compiled against the jars in ``jar_folder(version)``."""
    sources = sorted(sources)
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    target = PROJECT / ".cache" / "interop-classes" / f"{version}-{digest.hexdigest()[:16]}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            classes = Path(scratch) / "classes"
            command = ["javac", "-nowarn", "-encoding", "UTF-8", "-d", str(classes)]
            command += ["-cp", f"{jar_folder(version)}/*", *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"javac failed for RocketMQ {version}:\n{done.stderr}")
            try:
                classes.rename(target)
            except OSError:  # another process was faster; its classes are the same
                if not target.is_dir():
                    raise
    return target


def command(
    version: str,
    main: str,
    arguments: Iterable[str],
    *,
    flags: Sequence[str] = SHORT_LIVED,
    extra_sources: Sequence[Path] = (),
) -> list[str]:
    classes = compiled(version, extra_sources)
    logging = [
        f"-D{name}={JAVA / 'logback.xml'}" for name in ("logback.configurationFile", "rmq.logback.configurationFile")
    ]
    class_path = f"{classes}:{jar_folder(version)}/*"
    return ["java", *flags, *OPENED_INTERNALS, *logging, "-cp", class_path, main, *arguments]


def run(version: str, main: str, arguments: Iterable[str], *, timeout_s: float = 120) -> None:
    """Run one of our Java programs to its end; its error output is the message if it fails."""
    done = subprocess.run(
        command(version, main, arguments), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{main} on RocketMQ {version} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def start(version: str, main: str, arguments: Iterable[str], *, errors: Path) -> subprocess.Popen[str]:
    """Start one of our Java programs; standard input and output are pipes, error output goes to a file."""
    with errors.open("w") as stderr:
        return subprocess.Popen(
            command(version, main, arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

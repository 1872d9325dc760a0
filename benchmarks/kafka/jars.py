"""Kafka and Spark's Kafka connector as jars from Maven: fetched once into ``.cache/kafka`` of the project.

``$FLAREMQ_KAFKA_JARS`` names another folder, with ``server/`` and ``connector/`` below it. A folder appears only when
it is complete, so an interrupted run leaves nothing half done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.child import PROJECT

KAFKA_VERSION = "4.3.1"
SPARK_VERSION = "4.2.0"  # the newest one that the connector is published for
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_SERVER = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-server:{KAFKA_VERSION}",
    "org.slf4j:slf4j-nop:2.0.16",
)
# One by one: all of Spark hangs on the connector's dependencies, and PySpark has that already.
_CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def why_not() -> str | None:
    """Why Kafka cannot be had here, or None."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None and not (tool == "mvn" and _is_complete()):
            return f"{tool} not found"
    return None


def server_jars() -> Path:
    """Kafka itself with everything it needs."""
    return _folder("server", _copy_with_dependencies)


def connector_jars() -> Path:
    """What ``spark.jars`` gets."""
    return _folder("connector", _copy_one_by_one)


def _root() -> Path:
    named = os.environ.get("FLAREMQ_KAFKA_JARS")
    return Path(named) if named else PROJECT / ".cache" / "kafka"


def _is_complete() -> bool:
    return all((_root() / name).is_dir() for name in ("server", "connector"))


def _folder(name: str, fetch: Callable[[Path, Path], None]) -> Path:
    target = _root() / name
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch.", dir=target.parent) as scratch:
            made = Path(scratch) / "jars"
            made.mkdir()
            fetch(Path(scratch), made)
            made.rename(target)
    return target


def _copy_with_dependencies(scratch: Path, target: Path) -> None:
    dependencies = ""
    for artifact in _SERVER:
        group, name, version = artifact.split(":")
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            "</dependency>"
        )
    (scratch / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>flaremq</groupId><artifactId>benchmark-peer</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    _maven("-f", str(scratch / "pom.xml"), f"{_PLUGIN}:copy-dependencies", "-DincludeScope=runtime", target=target)


def _copy_one_by_one(_scratch: Path, target: Path) -> None:
    for artifact in _CONNECTOR:
        _maven(f"{_PLUGIN}:copy", f"-Dartifact={artifact}", target=target)


def _maven(*arguments: str, target: Path) -> None:
    # -C: a jar whose checksum does not match what the registry states fails the run.
    command = ["mvn", "-q", "-B", "-C", *arguments, f"-DoutputDirectory={target}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not fetch it: {done.stdout[-2000:]}{done.stderr[-1000:]}")

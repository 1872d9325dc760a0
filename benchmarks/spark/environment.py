"""A Python with the one PySpark that both sides can run on: Kafka's connector is not published for the newest.

Made once in ``.cache``; ``$FLAREMQ_SPARK_VENV`` names one that exists already.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys

from benchmarks.child import PROJECT
from benchmarks.environments import interpreter_of
from benchmarks.kafka.jars import SPARK_VERSION

_REQUIREMENTS = PROJECT / "requirements" / "core.txt"


def python() -> str:
    """Its interpreter. FlareMQ itself comes from the sources, by ``variables``."""
    installs = ["-r", str(_REQUIREMENTS)], [f"pyspark[sql]=={SPARK_VERSION}"]
    return interpreter_of("FLAREMQ_SPARK_VENV", f"spark-{SPARK_VERSION}-{_digest()}", *installs)


def why_no_lakehouse() -> str | None:
    """Why no table can be written there, or None; what it takes is put into the environment once."""
    interpreter = str(python())
    if subprocess.run([interpreter, "-c", "import pyiceberg.catalog.sql"], capture_output=True).returncode == 0:
        return None
    wanted = f"pyiceberg[pyarrow,sql-sqlite]=={importlib.metadata.version('pyiceberg')}"
    pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    done = subprocess.run(pip, capture_output=True, text=True)
    return None if done.returncode == 0 else f"{wanted} could not be installed: {done.stderr[-300:]}"


def _digest() -> str:
    """Other requirements make another environment."""
    return hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:8]


def variables() -> dict[str, str]:
    """For the processes of both sides."""
    interpreter = python()
    return os.environ | {
        "PYTHONPATH": os.pathsep.join((str(PROJECT / "src"), str(PROJECT))),
        "PYSPARK_PYTHON": interpreter,
        "PYSPARK_DRIVER_PYTHON": interpreter,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def why_not() -> str | None:
    """Why Spark cannot be run here, or None."""
    if shutil.which("java") is None:
        return "Spark needs Java 17"
    try:
        done = subprocess.run([python(), "-c", "import pyspark; print(pyspark.__version__)"], capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no environment with PySpark {SPARK_VERSION} could be made: {error}"
    if done.stdout.decode().strip() != SPARK_VERSION:
        return f"{python()} does not have PySpark {SPARK_VERSION}: {done.stderr.decode()[-300:]}"
    print(f"  Spark {SPARK_VERSION} on {python()}", file=sys.stderr)
    return None

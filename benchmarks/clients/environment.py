"""A Python with Kafka's clients, made once in ``.cache``: they are compared with, not needed.

``$FLAREMQ_CLIENTS_VENV`` names one that exists already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

from benchmarks.child import PROJECT

AIOKAFKA = "0.14.0"
CONFLUENT = "2.16.1"
# uvloop because our client runs on it too; aiokafka gets the same loop.
_PACKAGES = (f"aiokafka=={AIOKAFKA}", f"confluent-kafka=={CONFLUENT}", "uvloop")


def python() -> Path:
    named = os.environ.get("FLAREMQ_CLIENTS_VENV")
    folder = Path(named) if named else PROJECT / ".cache" / f"clients-{AIOKAFKA}-{CONFLUENT}"
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        venv.create(partial, with_pip=True)
        pip = [str(partial / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *_PACKAGES], check=True)
        partial.rename(folder)  # nothing in it is run by a path of its own but the interpreter
    return interpreter


def why_not() -> str | None:
    """Why Kafka's clients cannot be had here, or None."""
    try:
        subprocess.run([str(python()), "-c", "import aiokafka, confluent_kafka"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no environment with {', '.join(_PACKAGES)} could be made: {error}"
    return None

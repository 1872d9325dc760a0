"""A Python with Kafka's clients, made once in ``.cache``: they are compared with, not needed.

``$FLAREMQ_CLIENTS_VENV`` names one that exists already.
"""

from __future__ import annotations

import subprocess

from benchmarks.environments import interpreter_of

AIOKAFKA = "0.14.0"
CONFLUENT = "2.16.1"
# uvloop because our client runs on it too; aiokafka gets the same loop.
_PACKAGES = (f"aiokafka=={AIOKAFKA}", f"confluent-kafka=={CONFLUENT}", "uvloop")


def python() -> str:
    return interpreter_of("FLAREMQ_CLIENTS_VENV", f"clients-{AIOKAFKA}-{CONFLUENT}", [*_PACKAGES])


def why_not() -> str | None:
    """Why Kafka's clients cannot be had here, or None."""
    try:
        subprocess.run([python(), "-c", "import aiokafka, confluent_kafka"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no environment with {', '.join(_PACKAGES)} could be made: {error}"
    return None

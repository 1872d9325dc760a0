"""One side of the comparison: a process with a Spark session that runs cases when told, and answers in JSON.

    python -m benchmarks.spark.side flaremq|kafka SETTINGS-AS-JSON

A line ``{"case": NAME, ...}`` on standard input is one run of that case; the answer has its ``seconds``, its ``check``
(what was computed, the same on both sides), and the peak memory of the Python workers meanwhile. ``Side`` is the
caller's end. Both sessions are set up alike, by what the product has for its users, and live through the comparison.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.child import PROJECT
from benchmarks.process_tree import Load, WorkerMemory
from benchmarks.spark import environment
from benchmarks.timing import Row


class Side:
    """A running side; to use with ``with``."""

    def __init__(self, name: str, settings: dict[str, Any], folder: Path) -> None:
        self.name = name
        self.servers: list[int] = []  # processes whose time is this side's too
        self._errors = folder / f"{name}.err"
        command = [environment.python(), "-m", "benchmarks.spark.side", name, json.dumps(settings)]
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=environment.variables(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()  # it ends by itself then, and its JVM with it
            self._process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def run(self, case: str, **arguments: object) -> Row:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"case": case, "servers": self.servers, **arguments}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                row: Row = json.loads(line)
                if "error" in row:
                    raise RuntimeError(f"{self.name}, {case}: {row['error']}")
                return row
        raise RuntimeError(f"{self.name}, {case}: the process ended\n{self._errors.read_text()[-3000:]}")


def session(name: str, settings: dict[str, Any]) -> Any:
    """Ours as the product sets it up for its users; Kafka's with the same settings, and the connector's jars.

    What the benchmark adds is the same for both: memory, places for files, as many partitions as cores.
    """
    from flaremq.pipeline.jobs.session import spark_session

    scratch = settings["scratch"]
    chosen = {
        "spark.driver.memory": "4g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": f"{scratch}/spark-{name}",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse-{name}",
        **settings.get("spark", {}),
    }
    if settings.get("jars"):
        chosen["spark.jars"] = ",".join(str(path) for path in sorted(Path(settings["jars"]).glob("*.jar")))
    return spark_session("local[2]", name=name, settings=chosen)


def main(argv: list[str]) -> int:
    name, settings = argv[0], json.loads(argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Spark prints must not look like an answer
    from benchmarks.spark import flaremq_cases, kafka_cases

    spark = session(name, settings)
    cases: dict[str, Callable[..., Row]] = (flaremq_cases if name == "flaremq" else kafka_cases).cases(spark, settings)
    for line in sys.stdin:
        request = json.loads(line)
        case, servers = request.pop("case"), request.pop("servers", [])
        memory, load, begin = WorkerMemory(), Load([os.getpid(), *servers]), time.perf_counter()
        try:
            row = cases[case](**request)
            row = {"seconds": round(time.perf_counter() - begin, 4), **row, **memory.close(), **load.describe()}
        except Exception as error:
            memory.close()
            traceback.print_exc()
            row = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(row), file=answers, flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

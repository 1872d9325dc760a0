"""A real Spark standalone cluster on loopback: a master and two workers of one core each, from the installed PySpark.

Executors run a Python that has the third-party packages but not FlareMQ; what a driver ships with ``--py-files`` is all
they get. Only processes that were started here, and their children, are ever killed.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from tests.support.ports import free_ports

DRIVERS = Path(__file__).resolve().parent / "drivers"
SPARK_HOME = Path(pyspark.__file__).parent
_READY_S = 120.0
_DRIVER_S = 900.0
_SOURCES = Path(__file__).resolve().parents[3] / "src"
# Small and quick to start rather than fast.
_QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def bare_python(folder: Path) -> Path:
    """An interpreter that sees every installed package but this project."""
    venv.create(folder, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = folder / "lib" / version / "site-packages"
    for place in map(Path, site.getsitepackages()):
        for entry in place.iterdir():
            is_ours = "flaremq" in entry.name.lower() or (
                entry.suffix == ".pth" and str(_SOURCES) in entry.read_text(encoding="utf-8")
            )
            if not is_ours and not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


class StandaloneCluster:
    """To use with ``with``. ``submit`` runs a driver program on it."""

    def __init__(self, folder: Path, python: Path, *, workers: int = 2) -> None:
        self._folder = folder
        self._python = python
        self._port = free_ports()
        self._workers = workers
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._submitted = 0

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def unpacked(self) -> Path:
        """Where executors unpack what was shipped."""
        return self._folder / "unpacked"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", "master.Master", "--port", str(self._port))
            self._wait_for("master", "I have been elected leader")
            for number in range(self._workers):
                work = self._folder / f"work-{number}"
                options = ["--cores", "1", "--memory", "1g", "--work-dir", str(work), self.master]
                self._start(f"worker-{number}", "worker.Worker", *options)
            for number in range(self._workers):
                self._wait_for(f"worker-{number}", "Successfully registered with master")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in reversed(self._processes.values()):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def submit(
        self,
        program: Path,
        arguments: Mapping[str, Any],
        *,
        py_files: Sequence[Path] = (),
        python_path: Sequence[Path] = (),
        settings: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run ``program ARGUMENTS-AS-JSON`` as a driver; what it wrote to the file ``$RESULT``. ``python_path`` is the
        driver's alone."""
        self._submitted += 1
        folder = self._folder / f"driver-{self._submitted}"
        folder.mkdir()
        result, output = folder / "result.json", folder / "output"
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master]
        if py_files:
            command += ["--py-files", ",".join(map(str, py_files))]
        chosen = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "768m",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": _QUICK_JVM,
            "spark.executor.extraJavaOptions": _QUICK_JVM,
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **(settings or {}),
        }
        for key, value in chosen.items():
            command += ["--conf", f"{key}={value}"]
        environment = self._environment() | {"RESULT": str(result)}
        if python_path:
            environment["PYTHONPATH"] = os.pathsep.join(map(str, python_path))
        with output.open("wb") as file:
            command += [str(program.resolve()), json.dumps(dict(arguments))]
            done = subprocess.run(
                command, env=environment, cwd=folder, stdout=file, stderr=file, timeout=_DRIVER_S, check=False
            )
        if done.returncode != 0 or not result.exists():
            raise AssertionError(f"{program.name} ended with {done.returncode}\n{_tail(output)}{self._errors()}")
        answer: dict[str, Any] = json.loads(result.read_text())
        return answer

    def _start(self, name: str, main: str, *options: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *options]
        with (self._folder / f"{name}.out").open("wb") as output:
            self._processes[name] = subprocess.Popen(
                command, env=self._environment(), cwd=self._folder, stdout=output, stderr=output
            )

    def _environment(self) -> dict[str, str]:
        """Nothing of this process's Python: neither its path nor its interpreter."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))
        }
        return kept | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_JVM,
            "PYSPARK_PYTHON": str(self._python),
            "PYSPARK_DRIVER_PYTHON": str(self._python),
            "FLAREMQ_CACHE_DIR": str(self.unpacked),
        }

    def _wait_for(self, name: str, text: str) -> None:
        path, deadline = self._folder / f"{name}.out", time.monotonic() + _READY_S
        while text not in path.read_text(errors="replace"):
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{name} did not come up\n{_tail(path)}")
            time.sleep(0.1)

    def _errors(self) -> str:
        """What the executors of the last application said."""
        found = sorted(self._folder.glob("work-*/app-*/*/stderr"), key=lambda path: path.stat().st_mtime)
        return "".join(f"\n--- {path.relative_to(self._folder)}\n{_tail(path)}" for path in found[-2:])


def answer(done: dict[str, Any], step: str) -> Any:
    """What a step of a driver gave."""
    assert "error" not in done[step], done[step]["error"]
    return done[step]["answer"]


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-6000:]

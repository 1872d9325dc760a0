"""A real server of Spark Connect in a process of its own, whose Python has all packages but FlareMQ."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.support.ports import free_ports

SPARK_HOME = Path(pyspark.__file__).parent
_READY_S = 120.0
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """To use with ``with``; ``url`` is what a client asks for."""

    def __init__(self, folder: Path, python: Path) -> None:
        self._folder = folder
        self._python = python
        self._port = free_ports()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    @property
    def output(self) -> str:
        return (self._folder / "output").read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(self._folder / "local"),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", "--class", _MAIN]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
        kept |= {"PYSPARK_PYTHON": str(self._python), "FLAREMQ_CACHE_DIR": str(self._folder / "unpacked")}
        with (self._folder / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "spark-internal"], env=kept, cwd=self._folder, stdout=output, stderr=output
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        end = time.monotonic() + _READY_S
        while "Spark Connect server started at" not in self.output:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the Connect server did not start:\n{self.output[-4000:]}")
            time.sleep(0.1)

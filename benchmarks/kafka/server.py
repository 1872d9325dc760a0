"""A single Kafka broker (KRaft, loopback, free ports) for the length of a benchmark, and the program that fills it.

Settings are Kafka's defaults where they matter: acknowledged means in the page cache. The load comes from
``java/KafkaLoad.java``, because Kafka's own producer is the fastest there is and needs no further package here.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.kafka import jars
from benchmarks.timing import Row

_LOAD = Path(__file__).resolve().parent.parent / "java" / "KafkaLoad.java"
_JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")
_READY_S = 60.0
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=8
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.hours=-1
log.message.timestamp.before.max.ms=9223372036854775807
"""


class KafkaServer:
    """To use with ``with``; ``address`` is what ``kafka.bootstrap.servers`` takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        port, controller = _free_ports(2)
        self.address = f"127.0.0.1:{port}"
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = folder / "server.properties"
        self._settings.write_text(_SETTINGS.format(port=port, controller=controller, data=folder / "data"))
        self._class_path = f"{jars.server_jars()}/*"

    def __enter__(self) -> Self:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ["java", "-cp", self._class_path, "kafka.tools.StorageTool", "format", "-t", identity]
        subprocess.run([*tool, "-c", str(self._settings)], check=True, capture_output=True)
        with (self._folder / "server.out").open("wb") as output:
            command = ["java", *_JVM, "-cp", self._class_path, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "Kafka runs inside `with` only"
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def load(self, mode: str, **arguments: object) -> Row:
        """Run the load program to its end; its answer."""
        done = subprocess.run(self.load_command(mode, **arguments), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"KafkaLoad {mode} {arguments} ended with {done.returncode}\n{done.stderr[-4000:]}")
        row: Row = json.loads(done.stdout.strip().splitlines()[-1])
        return row

    def load_command(self, mode: str, **arguments: object) -> list[str]:
        pairs = [f"{name}={value}" for name, value in arguments.items()]
        program = ["java", "-Xmx768m", "-XX:+UseG1GC", "-cp", self._class_path, str(_LOAD)]
        return [*program, mode, f"bootstrap={self.address}", *pairs]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka did not start: {(self._folder / 'server.out').read_text()[-2000:]}")
            try:
                self.load("topic", topic="ready", partitions=1)
                return
            except RuntimeError:
                time.sleep(0.5)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
